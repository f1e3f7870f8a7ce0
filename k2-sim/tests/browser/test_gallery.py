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

"""A screenshot of each view, light and dark, wide and narrow."""

from tests.browser import browser
from tests.browser import showcase

VIEWS = ('overview', 'volumes', 'hosts', 'replication', 'events', 'requests',
         'system')


class TestViews(browser.BrowserTest):

    def make_array(self):
        here, there = showcase.build()
        self.addCleanup(there.close)
        return here

    def settle(self, view):
        """Wait until a view shows enough for a screenshot."""
        self.driver.execute_script('location.hash = arguments[0]', view)
        self.until_text(view.capitalize(), '#title')
        self.one({'volumes': '.tree .node', 'overview': '.line',
                  'system': 'dd'}.get(view, 'tbody tr'))

    def test_pictures(self):
        self.open()
        for theme in ('light', 'dark'):
            self.set_theme(theme)
            for view in VIEWS:
                self.settle(view)
                getattr(self, f'prepare_{view}', lambda: None)()
                self.shoot(f'{view}-{theme}')
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': 400, 'height': 860, 'deviceScaleFactor': 1,
            'mobile': False})
        self.addCleanup(self.driver.execute_cdp_cmd,
                        'Emulation.clearDeviceMetricsOverride', {})
        for view in VIEWS:
            self.settle(view)
            self.check_width()
            self.shoot(f'{view}-narrow')
        self.check_quiet()

    def check_width(self):
        """The page itself is never scrolled sideways."""
        self.assertFalse(self.driver.execute_script(
            'return document.documentElement.scrollWidth'
            ' > document.documentElement.clientWidth'))

    def prepare_overview(self):
        chart = self.all('.plot')[2]
        self.driver.execute_script(
            'arguments[0].focus({preventScroll: true})', chart)
        self.press(*['\ue00e'] * 20)
        self.one('.tip')

    def prepare_volumes(self):
        if len(self.all('.tree .node')) > 6:
            return
        for name in ('cinder-web', 'nightly-tuesday'):
            self.node(name).find_element('css selector', '.twisty').click()
            self.until(lambda: self.node(name).get_attribute(
                'aria-expanded') == 'true')
        self.node('web-01').click()
        self.until_text('web-01', '.detail h2')

    def node(self, name):
        return self.until(lambda: next(
            node for node in self.all('.tree .node')
            if node.find_element('css selector', '.text').text == name))

    def prepare_hosts(self):
        if self.all('.mappings'):
            return
        self.all('.twist')[2].click()
        self.one('.mappings')


class TestControlPage(browser.BrowserTest):

    def test_pictures(self):
        self.open_control()
        self.control.add_fault(kind='busy', method='write', path='volumes',
                               times=3, where={'name': 'cinder-*'})
        self.control.add_fault(kind='slow_loris', rate=200, probability=0.1)
        self.until_text('slow_loris', '#faults tbody')
        for theme in ('light', 'dark'):
            self.set_theme(theme)
            self.shoot(f'control-{theme}')
        self.driver.set_window_size(1440, 1900)
        self.shoot('control-whole')
        self.check_quiet()
