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

"""The effects of a failover of a back end, and the commands for it."""

from collections.abc import Iterator

import array_check
import backend as backends

_NONE = 'no replication-devices, so nothing can fail over'
# The kind of problem that k2-admin reports if arrays cannot reach each other.
_PEER = 'peer'
_FOR_EACH = (
    '# For each unit of cinder with volumes here, with its own host:')
_FOR_CLUSTER = '# Once for the whole cluster, with any of its hosts:'
_STEPS = (
    '# 1. Freeze the back end, so that nothing is created or deleted.',
    'cinder freeze-host {service}',
    '# 2. Stop all instances that still write to the current array.',
    '# 3. Fail over; the command returns immediately.',
    'cinder failover-host {service} --backend_id {target}',
    '# 4. Wait until the service shows failed-over, then check the volumes.',
    'cinder --os-volume-api-version 3.49 service-list --binary cinder-volume '
    '--withreplication',
    'cinder list --all-tenants --fields name,status,replication_status',
    '# 5. Attach the volumes again, and thaw the back end.',
    'cinder thaw-host {service}',
    '# Later, to fail back:',
    'cinder failover-host {service} --backend_id default')
_LEFT_OUT = (
    'Not failed over: volumes without replication (Cinder sets them to '
    'error), snapshots, and data written in the last {rpo} seconds or more.')


def plan(one: backends.Backend, report: array_check.BackendReport, host: str,
         clustered: bool) -> str:
    """Return the plan for one back end.

    :param host: the host name of Cinder's service
    :param clustered: whether the service is in a cluster
    """
    steps = (_FOR_CLUSTER if clustered else _FOR_EACH, *_STEPS)
    return '\n'.join([f'{one.name}:', *(
        f'  {line}' for line in _lines(one, report, steps,
                                       f'{host}@{one.name}'))])


def _lines(one: backends.Backend, report: array_check.BackendReport,
           steps: tuple[str, ...], service: str) -> Iterator[str]:
    if not one.devices:
        yield _NONE
        return
    if not report.targets:
        # An error in the configuration kept k2-admin from checking them.
        yield from (problem.text for problem in report.problems)
    ready = []
    for target in report.targets:
        problems = ' '.join(one['text'] for one in target['problems'])
        # A lost connection between the arrays does not prevent a failover.
        if all(one['kind'] == _PEER for one in target['problems']):
            ready.append(target['backend_id'])
            yield (f'{target["backend_id"]}: would take over'
                   + (f', with the data replicated so far. {problems}'
                      if problems else ''))
        else:
            yield f'{target["backend_id"]}: would NOT take over. {problems}'
    # Volumes use the first target unless their type names another one.
    for device in one.devices:
        if device.backend_id in ready:
            yield _LEFT_OUT.format(rpo=device.rpo)
            yield from (step.format(service=service, target=device.backend_id)
                        for step in steps)
            return
    yield 'no array is ready to take over; fix that first'
