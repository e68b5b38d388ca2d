# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables that the inventory gives to programs: their names, what they hold, and those that are no one's to set.

Units, files of an environment and containers write them; values are never shown, since each may be a secret.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine, engine_names
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory, Problems

OF_PAGE = "web_ui_environment"
# Every variable of this ending is a mapping of such names.
ENDING = "_environment"
# As a shell and systemd's EnvironmentFile take names (environ(7), systemd.exec(5)).
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# By variable of the inventory: what it may not set, and the variable to set in its place. A name that ends in * is the beginning of one.
_OWNED_BY_ENGINES = {
    # Without the token whoever reaches Ray's port runs programs: https://docs.ray.io/en/latest/ray-security/token-auth.html
    "RAY_AUTH_MODE": "ray_token_enabled",
    "RAY_AUTH_TOKEN": "ray_token",
    "CUDA_VISIBLE_DEVICES": "llm_gpu_indices",
    "NVIDIA_VISIBLE_DEVICES": "llm_gpu_indices",
}
_OIDC, _LDAP = "web_ui_oidc", "web_ui_ldap"
_OWNED_BY_PAGE = {
    # Who the sender of a request is, says a header then: any client can write one, and be an administrator.
    "WEBUI_AUTH_TRUSTED_*": f"{_OIDC}, {_LDAP}",
    "WEBUI_AUTH": f"{_OIDC}, {_LDAP}",
    **dict.fromkeys(("OAUTH_CLIENT_ID", "OPENID_PROVIDER_URL", "OPENID_REDIRECT_URI"), _OIDC),
    "OAUTH_CLIENT_SECRET": "web_ui_oidc_client_secret",
    **dict.fromkeys(("ENABLE_LDAP", "LDAP_SERVER_HOST", "LDAP_SERVER_PORT", "LDAP_APP_DN", "LDAP_SEARCH_BASE"), _LDAP),
    **dict.fromkeys(("LDAP_USE_TLS", "LDAP_VALIDATE_CERT"), _LDAP),
    **dict.fromkeys(("LDAP_CA_CERT_FILE", "SSL_CERT_FILE"), "web_ui_sso_ca_certificate"),
    "LDAP_APP_PASSWORD": "web_ui_ldap_password",
    "OPENAI_API_KEY": "gateway_keys",
    "WEBUI_SECRET_KEY": "llm_secrets_dir",
    "WEBUI_ADMIN_PASSWORD": "web_ui_admin_password",
}
# What says something about one host and is found on each, with what says it for a whole deployment.
_PER_HOST = dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), "llm_cluster_interface")


def owned() -> dict[str, dict[str, str]]:
    """By variable of the inventory: what it may not set, and what to set in its place. Of engines each role has such a variable."""
    found: dict[str, dict[str, str]] = {OF_PAGE: _OWNED_BY_PAGE}
    for name in engine_names():
        mine = engine(name)
        # Where the collection's own programs find the key.
        own = {"LLM_*": f"{name}_api_key_enabled", **mine.owned_variables}
        for role in mine.roles:
            found.setdefault(f"{role}{ENDING}", {**_OWNED_BY_ENGINES, **own})
    return found


def per_host() -> dict[str, str]:
    """What an engine is told on each host, with what says it for a whole deployment."""
    addresses = [name for each in engine_names() for name in engine(each).all_address_variables]
    return {**dict.fromkeys(addresses, "llm_cluster_network"), **_PER_HOST}


def is_owned(variable: str, name: str) -> bool:
    """Whether a variable of the inventory (an engine's environment) may not set this name."""
    return any(_owned([name], pattern) for pattern in owned().get(variable, {}))


def environment_problems(inventory: Inventory) -> Problems:
    """Each fault of a variable once, with the hosts that have it."""
    not_free = owned()
    for name in sorted(known for known in inventory.known if known.endswith(ENDING)):
        for code, find in _FAULTS.items():
            yield from _told(inventory, name, code, find)
        for found, instead in not_free.get(name, {}).items():
            find = functools.partial(_owned, pattern=found)
            yield from _told(inventory, name, "environment_owned", find, instead=instead)
        if name in not_free and name != OF_PAGE:
            yield from _same_on_several(inventory, name)


def _told(
    inventory: Inventory, name: str, code: str, find: Callable[[Mapping[object, object]], Iterable[str]], **values: str
) -> Problems:
    found: dict[tuple[str, str], list[str]] = {}
    for host in inventory.checked_hosts:
        wrong = [inventory.text(each) for each in find(_said(inventory, host, name))]
        if wrong:
            found.setdefault((inventory.names(wrong), inventory.where(name, host)), []).append(host)
    for (value, where), hosts in found.items():
        yield inventory.problem(code, value=value, where=where, name=name, hosts=inventory.names(hosts), **values)


def _said(inventory: Inventory, host: str, name: str) -> Mapping[object, object]:
    """Without values that are not known yet; the names are."""
    said = inventory.hosts[host].get(name)
    return said if isinstance(said, Mapping) else {}


def _without_name(said: Mapping[object, object]) -> list[str]:
    return [str(key) for key in said if not _NAME.fullmatch(str(key))]


def _without_text(said: Mapping[object, object]) -> list[str]:
    return [str(key) for key, value in said.items() if value is None or isinstance(value, (Mapping, list, tuple))]


_FAULTS: dict[str, Callable[[Mapping[object, object]], Iterable[str]]] = {
    "environment_name": _without_name,
    "environment_value": _without_text,
}


def _owned(said: Iterable[object], pattern: str) -> list[str]:
    beginning = pattern.removesuffix("*")
    return [str(key) for key in said if (str(key).startswith(beginning) if pattern.endswith("*") else key == pattern)]


def _same_on_several(inventory: Inventory, name: str) -> Problems:
    for deployment, members in inventory.deployments.items():
        for variable, instead in per_host().items():
            by_value: dict[str, list[str]] = {}
            for host in members:
                said = _said(inventory, host, name) if host in inventory.hosts else {}
                if variable in said:
                    by_value.setdefault(inventory.text(said[variable]), []).append(host)
            for value, hosts in by_value.items():
                if len(hosts) > 1:
                    yield inventory.problem(
                        "environment_per_host",
                        value=f"{variable}: {value}",
                        where=inventory.where(name, hosts[0], deployment),
                        name=name,
                        variable=variable,
                        hosts=inventory.names(hosts),
                        instead=instead,
                    )
