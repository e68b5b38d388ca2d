# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the web page for people has a place, as far as the inventory tells."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.web_ui import (
    GROUP,
    LDAP,
    OIDC,
    OIDC_SECRET,
    sso_secrets,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems

EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
PASSWORD_LENGTH = 12


def web_ui_problems(inventory: Inventory) -> Problems:
    """Its state is on one disk, so there is one of it; a gateway on the same host shows it, and gives it answers."""
    hosts = inventory.members(GROUP)
    where = f"{GROUP}: {inventory.names(hosts)}"
    if len(hosts) > 1:
        yield inventory.problem("web_ui_several", value=inventory.names(hosts), where=GROUP)
    gateways = inventory.members("llm_gateway")
    for host in hosts:
        if host not in gateways:
            said = inventory.names(gateways) if gateways else "-"
            yield inventory.problem("web_ui_no_gateway", value=host, where=where, host=host, gateways=said)
        email = inventory.get(host, "web_ui_admin_email")
        if email is not None and not inventory.is_open(host, "web_ui_admin_email") and not EMAIL.fullmatch(str(email)):
            where_it_is = inventory.where("web_ui_admin_email", host)
            yield inventory.problem("web_ui_email", value=inventory.text(email), where=where_it_is)
        for name in sso_secrets(
            {name: inventory.get(host, name) for name in (OIDC, LDAP) if _is_mapping(inventory, host, name)}
        ):
            if inventory.get(host, name) in (None, "") and not inventory.is_open(host, name):
                said = inventory.where(OIDC if name == OIDC_SECRET else LDAP, host)
                yield inventory.problem("web_ui_sso_secret", where=said, name=name)
        password = inventory.get(host, "web_ui_admin_password")
        if password is not None and len(str(password)) < PASSWORD_LENGTH:
            where_it_is = inventory.where("web_ui_admin_password", host)
            yield inventory.problem("web_ui_password", where=where_it_is, least=PASSWORD_LENGTH)


def _is_mapping(inventory: Inventory, host: str, name: str) -> bool:
    """Another type is refused with those of all variables."""
    return isinstance(inventory.get(host, name), Mapping)
