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

"""Errors of the simulated array."""


class ApiError(Exception):
    """A refusal: an HTTP status of section 3 and the text of error_msg."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class DroppedError(ApiError):
    """The connection is closed instead of a reply."""

    def __init__(self) -> None:
        super().__init__(500, 'Connection dropped')


class StateError(Exception):
    """The state on disk cannot be used; the text says what to do."""


def refused(message: str) -> ApiError:
    """400: the request is wrong, or cannot be done now."""
    return ApiError(400, message)


def missing(ref: str) -> ApiError:
    """404: there is no such object."""
    return ApiError(404, f'No such object: {ref}')


def no_resource() -> ApiError:
    """404: there is no such resource."""
    return ApiError(404, 'No such resource')


def wrong_method() -> ApiError:
    """405: the resource does not offer this method."""
    return ApiError(405, 'Method not allowed')
