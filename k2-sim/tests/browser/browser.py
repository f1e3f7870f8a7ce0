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

"""Headless Chromium, and an array behind TLS."""

import atexit
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

import testtools

import k2_sim
from k2_sim.adapters import tls

try:
    from selenium.common import exceptions
    from selenium import webdriver
    from selenium.webdriver.chrome import service
    from selenium.webdriver.common import by
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select
    from selenium.webdriver.support import wait
except ImportError:
    webdriver = Keys = Select = None

# Seconds to wait for what a busy machine delays, such as loading a page.
PATIENCE = 60.0
PICTURES = pathlib.Path(__file__).parents[3] / 'artifacts'
CONTROL = k2_sim.User('control', 'pw-of-control')
_FLAGS = (
    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic',
    '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--hide-scrollbars',
    '--force-prefers-reduced-motion', '--lang=en-US',
    # Resolve no names: the tests must pass on a machine without a resolver.
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1')
_SIZE = (1440, 900)


class Driver(service.Service if webdriver else object):
    """A chromedriver that ends with this process, as do its browsers."""

    def __init__(self, directory):
        super().__init__(shutil.which('setpriv'),
                         env={**os.environ, 'TMPDIR': str(directory)})

    def command_line_args(self):
        return ['--pdeathsig', 'KILL', *namespace(), 'chromedriver',
                *super().command_line_args()]


def namespace():
    """A prefix for a command: when it ends, so do all processes it started.

    A shell reaps the processes that have lost their parent.
    """
    user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    return ['unshare', *user, '--pid', '--fork', '--mount-proc',
            '--kill-child=KILL', 'sh', '-c', '"$@"; exit $?', 'browser']


def missing():
    """What is missing for a browser, or ''."""
    if webdriver is None:
        return 'selenium is not installed'
    if any(shutil.which(program) is None
           for program in ('chromium', 'chromedriver')):
        return 'needs the packages chromium, chromium-driver'
    done = subprocess.run(
        [*namespace(), 'true'], capture_output=True, text=True,
        timeout=PATIENCE)
    return done.returncode and f'needs namespaces: {done.stderr.strip()}'


def live():
    """Seconds within which the page must show a change.

    That is two, unless the machine is busy.
    """
    return 2.0 * max(1.0, os.getloadavg()[0])


def start(directory):
    """Start a browser with its own profile and all logs.

    The browser writes only to the directory.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which('chromium')
    for flag in (*_FLAGS, f'--user-data-dir={directory}/profile'):
        options.add_argument(flag)
    options.accept_insecure_certs = True
    options.set_capability('goog:loggingPrefs', {
        'browser': 'ALL', 'performance': 'ALL'})
    driver = webdriver.Chrome(options, Driver(directory))
    # If the run is interrupted, class cleanups are not called.
    atexit.register(driver.quit)
    driver.set_window_size(*_SIZE)
    return driver


def stop(driver):
    """End a browser that ``start`` has returned."""
    atexit.unregister(driver.quit)
    driver.quit()


class BrowserTest(testtools.TestCase):
    """A browser for each class, an array for each test."""

    array_options: dict = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = missing()
        if reason:
            raise cls.skipException(reason)
        place = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(place.cleanup)
        cls.certificate = tls.ensure(place.name, ('127.0.0.1',))
        cls.driver = start(place.name)
        cls.addClassCleanup(stop, cls.driver)

    def setUp(self):
        super().setUp()
        self.array = self.make_array()
        self.addCleanup(self.array.close)
        self.control = self.array.control
        server = k2_sim.Server(self.array, self.certificate)
        server.start()
        self.addCleanup(server.stop)
        self.url = server.url
        self.forget()

    def make_array(self):
        return k2_sim.Array(control_user=CONTROL, **self.array_options)

    def forget(self):
        """Discard cookies and storage of the browser."""
        self.driver.execute_cdp_cmd('Network.clearBrowserCookies', {})
        self.driver.get(f'{self.url}/console/static/icon.svg')
        self.driver.execute_script('localStorage.clear()')
        self.driver.get('about:blank')
        self.driver.set_window_size(*_SIZE)
        for kind in ('browser', 'performance'):
            self.driver.get_log(kind)

    def until(self, condition, message='', seconds=PATIENCE):
        """Wait for a condition; returns its first true value."""
        # Errors occur while a page is still changing.
        waiting = wait.WebDriverWait(
            self.driver, seconds, poll_frequency=0.05, ignored_exceptions=(
                exceptions.StaleElementReferenceException,
                exceptions.ElementNotInteractableException))
        return waiting.until(
            lambda driver: condition(), message or 'nothing came')

    def all(self, selector):
        """The visible elements that a CSS selector matches."""
        return [found for found in self.driver.find_elements(
            by.By.CSS_SELECTOR, selector) if found.is_displayed()]

    def one(self, selector, seconds=PATIENCE):
        """The first visible element that a selector matches; waits for it."""
        return self.until(
            lambda: next(iter(self.all(selector)), None), selector, seconds)

    def text(self, selector):
        return self.one(selector).text

    def until_text(self, text, selector='#view', seconds=PATIENCE):
        """Wait until an element that the selector matches has a text."""
        self.until(lambda: any(text in found.text
                               for found in self.all(selector)),
                   f'{text!r} in {selector}', seconds)

    def press(self, *keys):
        """Send keys to the page, wherever the focus is.

        Not to the focused element: one that is just being hidden, such as the
        button that closed its dialog, would refuse them.
        """
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def log_in(self, page='', login='admin', password='admin', view=''):
        """Open a page and log in through its form."""
        self.driver.get(f'{self.url}/console/{page}{view}')
        self.fill('#login-name', login)
        self.fill('#login-password', password)
        self.one('#login button').click()

    def fill(self, selector, text):
        field = self.one(selector)
        field.clear()
        field.send_keys(text)

    def open(self, view=''):
        """Log in to the console, and wait until it shows a view."""
        self.log_in(view=view and f'#{view}')
        self.one('#view > *')

    def open_control(self):
        self.log_in('control/', CONTROL.login, CONTROL.password)
        self.until_text('No fault rules')

    def set_theme(self, theme):
        """Press the button until the theme is set."""
        while self.theme() != theme:
            self.one('#theme').click()

    def theme(self):
        return self.driver.execute_script(
            'return document.documentElement.dataset.theme')

    def shoot(self, name):
        """Save a screenshot of the page."""
        PICTURES.mkdir(exist_ok=True)
        self.driver.save_screenshot(str(PICTURES / f'{name}.png'))

    def check_quiet(self):
        """Check the browser: nothing in its log but 401, no other servers."""
        self.assertEqual([], [
            entry['message'] for entry in self.driver.get_log('browser')
            if '401 (Unauthorized)' not in entry['message']])
        events = [json.loads(entry['message'])['message']
                  for entry in self.driver.get_log('performance')]
        asked = {urllib.parse.urlsplit(
            event['params']['request']['url'])[:2] for event in events
            if event['method'] == 'Network.requestWillBeSent'}
        self.assertEqual({tuple(urllib.parse.urlsplit(self.url)[:2])}, asked)
