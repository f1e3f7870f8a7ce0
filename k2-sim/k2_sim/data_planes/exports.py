# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What the data plane exports, derived from the rows of the state."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import pathlib

from k2_sim.data_planes import base
from k2_sim import profiles
from k2_sim.rules import network
from k2_sim.rules import volumes as volume_rules
from k2_sim.state import catalogue
from k2_sim.state import schema
from k2_sim.state.schema import Row
from k2_sim.state import store as store_module

_HOSTS = catalogue.HOSTS.name
_HOST_FC_PORTS = catalogue.HOST_FC_PORTS.name
_MAPPINGS = catalogue.MAPPINGS.name
KIB = 1024
#: The LUN of the array's internal volume: mappings have 1 to 254 (MAP-2), and
#: tgt has a controller at 0.
CONTROL_LUN = 255
_CONTROL: Row = {'volume': f'/volumes/{volume_rules.CTRL_ID}',
                 'lun': CONTROL_LUN}
# The relevant fields, by resource.
_FIELDS: dict[str, tuple[str, ...]] = {
    _MAPPINGS: ('host', 'volume', 'lun'),
    _HOSTS: ('host_group', 'auth_profile'),
    catalogue.HOST_IQNS.name: ('iqn', 'host'),
    _HOST_FC_PORTS: ('pwwn', 'host'),
    catalogue.HOST_AUTH_PROFILES.name: ('username', 'password'),
    catalogue.VOLUMES.name: ('size', 'content', 'read_only', 'scsi_sn'),
    catalogue.VOLSNAPS.name: ('content', 'scsi_sn'),
    network.NET_IPS: ('ip_address', 'wan_port'),
    'system/state': ('iscsi_qualified_target_name',)}
# Relevant only while mapped; creation and deletion happen unmapped.
_MAPPED_ONLY = (catalogue.VOLUMES.name, catalogue.VOLSNAPS.name)


def is_affected(resource: schema.Resource, old: Row | None, new: Row | None,
                fc: bool) -> bool:
    """Whether the change of a row may change what is exported.

    fc: whether Fibre Channel is exported, too.
    """
    if resource.name not in _FIELDS:
        return False
    if resource.name == _HOST_FC_PORTS and not fc:
        return False
    if resource.name in _MAPPED_ONLY and (old is None or new is None):
        return False
    before, after = old or {}, new or {}
    return any(before.get(name) != after.get(name)
               for name in _FIELDS[resource.name])


def mapped(store: store_module.Store, behaviors: profiles.Behaviors, fc: bool
           ) -> list[str]:
    """References of the volumes and volsnaps that hosts can see."""
    found = (mapping['volume'] for host in store.rows(_HOSTS)
             if _iqns(store, host) or fc and _ports(store, host)
             for mapping in _mappings(store, behaviors, host))
    return list(dict.fromkeys(found))


def of(store: store_module.Store, behaviors: profiles.Behaviors,
       files: Mapping[str, pathlib.Path], fc: bool) -> base.Exports:
    """Everything to be exported.

    files: the data files, by reference to volume or volsnap; those without a
    file are omitted. fc: whether Fibre Channel is exported, too.
    """
    vendor, product = behaviors.scsi_product.split()
    exports = base.Exports(
        store.at('/system/state/1')['iscsi_qualified_target_name'],
        tuple(_portals(store)), vendor, product,
        tuple(_hosts(store, behaviors, files, fc)))
    if not fc:
        return exports
    return dataclasses.replace(
        exports, fc_ports=_names_of(store.rows(catalogue.FC_PORTS.name)),
        known_ports=_names_of(store.rows(_HOST_FC_PORTS)))


def volumes(store: store_module.Store, refs: Iterable[str]
            ) -> dict[str, int]:
    """The ids of the volumes among the references, by serial."""
    found = {}
    for ref in refs:
        resource, number = schema.split_ref(ref)
        if resource == catalogue.VOLUMES.name and store.exists(ref):
            found[str(store.at(ref)['scsi_sn'])] = number
    return found


def _portals(store: store_module.Store) -> Iterator[str]:
    """Addresses that are not for replication (NET-1)."""
    for row in store.rows(network.NET_IPS):
        if row['wan_port'] is None:
            yield row['ip_address']


def _hosts(store: store_module.Store, behaviors: profiles.Behaviors,
           files: Mapping[str, pathlib.Path], fc: bool
           ) -> Iterator[base.Access]:
    """The hosts that have initiators and at least one LUN."""
    for host in store.rows(_HOSTS):
        iqns = _iqns(store, host)
        ports = _ports(store, host) if fc else ()
        luns = tuple(_lun(store, mapping, files[mapping['volume']])
                     for mapping in _mappings(store, behaviors, host)
                     if mapping['volume'] in files)
        if luns and (iqns or ports):
            yield base.Access(iqns, luns, _account(store, host), ports)


def _iqns(store: store_module.Store, host: Row) -> tuple[str, ...]:
    ref = schema.make_ref(_HOSTS, host['id'])
    return tuple(row['iqn'] for row in store.find(
        catalogue.HOST_IQNS.name, 'host', ref))


def _ports(store: store_module.Store, host: Row) -> tuple[str, ...]:
    ref = schema.make_ref(_HOSTS, host['id'])
    return _names_of(store.find(_HOST_FC_PORTS, 'host', ref))


def _names_of(ports: Iterable[Row]) -> tuple[str, ...]:
    return tuple(row['pwwn'] for row in ports)


def _mappings(store: store_module.Store, behaviors: profiles.Behaviors,
              host: Row) -> Iterator[Row]:
    """Mappings of the host and its group (MAP-5) that have a LUN (MAP-3).

    Includes that of the array's internal volume (VOL-14), which is in no
    table.
    """
    if behaviors.control_lun:
        yield _CONTROL
    for ref in (schema.make_ref(_HOSTS, host['id']), host['host_group']):
        for mapping in store.find(_MAPPINGS, 'host', ref) if ref else ():
            if mapping['lun'] is not None:
                yield mapping


def _lun(store: store_module.Store, mapping: Row, path: pathlib.Path
         ) -> base.Lun:
    row = store.at(mapping['volume'])
    return base.Lun(mapping['lun'], path, row['size'] * KIB, row['scsi_sn'],
                    bool(row.get('read_only')) or mapping is _CONTROL)


def _account(store: store_module.Store, host: Row) -> base.Account | None:
    if host.get('auth_profile') is None:
        return None
    profile = store.at(host['auth_profile'])
    return base.Account(profile['username'], profile['password'])
