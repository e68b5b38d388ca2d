# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SELinux has to be told on systems whose policy confines HAProxy and keepalived (EL and its kin): booleans, and the label of a folder below /run.

Source: fedora-selinux/selinux-policy, policy/modules/contrib/rhcs.te, rhcs.if and keepalived.te. ``haproxy_connect_any`` lets HAProxy connect to and bind
any port, so that no port needs a label of its own; without it HAProxy has ports of the web alone. keepalived asks the gateway whether it answers, on the
port that clients use.
"""

from __future__ import annotations

from collections.abc import Mapping

HAPROXY_BOOLEAN, KEEPALIVED_BOOLEAN = "haproxy_connect_any", "keepalived_connect_any"
# The socket and the pid that HAProxy makes itself get this type anywhere below /run. What others write for it, the state of its servers, does so only in
# a folder of that type.
RUN_TYPE = "haproxy_var_run_t"


def selinux_section(virtual: Mapping[str, object]) -> dict[str, object]:
    """``booleans`` that a gateway needs, that of HAProxy first, and the ``run_type`` of its folder; ``virtual`` is the section of the shared address."""
    return {"booleans": [HAPROXY_BOOLEAN, *([KEEPALIVED_BOOLEAN] if virtual else [])], "run_type": RUN_TYPE}
