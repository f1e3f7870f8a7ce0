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

"""The console in a browser: login, live views, keys, hostile names."""

from k2_sim.config import settings
from tests import base
from tests.browser import browser
from tests.browser.browser import Keys
from tests import pairs

HOSTILE = '<img src=x onerror=alert(1)>'


class ConsoleTest(browser.BrowserTest):

    def setUp(self):
        super().setUp()
        self.a = pairs.talk(self.array)

    def names(self):
        return [found.text for found in self.all('.tree .text')]

    def focused(self):
        """The name of the line of the tree that has the focus."""
        active = self.driver.switch_to.active_element
        self.assertEqual('treeitem', active.get_attribute('role'))
        return active.find_element('css selector', '.text').text


class TestLogin(ConsoleTest):

    def test_refusal_and_login(self):
        self.log_in(password='wrong')
        self.until_text('Login or password is wrong', '#login-error')
        self.assertEqual([], self.all('#page'))
        for theme in ('light', 'dark'):
            self.driver.execute_script(
                'document.documentElement.dataset.theme = arguments[0]',
                theme)
            self.shoot(f'login-{theme}')
        self.fill('#login-password', 'admin')
        self.press(Keys.ENTER)
        self.until_text('sim-k2-a', '#array')
        self.until_text('ONLINE', '#state')
        self.check_quiet()

    def test_the_session(self):
        """It survives a reload, and ends when the array ends it."""
        self.open()
        self.driver.refresh()
        self.until_text('sim-k2-a', '#array')
        self.assertEqual([], self.all('#login'))
        self.control.advance(9 * 3600)
        self.until_text('Your session has ended', '#login-error')

    def test_log_out(self):
        self.open()
        self.one('#logout').click()
        self.one('#login')
        self.driver.refresh()
        self.one('#login')
        self.assertEqual([], self.all('#page'))

    def test_an_account_that_only_looks(self):
        self.open()
        cookie, = self.driver.get_cookies()
        self.assertEqual(
            (True, True, 'Strict', '/console'),
            tuple(cookie[name] for name in (
                'httpOnly', 'secure', 'sameSite', 'path')))


class TestLive(ConsoleTest):

    def test_a_new_volume(self):
        """It appears within two seconds, in each view that shows it."""
        self.open()
        self.until_text('0\nVolumes', '.tiles')
        group = self.a.group('vg-a')
        self.a.volume(group, 'fresh')
        self.until_text('1\nVolumes', '.tiles', browser.live())
        self.until_text('volumes/31 (fresh) was created', '#view',
                        browser.live())
        self.one('#views a[href="#volumes"]').click()
        self.until_text('vg-a', '.tree')
        self.a.group('vg-b')
        self.until_text('vg-b', '.tree', browser.live())
        self.check_quiet()

    def test_pause(self):
        self.open('requests')
        self.one('#live').click()
        self.until_text('Paused', '#live')
        self.a.get('hosts?name=unseen')
        self.a.group('vg-a')
        self.one('#live').click()
        self.until_text('unseen', seconds=browser.live())

    def test_the_array_is_lost(self):
        """The page reports it, retries, and recovers."""
        self.open('volumes')
        self.driver.execute_cdp_cmd('Network.enable', {})
        self.addCleanup(self.network, False)
        self.network(True)
        self.until_text('The array cannot be reached. Trying again in',
                        '#banner')
        self.until_text('Not connected', '#live')
        self.a.group('vg-new')
        self.network(False)
        self.until_text('vg-new', '.tree')
        self.until(lambda: not self.all('#banner'))

    def network(self, off):
        self.driver.execute_cdp_cmd('Network.emulateNetworkConditions', {
            'offline': off, 'latency': 0, 'downloadThroughput': -1,
            'uploadThroughput': -1})

    def test_charts(self):
        """Values by the arrow keys, and in words."""
        self.control.tick()
        self.control.set_performance(iops_avg=4000)
        self.control.advance(5)
        self.open()
        self.until_text('4,000', '.chart')
        chart = next(plot for plot in self.all('.plot')
                     if plot.get_attribute('aria-label') == 'IOPS')
        self.driver.execute_script('arguments[0].focus()', chart)
        # From the oldest one: more may have come by now.
        for key, shown in ((Keys.HOME, '0'), (Keys.ARROW_RIGHT, '4,000'),
                           (Keys.ARROW_LEFT, '0'), (Keys.END, '4,000')):
            self.press(key)
            self.assertIn(f'IO/s {shown}',
                          chart.get_attribute('aria-valuetext'))
        self.one('.tip')
        words = self.driver.execute_script(
            'return document.getElementById(arguments[0]).textContent',
            chart.get_attribute('aria-describedby'))
        self.assertIn('least 0, most 4,000, now 4,000', words)


