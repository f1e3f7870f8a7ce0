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

"""Settings of Sphinx for the documentation."""

from cinder_k2 import version as package

extensions = [
    'openstackdocstheme',
    # Prints the options of cinder.conf from the code.
    'oslo_config.sphinxext',
]

project = 'cinder-k2'
copyright = 'the cinder-k2 developers'
version = release = package.version()
language = 'en'

# A clone may have neither tags nor a remote: nothing is read from git.
openstackdocs_auto_name = False
openstackdocs_auto_version = False

# These are not among OpenStack's own pages: nobody counts visits, and the
# licence is that of this project.
templates_path = ['_templates']
html_theme = 'openstackdocs'
html_theme_options = {
    'analytics_tracking_code': '',
    'display_badge': False,
    'root_title': 'cinder-k2',
    'show_other_versions': False,
}
pygments_style = 'native'
highlight_language = 'text'
