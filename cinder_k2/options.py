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

"""Options of a back end in cinder.conf."""

from oslo_config import cfg
from oslo_config import types

from cinder_k2 import volume_types

k2_opts = [
    cfg.StrOpt('k2_tls_fingerprint',
               help='SHA-256 fingerprint of the array\'s HTTPS certificate, '
                    '64 hexadecimal digits with or without colons. Set it '
                    'for an array that signs its own certificate: the driver '
                    'then talks to no other machine, and needs no '
                    'certificate authority. It takes the place of '
                    'driver_ssl_cert_verify. To read it: openssl s_client '
                    '-connect <san_ip>:443 </dev/null | openssl x509 '
                    '-noout -fingerprint -sha256'),
    cfg.StrOpt('k2_sdp_id',
               help='Id of the data pod, if san_ip is the address of the '
                    'vendor\'s cloud manager and not of the array itself. '
                    'Needs k2_app_token.'),
    cfg.StrOpt('k2_app_token',
               secret=True,
               help='Application token of the vendor\'s cloud manager, in '
                    'place of san_login and san_password. Needs k2_sdp_id.'),
    cfg.FloatOpt('k2_connect_timeout',
                 default=10.0, min=0.1,
                 help='Seconds to wait for a connection to the array\'s '
                      'management address.'),
    cfg.FloatOpt('k2_read_timeout',
                 default=60.0, min=0.1,
                 help='Seconds to wait for the array\'s reply to one '
                      'request.'),
    cfg.FloatOpt('k2_retry_timeout',
                 default=180.0, min=1,
                 help='Seconds after which the driver gives up an operation '
                      'on the array, repeats included, when the array is '
                      'busy or does not answer.'),
    cfg.IntOpt('k2_max_concurrent_writes',
               default=32, min=1, max=64,
               help='The most changes that the driver has under way on the '
                    'array at one time. The driver finds out how many the '
                    'array stands and stays below that; lower this only to '
                    'leave room for other users of the array.'),
    cfg.ListOpt('k2_disabled_capabilities',
                default=[],
                help='Capabilities of the array that the driver is not to '
                     'use, by the names that "k2-admin capabilities" shows, '
                     'such as thin clones: creations:volumes:is_thin_clone. '
                     'A name stands for all that begin with it and a colon: '
                     'bulk turns off all calls about several objects. The '
                     'driver does without them what the in-tree driver could '
                     'do, only more slowly.'),
    cfg.ListOpt('k2_iscsi_cidrs',
                default=['0.0.0.0/0', '::/0'],
                help='Networks, in CIDR notation, whose iSCSI portals are '
                     'offered to hosts. Portals of the array outside them '
                     'are left out. All by default.'),
    cfg.BoolOpt('k2_discard',
                default=True,
                help='Tell hosts that volumes take discard (TRIM, UNMAP), so '
                     'that a guest can give space back to the array. A guest '
                     'needs a disk bus that supports it, such as scsi with '
                     'the image property hw_scsi_model=virtio-scsi. Turn it '
                     'off if the array is to reclaim space by itself alone. '
                     'A change counts from the next attachment on.'),
    cfg.FloatOpt('k2_reconciliation_interval',
                 default=600.0, min=360,
                 help='Seconds within which the mapping of a volume to a host '
                      'is removed that a detach left in place for another '
                      'attachment to the same host, when that has left, too. '
                      'It is looked at when Cinder asks for statistics, so '
                      'backend_stats_polling_interval may be a sixth of it '
                      'at most.'),
    cfg.StrOpt('k2_host_type',
               default='Linux',
               choices=['Linux', 'Windows', 'ESX', 'AIX', 'Solaris'],
               help='Operating system that the driver gives to hosts that it '
                    'creates on the array. Hosts that are there keep theirs. '
                    'All members of a host group must have one type unless '
                    'the group allows others.'),
    cfg.ListOpt('k2_clone_strategies',
                default=list(volume_types.STRATEGIES),
                item_type=types.String(choices=volume_types.STRATEGIES),
                help='How to make a clone or a volume from a snapshot, in '
                     'the order in which to try. "thin": a thin clone of the '
                     'array, in a volume group of its own (newer arrays; '
                     'same deduplication). "view": a writable view of the '
                     'snapshot (every array; same size and deduplication). '
                     '"copy": a new volume into which this host copies the '
                     'data (every array, size and type; takes its time). '
                     'A volume type can choose others with the extra spec '
                     'kaminario:clone_strategy.'),
    cfg.BoolOpt('k2_unmanage_restores_names',
                default=False,
                help='Give a volume and its volume group their original '
                     'names on the array back when Cinder stops managing '
                     'the volume. Without it they keep the names that '
                     'Cinder gave them.'),
    cfg.StrOpt('k2_retention_policy',
               default='Best_Effort_Retention',
               help='Name of the array\'s retention policy that snapshots '
                    'are made with. The driver also tells the array never '
                    'to delete a snapshot by itself.'),
    cfg.IntOpt('k2_max_concurrent_copies',
               default=4, min=1,
               help='How many volumes this cinder-volume copies at one time, '
                    'for clones that the array cannot make and for reverts '
                    'that it cannot do. Others wait for their turn.'),
    cfg.FloatOpt('k2_copy_timeout',
                 default=21600.0, min=1,
                 help='Seconds that such a copy may take, and may wait for '
                      'its turn.'),
    cfg.StrOpt('k2_replication_password',
               secret=True,
               help='Password for every array in replication_device that '
                    'has no password there. It can hold any character, also '
                    'those that end a value in replication_device: a comma, '
                    'or a blank at an end if the whole stands in quotes. As '
                    'in every option, write $$ for a dollar sign. Being an '
                    'option of its own, it can come from a secret store.'),
    cfg.StrOpt('k2_replication_retention_policy',
               default='Replication_Retention',
               help='Name of the retention policy, on each array, for the '
                    'snapshots that replication takes.'),
    cfg.FloatOpt('k2_failback_timeout',
                 default=86400.0, min=1,
                 help='Seconds within which all data must have come back to '
                      'an array before volumes fail back to it. Those whose '
                      'data has not are left where they are, and can be '
                      'failed back later.'),
]

# Options that the in-tree driver defines too, under the same names.
shared_opts = [
    cfg.BoolOpt('auto_calc_max_oversubscription_ratio',
                default=False,
                help='Report the ratio of provisioned to used capacity, as '
                     'the array measures it, in place of '
                     'max_over_subscription_ratio.'),
    cfg.BoolOpt('disable_discovery',
                default=False,
                help='Kept so that an older cinder.conf loads; has no effect. '
                     'The driver names all portals of the array to every '
                     'host, so that no discovery is needed.'),
]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Entry point ``oslo.config.opts``: for oslo-config-generator."""
    return [('backend_defaults', [*k2_opts, *shared_opts])]
