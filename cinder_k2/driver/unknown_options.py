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

"""Options in a back end's section of cinder.conf that nothing reads.

oslo.config ignores options it does not know, so a mistyped one silently keeps
its default.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import difflib
import pathlib

from cinder.volume import driver
from oslo_config import cfg

from cinder_k2 import options

# cinder-volume itself reads this one, before it loads a driver.
_READ_BY_THE_SERVICE = 'backend_host'
# How similar an option must be to be suggested, for difflib.
_CUTOFF = 0.75


def texts(section: str) -> list[str]:
    """Describe each unknown option of a section, sorted by name.

    Empty before the driver has registered its options. The texts name the
    options, never their values.

    :param section: the name of a back end in cinder.conf
    """
    known = _known(section)
    if not known.issuperset(option.name for option in options.k2_opts):
        return []
    return [_text(section, name, known)
            for name in sorted(_given(section) - known)]


def _known(section: str) -> set[str]:
    """The registered options of a section, former names included."""
    former = {old.name for option in driver.volume_opts
              for old in option.deprecated_opts}
    try:
        registered = [*cfg.CONF[section]]
    except cfg.NoSuchOptError:
        registered = []
    return {*registered, *former, _READ_BY_THE_SERVICE}


def _given(section: str) -> set[str]:
    """The options that the configuration files set in a section."""
    given: set[str] = set()
    for file in _files():
        sections: dict[str, dict[str, list[str]]] = {}
        try:
            cfg.ConfigParser(file, sections).parse()
        except (OSError, cfg.ConfigFileParseError, cfg.ParseError):
            # It has changed since the service read it.
            continue
        for name, values in sections.items():
            # oslo.config ignores the case of a section's name, too.
            if name.lower() == section.lower():
                given.update(values)
    return given


def _files() -> Iterator[str]:
    """The files that oslo.config has read."""
    yield from cfg.CONF.config_file or ()
    for directory in cfg.CONF.config_dir or ():
        yield from map(str, sorted(pathlib.Path(directory).glob('*.conf')))


def _text(section: str, name: str, known: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=_CUTOFF)
    text = (f'Option {name} in section [{section}] of cinder.conf is unknown '
            'and ignored.')
    return f'{text} Did you mean {nearest[0]}?' if nearest else text
