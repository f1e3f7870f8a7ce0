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

"""The control page in a browser: its effects on the array."""

from tests.browser import browser
from tests.browser.browser import Keys
from tests.browser.browser import Select
from tests import pairs


class TestControlPage(browser.BrowserTest):

    def setUp(self):
        super().setUp()
        self.a = pairs.talk(self.array)

    def choose(self, name, value):
        Select(self.one(f'#faults [name={name}]')) \
            .select_by_visible_text(value)

    def test_its_own_password(self):
        self.log_in('control/')
        self.until_text('Login or password is wrong', '#login-error')
        self.open()
        self.one('#views a.aside').click()
        self.one('#login')
        self.assertEqual([], self.all('#page'))

    def test_a_fault_triggers(self):
        self.open_control()
        self.fill('#faults [name=method]', 'POST')
        self.fill('#faults [name=path]', 'volume_groups')
        self.fill('#faults [name=where]', 'name=vg-*')
        self.fill('#faults [name=times]', '1')
        self.choose('kind', 'status')
        self.choose('status', '502')
        self.choose('commit', 'after')
        self.one('#faults button.main').click()
        self.until_text('A fault status was added', '#done')
        self.until_text('POST volume_groups name=vg-*', '#faults tbody')
        body = {'name': 'vg-a', 'quota': 0}
        self.assertEqual(
            502, self.a.call('POST', 'volume_groups', body).status)
        self.assertEqual(1, self.a.get('volume_groups')['total'])
        self.until_text('1 of 1', '#faults tbody', browser.live())
        self.all('#faults tbody button')[1].click()
        self.until_text('No fault rules', '#faults')
        self.assertEqual([], self.control.faults())
        self.check_quiet()

    def test_only_the_fields_of_a_kind(self):
        self.open_control()
        for kind, names in (('busy', {'code'}), ('status', {'status'}),
                            ('late', {'reads', 'seconds'}), ('empty', set()),
                            ('slow_loris', {'rate'})):
            self.choose('kind', kind)
            self.assertEqual(names, {
                field.get_attribute('data-field')
                for field in self.all('#faults [data-field]')} & {
                'code', 'status', 'seconds', 'rate', 'reads', 'latency'})

    def test_a_fault_that_makes_no_sense(self):
        self.open_control()
        self.fill('#faults [name=regexp]', '(')
        self.one('#faults button.main').click()
        self.until_text('bad regexp', '#done')
        self.fill('#faults [name=where]', 'nothing')
        self.one('#faults button.main').click()
        self.until_text('Not field=glob: nothing', '#done')

    def test_latency(self):
        self.open_control()
        Select(self.one('#latency select')).select_by_visible_text(
            'normal')
        self.fill('#latency [name=latency-mean]', '4')
        self.one('#latency button').click()
        self.until_text('random time: normal, mean 4', '#latency')
        self.assertEqual(4.0, self.control.latency.shown()['mean'])

    def test_seeding(self):
        self.open_control()
        self.fill('#seeding [name=volumes]', '30')
        self.one('#seeding button').click()
        self.until_text('The objects were created', '#done')
        self.assertEqual((30, 10), (
            self.a.get('volumes?name__contains=seed')['total'],
            self.a.get('hosts')['total']))

    def test_ports_link_and_behaviors(self):
        self.open_control()
        link, port = self.all('#ports input')[:2]
        link.click()
        self.until(lambda: self.control.is_cut)
        port.click()
        self.until(lambda: not self.control.ports()[0]['up'])
        self.one('#behaviors [aria-label=full]').click()
        self.until(lambda: self.array.behaviors.full)
        self.set_page_size('7')
        self.until(lambda: self.array.behaviors.page_size == 7)
        self.set_page_size('1.5')
        self.until_text('must be of type int', '#done')
        self.until(lambda: self.one('#behaviors [aria-label=page_size]')
                   .get_attribute('value') == '7')
        Select(self.one('#behaviors [aria-label=create_reply]')) \
            .select_by_visible_text('empty')
        self.until(lambda: self.array.behaviors.create_reply == 'empty')

    def set_page_size(self, text):
        """Set it; again if the page was just being updated."""
        self.until(lambda: not self.one(
            '#behaviors [aria-label=page_size]').send_keys(
            Keys.CONTROL, 'a', Keys.NULL, text, Keys.ENTER))

    def test_reset(self):
        """Only after a confirmation."""
        self.a.group('vg-a')
        self.open_control()
        self.one('#reset-button').click()
        self.assertEqual('Keep everything',
                         self.driver.switch_to.active_element.text)
        self.all('#confirm button')[0].click()
        self.until(lambda: not self.all('#confirm'))
        self.assertEqual(1, self.a.get('volume_groups')['total'])
        self.one('#reset-button').click()
        self.all('#confirm button')[1].click()
        self.until_text('The array was reset', '#done')
        self.assertEqual(0, self.a.get('volume_groups')['total'])
