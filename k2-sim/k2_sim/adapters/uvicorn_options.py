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

"""What uvicorn must be told so that URLs of any length reach an array."""

from typing import Any
import urllib.parse

from uvicorn.protocols.http import httptools_impl

# Longer URLs the parser cannot take apart.
_LONGEST_PARSED = 2 ** 16 - 1
# Bytes of a request before its body, for whom h11 reads them.
_LONGEST_HEAD = 2 ** 20


class LongURLProtocol(httptools_impl.HttpToolsProtocol):
    """Leaves it to the application to refuse long URLs (QRY-1)."""

    def on_headers_complete(self) -> None:
        """Begin the request; the application runs after this."""
        url = self.url
        if len(url) <= _LONGEST_PARSED:
            super().on_headers_complete()
            return
        self.url = b'/'
        super().on_headers_complete()
        path, _, query = url.partition(b'?')
        self.scope['raw_path'] = path
        self.scope['query_string'] = query
        self.scope['path'] = urllib.parse.unquote(path.decode('latin-1'))


#: Arguments of uvicorn.Config.
OPTIONS: dict[str, Any] = {
    'http': LongURLProtocol, 'h11_max_incomplete_event_size': _LONGEST_HEAD}
