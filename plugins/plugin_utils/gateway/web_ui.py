# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The web page for people, Open WebUI, which one of the gateways shows and which asks that gateway for answers.

It runs on the gateway's own host and listens on the loopback interface alone: what people reach is the gateway, with its certificate, on a
port of its own, since Open WebUI cannot live below a path of another page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import in_url, is_address

GROUP = "llm_web_ui"
ANY, LOOPBACK = "*", "127.0.0.1"
HTTPS = 443
# Where people come in, and where the page itself listens.
PORTS = ("web_ui_port", "web_ui_listen_port")
# Its settings (https://docs.openwebui.com/reference/env-configuration). What the inventory says replaces any of these, except for those of ALWAYS.
SETTINGS = {
    "ANONYMIZED_TELEMETRY": "false",
    "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",  # a document goes into the prompt as a whole: no model for embeddings has to be fetched
    "DEFAULT_MODEL_PARAMS": '{"function_calling": "legacy"}',  # vLLM refuses tools unless it was told how the model calls them
    "DO_NOT_TRACK": "true",
    "ENABLE_COMMUNITY_SHARING": "false",
    "ENABLE_OLLAMA_API": "false",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "GLOBAL_LOG_LEVEL": "WARNING",  # what people wrote is in no log
    "HF_HUB_OFFLINE": "1",
    "OFFLINE_MODE": "true",
    "RAG_EMBEDDING_ENGINE": "openai",  # any but the one that loads a model of its own at the start
    "SCARF_NO_ANALYTICS": "true",
    "USER_AGENT": "open-webui",
}
# Sign-up is closed: the first account is the administrator's, who makes the others. What is set here holds at each start, whatever is kept.
ALWAYS = {
    "DATA_DIR": "/data",
    "ENABLE_PERSISTENT_CONFIG": "false",
    "ENABLE_SIGNUP": "false",
    "HOME": "/data",
    "STATIC_DIR": "/data/static",
    "WEBUI_AUTH": "true",
    "WEBUI_AUTH_COOKIE_SECURE": "true",
    "WEBUI_SESSION_COOKIE_SECURE": "true",
}
OWN = {
    *("AIOHTTP_CLIENT_SSL_CERT_FILE", "CORS_ALLOW_ORIGIN", "HOST", "OPENAI_API_BASE_URL", "PORT", "WEBUI_ADMIN_EMAIL"),
    *("WEBUI_URL", "OPENAI_API_KEY", "WEBUI_SECRET_KEY", "WEBUI_ADMIN_PASSWORD"),
}
# Of the controller, in llm_secrets_dir, as the role web_ui writes them to the host.
WEB_UI_KEY, SESSION_KEY, PASSWORD = "gateway_web_ui_key", "web_ui_session_key", "web_ui_admin_password"
TRUSTED = "/run/secrets/trusted.pem"


def web_ui_ports(variables: Mapping[str, Any]) -> dict[str, int]:
    """The ports that it needs on its host, by variable."""
    return {name: int(variables[name]) for name in PORTS}


def web_ui_section(
    variables: Mapping[str, Any],
    names: Sequence[str],
    own: str,
    https_port: int,
    secrets: Mapping[str, str],
    lang: str = "en",
) -> dict[str, Any]:
    """What the roles gateway and web_ui read. ``names`` are what the gateway's certificate is for, of which the first need not be known to the host
    itself; by ``own`` people find this host and no other. ``secrets`` are digests of those that are of this collection's own make."""
    port, listen = web_ui_ports(variables).values()
    name = names[0]
    at = {each: f"https://{in_url(each)}{'' if port == HTTPS else f':{port}'}" for each in [own, *names]}
    url = at[own]
    address = LOOPBACK if variables["gateway_address"] == ANY else str(variables["gateway_address"])
    return {
        "port": port,
        "listen": listen,
        "url": url,
        # On the host itself, which need not know its own name.
        "health": f"https://{in_url(address)}:{port}/health",
        "secrets": dict(secrets),
        # As one word of HAProxy's configuration.
        "away": '"' + message("web_ui_away", lang).replace('"', "") + '"',
        # The page asks through the front door, as every client does.
        "hosts": {} if is_address(name) else {name: address},
        # What the inventory sets may be secret: it is in no decision, and what is decided here counts more.
        "closed": sorted(set(map(str, variables.get("web_ui_environment") or {})) - {*ALWAYS, *OWN}),
        "environment": {
            **SETTINGS,
            **ALWAYS,
            "AIOHTTP_CLIENT_SSL_CERT_FILE": TRUSTED,
            # Answers come through a socket, which it opens for pages of these addresses only.
            "CORS_ALLOW_ORIGIN": ";".join(at.values()),
            "HOST": LOOPBACK,
            "OPENAI_API_BASE_URL": f"https://{in_url(name)}:{https_port}/v1",
            "PORT": str(listen),
            "WEBUI_ADMIN_EMAIL": str(variables["web_ui_admin_email"]),
            "WEBUI_URL": url,
        },
    }
