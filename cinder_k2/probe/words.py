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

"""Texts of an array without words that identify it.

An error text may quote anything: names of volumes and hosts, logins,
addresses, serial numbers. So a word is kept only if it is in a list of words
of arrays' error texts; any other is replaced by a placeholder.
"""

from collections.abc import Iterable
import dataclasses
import functools
import re

from cinder_k2.probe import rules
from cinder_k2.rest import errors
from cinder_k2.rest import forms
from cinder_k2.rest import raw
from cinder_k2.rest import records

#: The placeholders for a word, and for an object of the probe.
ELSE, OWN = '<...>', '<own>'

_LONGEST_NUMBER = 3
_COMMON = """
a about above access account action active after again all allow allowed
already also an and another any application are argument array as assigned at
attached attempt attribute authentication authorized available bad be because
been before being below between body both bulk busy but by cannot capacity
change changed character characters check client clone clones code command
complete completed condition configuration configured conflict connect
connection consistent contain contains content could create created creating
creation current currently data decrease decreased dedup default defined delete
deleted deleting deletion denied depend dependent depends deprecated did
disabled disallowed do does domain down due duplicate during each either empty
enabled end endpoint enough entity entry error errors etc exceed exceeded
exceeds exception exclusive exist existing exists expected expired explanation
expose exposed fail failed failure fc field fields filter finished first
following for forbidden format found free from full get given greater group
groups had has have header host host_auth_profile hosts http id if illegal
immutable in inactive incompatible incorrect increase increased inside
insufficient integer internal into invalid invoked iqn is_thin_clone iscsi it
item items its json k2probe_field key larger least length less licence license
licensed limit limits list locked long longer lower lun many map mapped mapping
mappings match maximum may method minimum missing mode modified modify more
most moved must name named names needs negative new no non none not nothing
null number numeric object objects occurred of offline offset on one online
only operation operations option optional or other out own owner page parameter
parameters parent parse part password patch path pending permission permitted
please policy pool port positive possible post precondition present previous
privilege privileges process progress property provided query quota range rate
reached read readonly reason received recognized ref reference referenced
refused rejected related relation remove removed removing rename replicated
replication request requested required requires reserved reset resize resource
resources response restore restored restoring result retention retry role root
same schema search sequence server service session sessions set setting shared
short should shrink simulated size small smaller snapshot snapshots some source
source_snapshot source_volume space specified standby start started state
status still stop stopped storage string success such support supported syntax
system target temporarily than that the their them then there these they thin
this those time timeout to token too try type types unable unauthorized
unavailable undefined unexpected unique unit unknown unrecognized unsupported
until up update updated updating use used user using valid validation value
values version via view views violates violation volsnap volsnaps volume
volumes wait was were when where which while will with within without would
write wrong yet you your zero
"""
_MARKS = '.,:;!?()[]{}<>"\'`'


def said(answer: raw.Answer) -> str:
    """The reply: its status, and the words that may be shown."""
    if answer.error is None:
        return f'HTTP {answer.status}'
    words = public(answer.error.message)
    return f'HTTP {answer.status}: {words}' if answer.status else words


def public(text: str) -> str:
    """A text of an array, with unknown words replaced."""
    words = [_public_word(word) for word in text.split()]
    return ' '.join(word for n, word in enumerate(words)
                    if not n or word != ELSE or words[n - 1] != ELSE)


def names(found: Iterable[str]) -> str:
    """Names of fields, with those that look like values replaced."""
    return ', '.join(
        each if re.fullmatch('[a-z][a-z_]{0,39}', each) else ELSE
        for each in found)


def _public_word(word: str) -> str:
    bare = word.strip(_MARKS)
    if 'k2probe-' in bare:
        shown = OWN
    elif not bare or _is_public(bare):
        return word
    else:
        shown = ELSE
    start, _, end = word.partition(bare)
    return ''.join([start.strip('<>'), shown, end.strip('<>')])


def _is_public(word: str) -> bool:
    if word.isdigit():
        return len(word) <= _LONGEST_NUMBER
    return word in errors.BUSY_CODES or word.lower() in _words()


@functools.cache
def _words() -> frozenset[str]:
    """Words of rules, names of resources and of fields, and common ones."""
    text = ' '.join([_COMMON, *(f'{rule.says} {rule.how}'
                                for rule in rules.RULES.values())])
    known = {word.strip(_MARKS).lower() for word in text.split()}
    known |= {field.name for kind in vars(records).values()
              if isinstance(kind, type) and dataclasses.is_dataclass(kind)
              for field in dataclasses.fields(kind)}
    for combinations in (forms.CREATIONS, forms.UPDATES, forms.SEARCHES):
        for resource, fields in combinations.items():
            known |= {resource, *(name for each in fields for name in each)}
    return frozenset(known)
