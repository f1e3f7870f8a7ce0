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

"""The client of one array."""

from collections.abc import Callable
import concurrent.futures
import contextlib
from typing import TypeVar

import requests.adapters

from cinder_k2 import polling
from cinder_k2.rest import capability_names
from cinder_k2.rest import collection
from cinder_k2.rest import raw
from cinder_k2.rest import reads
from cinder_k2.rest import records
from cinder_k2.rest import session as rest_session
from cinder_k2.rest import settings as rest_settings

S = TypeVar('S')
T = TypeVar('T')


class Client:
    """Talks to one array; may be used by any number of threads.

    ``adapter`` replaces the network and ``clock`` the machine's clock in
    tests.
    """

    def __init__(self, settings: rest_settings.Settings,
                 adapter: requests.adapters.BaseAdapter | None = None,
                 clock: polling.Clock | None = None) -> None:
        self._session = session = rest_session.Session(
            settings, adapter, clock)
        self.clock = session.clock
        self.capabilities = session.capabilities
        self.attempts = session.attempts
        self.address = session.transport.address
        self.base_url = session.transport.base_url
        of = collection.Collection
        self.volumes = of(session, records.Volume)
        self.volume_groups = of(session, records.VolumeGroup)
        self.snapshots = of(session, records.Snapshot)
        self.volsnaps = of(session, records.Volsnap)
        self.mappings = of(session, records.Mapping)
        self.hosts = of(session, records.Host)
        self.host_groups = of(session, records.HostGroup)
        self.host_iqns = of(session, records.HostIqn)
        self.host_fc_ports = of(session, records.HostFcPort)
        self.host_auth_profiles = of(session, records.HostAuthProfile)
        self.retention_policies = of(session, records.RetentionPolicy)
        self.peer_arrays = of(session, records.PeerArray)
        self.peer_volumes = of(session, records.PeerVolume)
        self.replication_sessions = of(session, records.ReplicationSession)
        self.net_ips = of(session, records.NetIp)
        self.fc_ports = of(session, records.FcPort)
        self.raw = raw.Raw(session)
        self._state = reads.Reads(session, records.SystemState)
        self._capacity = reads.Reads(session, records.Capacity)
        self._performance = reads.Reads(session, records.Performance)

    def __repr__(self) -> str:
        return f'<Client of {self.base_url}>'

    def system_state(self) -> records.SystemState:
        """The array's properties and state (section 7.1)."""
        state = self._state.first()
        version = (state.system_id, state.rest_api_version,
                   state.system_version)
        # A reply that lacks one of these does not mean a new version.
        if all(version):
            self.capabilities.note_version(' '.join(map(str, version)))
        return state

    def capacity(self) -> records.Capacity:
        """Used and free space in KiB (section 7.2)."""
        return self._capacity.first()

    def performance(self) -> records.Performance:
        """The load of the last five minutes (section 8).

        :raises errors.BadReply: the array has no figures (STA-3)
        :raises errors.NotOffered: it does not offer statistics
        """
        return self._session.run(self.attempts.requiring(
            capability_names.STATISTICS,
            lambda: self._performance.reading_first(('__resolution', '5m')),
            is_read=True, may_recover=True))

    def deadline(self, seconds: float | None = None, *, fresh: bool = False,
                 outage: float | None = None
                 ) -> contextlib.AbstractContextManager[object]:
        """Limit calls of this thread in the context to ``seconds``.

        The limit is for all of them together; without ``seconds`` it is the
        deadline of the settings. Of nested deadlines the shorter one wins,
        unless the inner one is ``fresh``, which is needed to undo operations
        that ran out of time. With ``outage``, a call ends when the array has
        accepted no connection, or its name was unknown, for so many seconds.
        """
        return self._session.deadline(seconds, fresh=fresh, outage=outage)

    def concurrently(self, first: Callable[[], T], second: Callable[[], S]
                     ) -> tuple[T, S]:
        """Carry out two reads at once, under the deadline of this thread.

        :returns: the results of both; the first error is raised
        """
        # This is never called within a trial: only code of this package tries
        # capabilities, and it does not use this method. Each of the two reads
        # has its own trials.
        with self._session.deadline() as deadline, \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            def in_time() -> S:
                with self._session.deadline(deadline.left(), fresh=True,
                                            outage=deadline.outage):
                    return second()
            future = pool.submit(in_time)
            return first(), future.result()

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._session.transport.close()
