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

"""Fix a hang of tcm_fc, the kernel's Fibre Channel target.

When an initiator's port loses its link while the target waits for the data
of a write, libfc tells tcm_fc to end the session. tcm_fc waits for its
commands, and libfc closes their exchanges only afterwards: that write never
ends, and libfc, which has one thread for the events of all ports, never logs
in to any port again. Commands whose exchange is gone are leaked as well.

Therefore the exchanges are closed first, a write that waits for data fails
when its exchange closes, and a command without an exchange for the response is
released.
"""

import re

#: Files of drivers/target/tcm_fc.
PARTS = ('tcm_fc.h', 'tfc_cmd.c', 'tfc_conf.c', 'tfc_io.c', 'tfc_sess.c')
_FAIL = """
static void ft_fail_work(struct work_struct *work)
{
    struct ft_cmd *cmd = container_of(work, struct ft_cmd, work);

    transport_generic_request_failure(&cmd->se_cmd,
                                      TCM_CHECK_CONDITION_ABORT_CMD);
}
"""
_CLOSE = """
    if (sess) {
        struct fc_lport *lport = rdata->local_port;

        lport->tt.exch_mgr_reset(lport, 0, rdata->ids.port_id);
        lport->tt.exch_mgr_reset(lport, rdata->ids.port_id, 0);
    }
"""
# If all data has arrived, the write is already queued, with the same work.
_FAIL_WRITE = """
        if (cmd->se_cmd.t_state == TRANSPORT_WRITE_PENDING &&
            cmd->write_data_len != cmd->se_cmd.data_length) {
            INIT_WORK(&cmd->work, ft_fail_work);
            queue_work(cmd->sess->tport->tpg->workqueue, &cmd->work);
        }
"""
_RELEASE = """
    if (cmd->aborted) {
        target_put_sess_cmd(se_cmd);
        return 0;
    }
"""
_REFUSE = """
    if (cmd->aborted)
        return -EIO;
"""
_GIVE_UP = """
    if (rc == -ENXIO) {
        target_put_sess_cmd(se_cmd);
        return 0;
    }
"""
_ABORTED = r'(\n{}\(struct se_cmd \*se_cmd\)\n(?:(?!\n}}).)*?)' \
    r'\n\tif \(cmd->aborted\)\n\t\treturn 0;\n'
# Expressions that match once in a file, and their replacements.
_EDITS = {
    'tfc_cmd.c': (
        (r'(#include "tcm_fc\.h"\n)', r'\1' + _FAIL),
        (_ABORTED.format('int ft_queue_status'), r'\1' + _RELEASE),
        (r'(\trc = fc_seq_send\(lport, cmd->seq, fp\);\n)', r'\1' + _GIVE_UP),
        (_ABORTED.format('int ft_write_pending'), r'\1' + _REFUSE),
        (r'\n\tfc_seq_send\(lport, cmd->seq, fp\);\n\treturn 0;\n',
         r'\n\treturn fc_seq_send(lport, cmd->seq, fp) ? -EIO : 0;\n'),
        (r'(?<=\tif \(cmd->aborted\)\n)\t\treturn;\n',
         r'\t\treturn (void)target_put_sess_cmd(se_cmd);\n'),
        (r'(\tcmd->aborted = true;\n)', r'\1' + _FAIL_WRITE)),
    'tfc_io.c': (
        (_ABORTED.format('int ft_queue_data_in'), r'\1' + _RELEASE),),
    'tfc_sess.c': (
        (r'(\tsess = ft_sess_delete\(tport, rdata->ids\.port_id\);\n)',
         r'\1' + _CLOSE),)}


class UnknownSource(Exception):
    """A file is not the expected one; the text is its name."""


def fixed(name: str, source: str) -> str:
    """Return a file of the module with the fix.

    :param name: one of PARTS
    :raises UnknownSource: the lines to edit are not the expected ones
    """
    for pattern, replacement in _EDITS.get(name, ()):
        source, count = re.subn(pattern, replacement, source, flags=re.S)
        if count != 1:
            raise UnknownSource(name)
    return source
