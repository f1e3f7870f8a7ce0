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
"""A stub of neutron, which tempest queries when it cleans up.

It has no security groups, and answers 404 to every other request.
"""

import http.server
import json

from tools.tempest import layout


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = 'HTTP/1.1'

    def do_GET(self) -> None:
        """Return an empty list of security groups, or 404."""
        known = '/security-groups' in self.path
        body = json.dumps({'security_groups': []} if known else {}).encode()
        self.send_response(200 if known else 404)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until killed."""
    http.server.ThreadingHTTPServer(
        (layout.HOST, layout.NEUTRON), Handler).serve_forever()


if __name__ == '__main__':
    main()
