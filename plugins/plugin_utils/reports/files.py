# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports as files on the controller."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.files import write_text
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message


def write_report(path: str, text: str, lang: str, private: bool = False) -> None:
    """In one step: whoever reads the file while it is written gets the old one. AnsibleActionFail says why it cannot be written.

    What is ``private`` only its owner may read.
    """
    try:
        if private:
            write_private(path, text)
        else:
            write_text(path, text)
    except OSError as error:
        said = message("not_writable", lang, folder=path, reason=error, variable="llm_report_dir")
        raise AnsibleActionFail(said) from error