class TestKeys(ConsoleTest):

    def plant(self):
        group = self.a.group('vg-a')
        self.a.volume(group, 'vol-1')
        self.a.view(self.a.snapshot(group, 'snap'), 'view')
        self.a.group('vg-b')

    def test_the_tree(self):
        """All of it works without a pointer."""
        self.plant()
        self.open()
        self.one('#main')
        self.press('2')
        self.until_text('vg-a', '.tree')
        while self.driver.switch_to.active_element.get_attribute(
                'role') != 'treeitem':
            self.press(Keys.TAB)
        self.assertEqual('vg-a', self.focused())
        self.press(Keys.ARROW_RIGHT)
        self.until_text('vol-1', '.tree')
        self.press(Keys.ARROW_RIGHT)
        self.assertEqual('vol-1', self.focused())
        self.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.until_text('view', '.tree')
        self.press(Keys.ARROW_RIGHT, Keys.ENTER)
        self.until_text('view', '.detail h2')
        self.press(Keys.END)
        self.assertEqual('vg-b', self.focused())
        self.press(Keys.HOME, Keys.ARROW_LEFT)
        self.until(lambda: self.names() == ['vg-a', 'vg-b'])
        self.assertEqual('vg-a', self.focused())

    def test_what_is_read_out(self):
        self.plant()
        self.open('volumes')
        item = self.one('.tree [role=treeitem]')
        self.assertEqual(
            ('1', '2', '1', 'false',
             'vg-a, group, 10 GiB, 1 volume, 2 snapshots'),
            tuple(item.get_attribute(f'aria-{name}') for name in (
                'level', 'setsize', 'posinset', 'expanded', 'label')))

    def test_the_focus_stays(self):
        """Even if the line itself has changed."""
        self.plant()
        self.open('volumes')
        self.one('.tree .node').click()
        self.a.volume({'id': 14}, 'vol-2')
        self.until_text('2 volumes', '.tree')
        self.assertEqual('vg-a', self.focused())

    def test_single_keys(self):
        self.open()
        self.one('#view > *')
        for key, title in (('7', 'System'), ('5', 'Events')):
            self.press(key)
            self.until_text(title, '#title')
        self.press('/', '7')
        self.assertEqual('Events', self.text('#title'))
        self.one('#title').click()
        self.press(Keys.ESCAPE)
        self.driver.execute_script('document.activeElement.blur()')
        self.press('?')
        self.until_text('the views, from Overview', '#help')
        self.one('#single-keys').click()
        self.one('#help button').click()
        self.press('7')
        self.assertEqual('Events', self.text('#title'))

    def test_skip_link(self):
        self.open('events')
        self.driver.refresh()
        self.one('#view > *')
        self.press(Keys.TAB)
        self.assertEqual('skip', self.driver.switch_to.active_element
                         .get_attribute('id'))
        self.press(Keys.ENTER)
        self.assertEqual('main', self.driver.switch_to.active_element
                         .get_attribute('id'))
        self.assertEqual('Events', self.text('#title'))


class TestThemes(ConsoleTest):

    def ground(self):
        return self.driver.execute_script(
            'return getComputedStyle(document.body).backgroundColor')

    def prefer(self, scheme):
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})

    def test_light_and_dark(self):
        """As the system prefers, unless one was chosen, which is stored."""
        self.addCleanup(self.prefer, '')
        self.prefer('light')
        self.open()
        light = self.ground()
        self.prefer('dark')
        dark = self.ground()
        self.assertNotEqual(light, dark)
        self.set_theme('light')
        self.assertEqual(light, self.ground())
        self.driver.refresh()
        self.one('#view > *')
        self.assertEqual(light, self.ground())
        self.prefer('light')
        self.set_theme('dark')
        self.assertEqual(dark, self.ground())


class TestHostileNames(ConsoleTest):

    def test_as_text(self):
        group = self.a.group(HOSTILE)
        volume = self.a.volume(group, f'{HOSTILE}2')
        host = self.a.host('node1')
        self.a.map(host, volume)
        self.a.get('volumes?name=<script>alert(1)</script>')
        self.open()
        for view in ('overview', 'events', 'volumes'):
            self.driver.execute_script('location.hash = arguments[0]', view)
            self.until_text(HOSTILE)
        self.one('.twisty').click()
        self.until_text(f'{HOSTILE}2', '.tree')
        self.all('.tree .node')[1].click()
        self.until_text(f'{HOSTILE}2', '.detail h2')
        self.driver.execute_script('location.hash = "hosts"')
        self.one('.twist').click()
        self.until_text(f'{HOSTILE}2', '.mappings')
        self.driver.execute_script('location.hash = "requests"')
        self.until_text('<script>alert(1)</script>')
        self.assertEqual(0, self.driver.execute_script(
            "return document.querySelectorAll('img[src=x], #view b b,"
            " #view script').length"))
        self.check_quiet()


class TestManyVolumes(ConsoleTest):

    array_options = {'seeding': settings.Seed(
        volumes=10000, hosts=100, snapshots=500)}

    def test_usable(self):
        self.open('volumes')
        self.until_text('1–50 of 10000 groups', '.pager')
        self.one('.search input').send_keys('vol-07777')
        self.until_text('seed-vol-07777', '.tree', browser.live())
        self.assertEqual(['seed-vg-07777', 'seed-vol-07777'], self.names())
        self.press(Keys.ESCAPE)
        self.until_text('of 10000 groups', '.pager', browser.live())
        self.all('.pager button')[1].click()
        self.until_text('51–100 of 10000 groups', '.pager', browser.live())
        group = self.a.group('zz-last')
        self.a.volume(group, 'fresh', base.GIB)
        self.one('.search input').send_keys('fresh')
        self.until_text('zz-last', '.tree', browser.live())
