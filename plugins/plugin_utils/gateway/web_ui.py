# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The web page for people, Open WebUI, which one of the gateways shows and which asks that gateway for answers.

It runs on the gateway's own host and listens on the loopback interface alone: what people reach is the gateway, with its certificate, on a
port of its own, since Open WebUI cannot live below a path of another page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.environment_variables import OF_PAGE, is_owned
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, texts, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true
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
    "DEFAULT_MODEL_PARAMS": '{"function_calling": "legacy"}',  # the server refuses tools unless it was told how the model calls them
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
_ROLES = ("allowed_roles", "admin_roles")
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
TRUSTED = "/run/secrets/trusted.pem"
# Single sign-on. Secrets and the certificate of who signs for its servers are files in the same folder, for those who sign in by it.
OIDC, LDAP, SSO_CA = "web_ui_oidc", "web_ui_ldap", "web_ui_sso_ca_certificate"
OIDC_SECRET, LDAP_PASSWORD = "web_ui_oidc_client_secret", "web_ui_ldap_password"
SSO_CA_FILE = "sso_ca.pem"
LDAPS = 636
# In which proxies write who somebody is (https://docs.openwebui.com/features/authentication-access/auth/sso). No client says so to the page.
IDENTITY_HEADERS = (
    *(
        "X-Forwarded-Email",
        "X-Forwarded-User",
        "X-Forwarded-Name",
        "X-Forwarded-Groups",
        "X-Forwarded-Preferred-Username",
    ),
    *(
        "X-Auth-Request-Email",
        "X-Auth-Request-User",
        "X-Auth-Request-Groups",
        "X-User-Email",
        "X-User-Name",
        "X-User-Role",
    ),
    *("Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups", "Cf-Access-Authenticated-User-Email"),
    *("Tailscale-User-Login", "Tailscale-User-Name"),
)


def web_ui_ports(variables: Mapping[str, object]) -> dict[str, int]:
    """The ports that it needs on its host, by variable."""
    return {name: whole(variables[name]) for name in PORTS}


def sso_secrets(variables: Mapping[str, object]) -> list[str]:
    """The variables whose values are secret files of the page."""
    ldap = mapping(variables.get(LDAP))
    return [*([OIDC_SECRET] if variables.get(OIDC) else []), *([LDAP_PASSWORD] if ldap.get("app_dn") else [])]


def sso_environment(variables: Mapping[str, object], url: str) -> dict[str, str]:
    """Open WebUI's settings for those who sign in by a provider of OpenID Connect or by LDAP. Secrets come from files (start-web-ui.sh)."""
    oidc, ldap = mapping(variables.get(OIDC)), mapping(variables.get(LDAP))
    found: dict[str, object] = {}
    if oidc:
        found |= {
            "OAUTH_CLIENT_ID": oidc["client_id"],
            "OPENID_PROVIDER_URL": oidc["provider_url"],
            "OPENID_REDIRECT_URI": f"{url}/oauth/oidc/callback",
            "OAUTH_PROVIDER_NAME": oidc.get("name") or "SSO",
            "OAUTH_SCOPES": oidc.get("scopes") or "openid email profile",
            "ENABLE_OAUTH_SIGNUP": str(is_true(oidc.get("sign_up", True))).lower(),
            # Who writes another's address at a provider that does not verify it would have that one's account.
            "OAUTH_MERGE_ACCOUNTS_BY_EMAIL": "false",
        }
        roles = {f"OAUTH_{name.upper()}": ",".join(texts(oidc.get(name))) for name in _ROLES}
        if any(roles.values()):
            found |= {"ENABLE_OAUTH_ROLE_MANAGEMENT": "true", **{name: said for name, said in roles.items() if said}}
            found |= {"OAUTH_ROLES_CLAIM": oidc["roles_claim"]} if oidc.get("roles_claim") else {}
    if ldap:
        found |= {
            "ENABLE_LDAP": "true",
            "LDAP_SERVER_LABEL": ldap.get("name") or "LDAP",
            "LDAP_SERVER_HOST": ldap["host"],
            "LDAP_SERVER_PORT": ldap.get("port") or LDAPS,
            # Passwords of people go there: never without TLS.
            "LDAP_USE_TLS": "true",
            "LDAP_VALIDATE_CERT": "true",
            "LDAP_SEARCH_BASE": ldap["search_base"],
            "LDAP_APP_DN": ldap.get("app_dn") or "",
            "LDAP_ATTRIBUTE_FOR_USERNAME": ldap.get("username_attribute") or "uid",
            "LDAP_ATTRIBUTE_FOR_MAIL": ldap.get("mail_attribute") or "mail",
            "LDAP_SEARCH_FILTER": ldap.get("search_filter") or "",
        }
    if variables.get(SSO_CA) and found:
        found |= dict.fromkeys(
            ("SSL_CERT_FILE", *(["LDAP_CA_CERT_FILE"] if ldap else [])), f"/run/secrets/{SSO_CA_FILE}"
        )
    return {name: str(value) for name, value in found.items()}


def web_ui_section(
    variables: Mapping[str, object],
    names: Sequence[str],
    own: str,
    https_port: int,
    secrets: Mapping[str, str],
    lang: str = "en",
    sso_authority: str = "",
) -> dict[str, object]:
    """What the roles gateway and web_ui read.

    ``names`` are what the gateway's certificate is for, of which the first need not be known to the host itself; by ``own`` people find this host and
    no other. ``secrets`` are digests of those that are of this collection's own make. ``sso_authority`` is who signs for the servers of a single
    sign-on (PEM).
    """
    port, listen = web_ui_ports(variables).values()
    name = names[0]
    at = {each: f"https://{in_url(each)}{'' if port == HTTPS else f':{port}'}" for each in [own, *names]}
    url = at[own]
    said, sso = mapping(variables.get(OF_PAGE)), sso_environment(variables, url)
    address = LOOPBACK if variables["gateway_address"] == ANY else str(variables["gateway_address"])
    return {
        "port": port,
        "listen": listen,
        "url": url,
        # On the host itself, which need not know its own name.
        "health": f"https://{in_url(address)}:{port}/health",
        "secrets": dict(secrets),
        "identity_headers": list(IDENTITY_HEADERS),
        "sso": {
            "secrets": sso_secrets(variables),
            "ca": sso_authority if sso else "",
        },
        # As one word of HAProxy's configuration.
        "away": '"' + message("web_ui_away", lang).replace('"', "") + '"',
        # The page asks through the front door, as every client does.
        "hosts": {} if is_address(name) else {name: address},
        # What the inventory sets may be secret: it is in no decision, and what is decided here counts more.
        "closed": sorted({name for name in map(str, said) if not is_owned(OF_PAGE, name)} - {*ALWAYS, *OWN, *sso}),
        "environment": {
            **SETTINGS,
            **sso,
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
