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

"""The control of an array over HTTP, below /sim/v1."""

from collections.abc import Callable
import re
from typing import Any

import msgspec

from k2_sim.control import control as control_module
from k2_sim import errors
from k2_sim.protocol import messages
from k2_sim.protocol.messages import Request
from k2_sim.protocol.messages import Response
from k2_sim.recording import har

BASE = '/sim/v1'
_NUMBERED = re.compile('.+/[1-9][0-9]{0,8}')


def serves(path: str) -> bool:
    """Whether a path belongs to the control API."""
    return path == BASE or path.startswith(f'{BASE}/')


def answer(control: control_module.Control, request: Request) -> Response:
    """The reply to a control request; raises ApiError for a refusal."""
    name = request.path.removeprefix(BASE).strip('/')
    name = _DEPRECATED.get(name, name)
    methods = _ACTIONS.get(name)
    if _NUMBERED.fullmatch(name):
        methods = _ITEMS.get(name.rpartition('/')[0])
    if methods is None:
        raise errors.no_resource()
    action = methods.get(request.method)
    if action is None:
        raise errors.wrong_method()
    value = action(control, request)
    if value is None:
        return Response(204)
    if isinstance(value, Response):
        return value
    return messages.reply(200, value)


def _fields(request: Request) -> dict[str, Any]:
    body = request.json()
    if not isinstance(body, dict):
        raise errors.refused('The body must be a JSON object')
    return body


def _one(request: Request, name: str) -> Any:
    body = _fields(request)
    if set(body) != {name}:
        raise errors.refused(f'The body must have the one field {name}')
    return body[name]


def _index(control: control_module.Control, request: Request) -> object:
    return {'resources': sorted({*filter(None, _ACTIONS), *_ITEMS})}


def _add_fault(control: control_module.Control, request: Request) -> object:
    return control.add_fault(_fields(request)).shown()


def _number(request: Request) -> int:
    """The id at the end of the path."""
    return int(request.path.strip('/').rpartition('/')[2])


def _fault(control: control_module.Control, request: Request) -> object:
    return control.fault(_number(request)).shown()


def _change_fault(control: control_module.Control, request: Request
                  ) -> object:
    return control.change_fault(
        _number(request), **_fields(request)).shown()


def _latency(control: control_module.Control, request: Request) -> object:
    if request.method != 'GET':
        fields = _fields(request)
        control.set_latency(fields['seconds'] if set(fields) == {'seconds'}
                            else fields)
    return control.latency.shown()


def _chance(control: control_module.Control, request: Request) -> object:
    if request.method != 'GET':
        control.set_seed(_one(request, 'seed'))
    return {'seed': control.seed}


def _journal(control: control_module.Control, request: Request) -> object:
    entries = control.journal()
    return {'hits': [msgspec.structs.asdict(entry) for entry in entries],
            'total': len(entries), 'max_in_flight': control.max_in_flight}


def _behaviors(control: control_module.Control, request: Request) -> object:
    if request.method != 'GET':
        control.set_behaviors(**_fields(request))
    return control.behaviors()


def _log_in(control: control_module.Control, request: Request) -> object:
    body = _fields(request)
    if set(body) != {'resource', 'identifier'} or not all(
            isinstance(value, str) for value in body.values()):
        raise errors.refused('The body must have resource and identifier')
    return control.log_in(body['resource'], body['identifier'])


def _performance(control: control_module.Control, request: Request
                 ) -> object:
    control.set_performance(**_fields(request))
    return None


def _link(control: control_module.Control, request: Request) -> object:
    if request.method != 'GET':
        cut = _one(request, 'cut')
        if not isinstance(cut, bool):
            raise errors.refused('cut must be true or false')
        (control.cut_link if cut else control.restore_link)()
    return {'cut': control.is_cut}


def _ports(control: control_module.Control, request: Request) -> object:
    if request.method != 'GET':
        body = _fields(request)
        if set(body) != {'port', 'up'} or not isinstance(
                body['port'], str) or not isinstance(body['up'], bool):
            raise errors.refused('The body must have port and up')
        control.set_port(body['port'], body['up'])
    return {'hits': control.ports()}


def _recorder(control: control_module.Control, request: Request) -> object:
    return control.recorder.status()


def _record(control: control_module.Control, request: Request) -> object:
    """Start or stop the recorder; kib: how much it keeps."""
    body = _fields(request)
    running = body.pop('running', None)
    if not isinstance(running, bool) or set(body) - {'kib'} \
            or body and not running:
        raise errors.refused('The body must have running, and at a start'
                             ' may have kib')
    if running:
        control.recorder.start(**body)
    else:
        control.recorder.stop()
    return control.recorder.status()


def _archive(control: control_module.Control, request: Request) -> object:
    return har.archive(control.recorder.records())


def _write(control: control_module.Control, request: Request) -> object:
    body = _fields(request)
    if set(body) != {'volume', 'token'} or type(body['volume']) is not int:
        raise errors.refused('The body must have volume and token')
    control.write(body['volume'], body['token'])
    return None


