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

"""Options of a back end in cinder.conf."""

from oslo_config import cfg
from oslo_config import types

from cinder_k2 import volume_types

k2_opts = [
    cfg.StrOpt('k2_tls_fingerprint',
               help='SHA-256 fingerprint of the array\'s HTTPS certificate, '
                    '64 hexadecimal digits with or without colons. Set it '
                    'for an array with a self-signed certificate: the driver '
                    'then accepts only this certificate, and needs no '
                    'certificate authority. It replaces '
                    'driver_ssl_cert_verify. To get it: openssl s_client '
                    '-connect <san_ip>:443 </dev/null | openssl x509 '
                    '-noout -fingerprint -sha256'),
    cfg.StrOpt('k2_sdp_id',
               help='ID of the data pod, if san_ip is the address of the '
                    'vendor\'s cloud manager and not of the array itself. '
                    'Requires k2_app_token.'),
    cfg.StrOpt('k2_app_token',
               secret=True,
               help='Application token of the vendor\'s cloud manager, used '
                    'instead of san_login and san_password. Requires '
                    'k2_sdp_id.'),
    cfg.FloatOpt('k2_connect_timeout',
                 default=10.0, min=0.1,
                 help='Seconds to wait for a connection to the array\'s '
                      'management address.'),
    cfg.FloatOpt('k2_read_timeout',
                 default=60.0, min=0.1,
                 help='Seconds to wait for the array\'s reply to one '
                      'request.'),
    cfg.FloatOpt('k2_retry_timeout',
                 default=180.0, min=1,
                 help='Seconds after which the driver gives up on an '
                      'operation on the array, retries included, when the '
                      'array is busy or does not respond.'),
    cfg.IntOpt('k2_max_concurrent_writes',
               default=32, min=1, max=64,
               help='Maximum number of concurrent write requests to the '
                    'array. The driver adapts to the number that the array '
                    'can handle and stays below this limit; lower it only '
                    'to leave room for other users of the array.'),
    cfg.ListOpt('k2_disabled_capabilities',
                default=[],
                help='Capabilities of the array that the driver must not '
                     'use, by the names that "k2-admin capabilities" shows, '
                     'such as creations:volumes:is_thin_clone for thin '
                     'clones. A name includes all names that begin with it '
                     'and a colon: bulk turns off all bulk calls. Without '
                     'them the driver still does everything that the in-tree '
                     'driver can do, but more slowly.'),
    cfg.ListOpt('k2_iscsi_cidrs',
                default=['0.0.0.0/0', '::/0'],
                help='Networks, in CIDR notation, whose iSCSI portals are '
                     'offered to hosts. Portals of the array in other '
                     'networks are not offered. By default all are.'),
    cfg.BoolOpt('k2_discard',
                default=True,
                help='Report to hosts that volumes support discard (TRIM, '
                     'UNMAP), so that guests can return unused space to the '
                     'array. A guest needs a disk bus that supports it, such '
                     'as scsi with the image property '
                     'hw_scsi_model=virtio-scsi. Turn it off if guests must '
                     'not reclaim space. A change applies to new '
                     'attachments.'),
    cfg.FloatOpt('k2_reconciliation_interval',
                 default=600.0, min=360,
                 help='Seconds within which stale mappings are removed. A '
                      'detach leaves the mapping in place while the volume '
                      'has another attachment to the same host; it becomes '
                      'stale when that attachment is gone, too. Mappings '
                      'are checked when Cinder collects statistics, so '
                      'backend_stats_polling_interval must not exceed a '
                      'sixth of this value.'),
    cfg.StrOpt('k2_host_type',
               default='Linux',
               choices=['Linux', 'Windows', 'ESX', 'AIX', 'Solaris'],
               help='Host type (operating system) of hosts that the driver '
                    'creates on the array. Existing hosts keep theirs. All '
                    'members of a host group must have the same type unless '
                    'the group allows different types.'),
    cfg.ListOpt('k2_clone_strategies',
                default=list(volume_types.STRATEGIES),
                item_type=types.String(choices=volume_types.STRATEGIES),
                help='How to create a clone or a volume from a snapshot, in '
                     'order of preference. "thin": a thin clone on the '
                     'array, in a volume group of its own (newer arrays; '
                     'same deduplication). "view": a writable view of the '
                     'snapshot (every array; same size and deduplication). '
                     '"copy": a new volume into which this host copies the '
                     'data (every array, size and type; slow). A volume '
                     'type can override this with the extra spec '
                     'kaminario:clone_strategy.'),
    cfg.BoolOpt('k2_unmanage_restores_names',
                default=False,
                help='Restore the original names of a volume and its volume '
                     'group on the array when the volume is unmanaged. '
                     'Otherwise they keep the names that Cinder gave them.'),
    cfg.StrOpt('k2_retention_policy',
               default='Best_Effort_Retention',
               help='Name of the array\'s retention policy for snapshots. '
                    'The driver also excludes its snapshots from automatic '
                    'deletion by the array.'),
    cfg.IntOpt('k2_max_concurrent_copies',
               default=4, min=1,
               help='Maximum number of volumes that this cinder-volume '
                    'copies at the same time, for clones and reverts that '
                    'the array cannot do. Further copies wait.'),
    cfg.FloatOpt('k2_copy_timeout',
                 default=21600.0, min=1,
                 help='Seconds that a copy of a volume by this cinder-volume '
                      'may take, and may wait to start.'),
    cfg.StrOpt('k2_replication_password',
               secret=True,
               help='Password for every array in replication_device that '
                    'has no password there. It can contain characters that '
                    'replication_device cannot: a comma, and leading or '
                    'trailing spaces if the value is in quotes. As in every '
                    'option, write $$ for a dollar sign. As a separate '
                    'option, it can come from a secret store.'),
    cfg.StrOpt('k2_replication_retention_policy',
               default='Replication_Retention',
               help='Name of the retention policy, on each array, for the '
                    'snapshots that replication takes.'),
    cfg.FloatOpt('k2_failback_timeout',
                 default=86400.0, min=1,
                 help='Seconds to wait for all data to be replicated back to '
                      'an array before volumes are failed back to it. '
                      'Volumes whose data has not arrived by then stay '
                      'failed over, and can be failed back later.'),
]

# Options that the in-tree driver defines too, under the same names.
shared_opts = [
    cfg.BoolOpt('auto_calc_max_oversubscription_ratio',
                default=False,
                help='Report the ratio of provisioned to used capacity that '
                     'the array measures, instead of '
                     'max_over_subscription_ratio.'),
    cfg.BoolOpt('disable_discovery',
                default=False,
                help='Kept so that an older cinder.conf loads; has no effect. '
                     'The driver passes all portals of the array to every '
                     'host, so no discovery is needed.'),
]


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Entry point ``oslo.config.opts``: for oslo-config-generator."""
    return [('backend_defaults', [*k2_opts, *shared_opts])]
