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

"""Writers to an SQLite file wait for each other."""

from concurrent import futures
import pathlib
import tempfile
import unittest

from oslo_db.sqlalchemy import engines
import sqlalchemy

from tools.cloud import database

TIMES = 20


class DatabaseTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        place = self.enterContext(tempfile.TemporaryDirectory())
        self.engine = engines.create_engine(
            f'sqlite:///{pathlib.Path(place, "file")}?timeout=60')
        self.addCleanup(self.engine.dispose)
        database.begin_immediately(self.engine)
        self.execute('CREATE TABLE count (number INTEGER)')
        self.execute('INSERT INTO count VALUES (0)')

    def execute(self, *statements):
        """Run statements in one transaction; return the results."""
        with self.engine.begin() as connection:
            return [connection.execute(sqlalchemy.text(statement))
                    for statement in statements]

    def count(self):
        for _ in range(TIMES):
            self.execute('SELECT number FROM count',
                         'UPDATE count SET number = number + 1')

    def test_all_transactions_read_before_they_write(self):
        with futures.ThreadPoolExecutor(2) as pool:
            for one in [pool.submit(self.count) for _ in range(2)]:
                one.result()
        with self.engine.begin() as connection:
            found = connection.execute(
                sqlalchemy.text('SELECT number FROM count')).scalar()
        self.assertEqual(2 * TIMES, found)
