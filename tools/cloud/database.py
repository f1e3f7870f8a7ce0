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

"""Cinder's database in an SQLite file, for several threads and processes."""

from typing import Any

import sqlalchemy

from tools.releases import features


def engine() -> Any:
    """Return Cinder's SQLAlchemy engine."""
    return features.database_api().get_engine()


def begin_immediately(engine: Any) -> None:
    """Let writers on SQLite wait for each other.

    A transaction that reads first and writes later cannot wait: SQLite fails
    with "database is locked" at once. If the write lock is taken at the start,
    the timeout of the connection applies.

    :param engine: Cinder's SQLAlchemy engine
    """
    @sqlalchemy.event.listens_for(engine, 'before_cursor_execute',
                                  retval=True)
    def begin(connection: Any, cursor: Any, statement: str,
              parameters: Any, *args: Any) -> tuple[str, Any]:
        if statement == 'BEGIN':
            statement = 'BEGIN IMMEDIATE'
        return statement, parameters