def _place(request: Request) -> tuple[str, int]:
    """What a path below data/ means: volumes or volsnaps, and the id."""
    return request.path.strip('/').split('/')[-2], _number(request)


def _range(control: control_module.Control, request: Request
           ) -> tuple[int, int]:
    """Offset and length of what a request reads or discards."""
    size = control.data.size(*_place(request))
    header = request.headers.get('range')
    if header is None:
        return 0, size
    match = re.fullmatch('bytes=([0-9]{1,18})-([0-9]{0,18})', header)
    if match is None:
        raise errors.refused('Range must be bytes=FIRST-LAST or bytes=FIRST-')
    first = int(match[1])
    last = min(int(match[2] or size), size - 1)
    if not first <= last:
        raise errors.ApiError(416, f'There are {size} bytes')
    return first, last - first + 1


def _read_data(control: control_module.Control, request: Request) -> object:
    place = _place(request)
    offset, length = _range(control, request)
    body = control.data.read(*place, offset, length)
    headers = {'Content-Type': 'application/octet-stream',
               'Accept-Ranges': 'bytes'}
    if 'range' not in request.headers:
        return Response(200, headers, body)
    return Response(206, {
        **headers, 'Content-Range': f'bytes {offset}-{offset + length - 1}/'
        f'{control.data.size(*place)}'}, body)


def _write_data(control: control_module.Control, request: Request) -> object:
    """Write the body; without Content-Range, at offset 0."""
    header = request.headers.get('content-range')
    offset = 0 if header is None else _offset(header, len(request.body))
    control.data.write(*_place(request), offset, request.body)
    return None


def _offset(header: str, length: int) -> int:
    """The offset of a body; length: its number of bytes."""
    match = re.fullmatch(
        r'bytes ([0-9]{1,18})-([0-9]{1,18})/(\*|[0-9]{1,18})', header)
    if match is None or int(match[2]) - int(match[1]) + 1 != length:
        raise errors.refused('Content-Range must be bytes FIRST-LAST/*, and'
                             f' here cover {length} bytes')
    return int(match[1])


def _discard_data(control: control_module.Control, request: Request
                  ) -> object:
    control.data.discard(*_place(request), *_range(control, request))
    return None


Action = Callable[[control_module.Control, Request], object]
_ACTIONS: dict[str, dict[str, Action]] = {
    '': {'GET': _index},
    'faults': {
        'GET': lambda control, request: {'hits': control.faults()},
        'POST': _add_fault,
        'DELETE': lambda control, request: control.clear_faults()},
    'chance': {'GET': _chance, 'POST': _chance, 'PATCH': _chance},
    'latency': {'GET': _latency, 'POST': _latency, 'PATCH': _latency},
    'journal': {
        'GET': _journal,
        'DELETE': lambda control, request: control.clear_journal()},
    'recorder': {
        'GET': _recorder, 'POST': _record, 'PATCH': _record,
        'DELETE': lambda control, request: control.recorder.clear()},
    'recorder/har': {'GET': _archive},
    'leftovers': {'GET': lambda control, request: control.leftovers()},
    'performance': {
        'POST': _performance, 'PATCH': _performance,
        'DELETE': lambda control, request: control.clear_performance()},
    'seed': {'POST': lambda control, request:
             control.seed_objects(_fields(request))},
    'behaviors': {'GET': _behaviors, 'POST': _behaviors, 'PATCH': _behaviors},
    'survey': {'POST': lambda control, request: control.scan_usage()},
    'clock': {'POST': lambda control, request:
              control.advance(_one(request, 'advance'))},
    'initiators': {'POST': _log_in},
    'ports': {'GET': _ports, 'POST': _ports, 'PATCH': _ports},
    'contents': {'GET': lambda control, request: control.contents(),
                 'POST': _write},
    'link': {'GET': _link, 'POST': _link, 'PATCH': _link},
    'peer': {'POST': lambda control, request:
             control.receive(_fields(request), request.role)},
    'peer/data': {'POST': lambda control, request:
                  control.receive_data(request.body)},
    'state': {'GET': lambda control, request: control.dump()},
    'save': {'GET': lambda control, request: control.save()},
    'restore': {'POST': lambda control, request:
                control.restore(request.body)},
    'reset': {'POST': lambda control, request: control.reset()},
}
# Current names by former ones, which are not listed.
_DEPRECATED = {'switches': 'behaviors'}
# Resources with an id after the name.
_ITEMS: dict[str, dict[str, Action]] = {
    'faults': {
        'GET': _fault, 'PATCH': _change_fault,
        'DELETE': lambda control, request:
            control.remove_fault(_number(request))},
    **{f'data/{resource}': {
        'GET': _read_data, 'PUT': _write_data, 'DELETE': _discard_data}
       for resource in ('volumes', 'volsnaps')},
}
