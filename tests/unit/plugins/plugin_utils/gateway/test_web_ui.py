"""The web page for people: what it is told, what the gateway lets it do, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import SESSION_KEY, WEB_UI_KEY
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import (
    WEB_UI,
    Gateways,
    Secrets,
    decide_gateways,
    key_digest,
)

from tests.unit.plugins.plugin_utils.gateway.test_decide import ROOT, gateway, head

SECRETS = {WEB_UI_KEY: "W" * 40, SESSION_KEY: "S" * 40}
PAGE = {"web_ui_port": 8443, "web_ui_listen_port": 8480, "web_ui_admin_email": "admin@example.org"}


def decided(*gates: dict[str, Any], facts: dict[str, Any] | None = None) -> Any:
    """The decision about gateways of which the first shows the page."""
    names = [f"gate{number}" for number in range(1, len(gates) + 1)]
    variables = {name: {**gateway(), **PAGE, **mine} for name, mine in zip(names, gates, strict=True)}
    variables["gate1"]["ansible_facts"] = facts or {}
    return decide_gateways(
        Gateways(
            names,
            {"a": {"head": "h1", "hosts": ["h1"]}},
            {"h1": head(), **variables},
            addresses={"h1": "10.0.0.1"},
            web_ui=["gate1"],
        ),
        Secrets(
            key=lambda host, name: name + "k" * 40,
            replica_key=lambda: "R" * 40,
            own_key=lambda: "O" * 40,
            problems=lambda host: (),
            certificate=lambda host, wanted: {"certificate": f"{host}.crt", "root": "ca.crt"},
            web_ui=lambda host: {
                **SECRETS,
                **({"sso_ca.pem": "PEM"} if "web_ui_sso_ca_certificate" in variables[host] else {}),
            },
        ),
    )


def test_the_page_is_a_client_of_every_gateway_and_is_shown_by_one() -> None:
    sections, problems = decided({"gateway_names": ["llm.lab"]}, {"gateway_names": ["llm.lab"]})
    assert not problems
    for section in sections.values():
        assert f"{key_digest(SECRETS[WEB_UI_KEY])} {WEB_UI}\n" in section["files"]["keys.map"]
        assert f"{WEB_UI}/qwen 1\n" in section["files"]["access.map"]
        assert f"{WEB_UI} 0\n" in section["files"]["limits.map"]
    assert sections["gate1"]["web_ui"]["url"] == "https://llm.lab:8443"
    assert sections["gate2"]["web_ui"] == {}


def test_it_asks_the_gateway_of_its_host_by_the_name_of_the_certificate() -> None:
    sections, _problems = decided({"gateway_names": ["llm.lab"], "gateway_https_port": 4443})
    page = sections["gate1"]["web_ui"]
    assert page["environment"]["OPENAI_API_BASE_URL"] == "https://llm.lab:4443/v1"
    assert page["hosts"] == {"llm.lab": "127.0.0.1"}
    sections, _problems = decided({"gateway_address": "10.0.0.9", "gateway_names": ["llm.lab"]})
    assert sections["gate1"]["web_ui"]["hosts"] == {"llm.lab": "10.0.0.9"}
    sections, _problems = decided({"ansible_host": "10.0.0.9", "web_ui_port": 443, "gateway_https_port": 444})
    page = sections["gate1"]["web_ui"]
    assert (page["hosts"], page["url"]) == ({}, "https://10.0.0.9")


@pytest.mark.parametrize(
    ("address", "asked"),
    [("*", "https://127.0.0.1:8443/health"), ("fd00::9", "https://[fd00::9]:8443/health")],
)
def test_the_role_asks_it_where_the_gateway_listens(address: str, asked: str) -> None:
    sections, _problems = decided({"gateway_address": address})
    assert sections["gate1"]["web_ui"]["health"] == asked


def test_people_may_come_by_any_name_of_the_certificate() -> None:
    sections, _problems = decided({"gateway_names": ["llm.lab", "llm"], "ansible_host": "10.0.0.9"})
    origins = sections["gate1"]["web_ui"]["environment"]["CORS_ALLOW_ORIGIN"].split(";")
    assert origins == [f"https://{name}:8443" for name in ("llm.lab", "llm", "10.0.0.9", "gate1")]


def test_the_page_is_not_at_the_shared_address_which_moves() -> None:
    shared = {"gateway_names": ["llm.lab"], "gateway_virtual_address": "10.0.0.50", "gateway_address": "*"}
    sections, _problems = decided({**shared, "ansible_host": "10.0.0.9"}, {**shared, "ansible_host": "10.0.0.8"})
    page = sections["gate1"]["web_ui"]
    assert page["url"] == "https://10.0.0.9:8443"
    assert "https://10.0.0.9:8443" in page["environment"]["CORS_ALLOW_ORIGIN"].split(";")
    assert page["environment"]["OPENAI_API_BASE_URL"] == "https://llm.lab:443/v1"


def test_a_browser_is_told_how_the_text_is_written_that_it_shows_meanwhile() -> None:
    """It may be Chinese, and a text without this is read as Latin-1."""
    template = (ROOT / "roles/gateway/templates/haproxy.cfg.j2").read_text(encoding="utf-8")
    (line,) = [line for line in template.splitlines() if "web_ui.away" in line]
    assert line.split(" content-type ")[1].startswith('"text/plain; charset=utf-8" string ')


def test_no_secret_is_in_the_section() -> None:
    sections, _problems = decided({"web_ui_admin_password": "of-the-vault-0123"})
    said = str(sections)
    assert [value for value in (*SECRETS.values(), "of-the-vault-0123") if value in said] == []


def test_the_inventory_replaces_settings_but_those_that_keep_strangers_out() -> None:
    mine = {"ENABLE_TITLE_GENERATION": False, "GLOBAL_LOG_LEVEL": "INFO", "ENABLE_SIGNUP": "true", "HOST": "0.0.0.0"}
    page = decided({"web_ui_environment": mine})[0]["gate1"]["web_ui"]
    environment = page["environment"]
    # Their values are in no decision: the page reads them from a file when it starts.
    assert page["closed"] == ["ENABLE_TITLE_GENERATION", "GLOBAL_LOG_LEVEL"]
    assert "ENABLE_TITLE_GENERATION" not in environment
    assert environment["ENABLE_SIGNUP"] == "false"
    assert environment["HOST"] == "127.0.0.1"
    assert environment["OFFLINE_MODE"] == "true"


OIDC = {"provider_url": "https://login.example.org/.well-known/openid-configuration", "client_id": "llm"}
LDAP = {"host": "ldap.example.org", "search_base": "dc=example"}


def environment_of(**variables: Any) -> Any:
    return decided({"gateway_names": ["llm.lab"], **variables})[0]["gate1"]["web_ui"]


def test_people_sign_in_by_a_provider() -> None:
    page = environment_of(web_ui_oidc={**OIDC, "admin_roles": ["ops"], "roles_claim": "groups"})
    said = page["environment"]
    assert page["sso"] == {"secrets": ["web_ui_oidc_client_secret"], "ca": ""}
    assert said["OPENID_REDIRECT_URI"] == "https://llm.lab:8443/oauth/oidc/callback"
    assert (said["OAUTH_CLIENT_ID"], said["OPENID_PROVIDER_URL"]) == ("llm", OIDC["provider_url"])
    assert (said["ENABLE_OAUTH_SIGNUP"], said["OAUTH_MERGE_ACCOUNTS_BY_EMAIL"]) == ("true", "false")
    roles = {name: said[name] for name in said if "ROLE" in name}
    assert roles == {
        "ENABLE_OAUTH_ROLE_MANAGEMENT": "true",
        "OAUTH_ADMIN_ROLES": "ops",
        "OAUTH_ROLES_CLAIM": "groups",
    }
    assert environment_of(web_ui_oidc={**OIDC, "sign_up": False})["environment"]["ENABLE_OAUTH_SIGNUP"] == "false"


def test_people_sign_in_by_a_directory_with_tls_only() -> None:
    page = environment_of(web_ui_ldap={**LDAP, "app_dn": "cn=llm"}, web_ui_sso_ca_certificate="ca.pem")
    said = page["environment"]
    assert page["sso"] == {"secrets": ["web_ui_ldap_password"], "ca": "PEM"}
    assert (said["LDAP_SERVER_HOST"], said["LDAP_SERVER_PORT"]) == ("ldap.example.org", "636")
    assert (said["LDAP_USE_TLS"], said["LDAP_VALIDATE_CERT"]) == ("true", "true")
    assert said["LDAP_CA_CERT_FILE"] == said["SSL_CERT_FILE"] == "/run/secrets/sso_ca.pem"
    assert environment_of(web_ui_ldap=LDAP)["sso"]["secrets"] == []


def test_without_a_single_sign_on_nothing_is_said_of_one() -> None:
    page = environment_of(web_ui_sso_ca_certificate="ca.pem")
    assert page["sso"] == {"secrets": [], "ca": ""}
    assert [name for name in page["environment"] if name.startswith(("OAUTH", "LDAP", "ENABLE_LDAP", "SSL"))] == []


def test_no_header_of_a_client_says_who_somebody_is() -> None:
    trusted = {"WEBUI_AUTH_TRUSTED_EMAIL_HEADER": "X-Forwarded-Email", "WEBUI_AUTH": "false"}
    page = environment_of(web_ui_environment=trusted)
    assert [name for name in page["environment"] if "TRUSTED" in name] == []
    assert page["environment"]["WEBUI_AUTH"] == "true"
    assert "X-Forwarded-Email" in page["identity_headers"]
    template = (ROOT / "roles/gateway/templates/haproxy.cfg.j2").read_text(encoding="utf-8")
    assert "del-header {{ header }}" in template.split("frontend web_ui")[1].split("backend web_ui")[0]


@pytest.mark.parametrize(
    ("ports", "variable", "process"),
    [
        ({"web_ui_port": 443}, "web_ui_port: 443", "gateway_https_port"),
        ({"web_ui_listen_port": 80}, "web_ui_listen_port: 80", "gateway_http_port"),
        ({"web_ui_listen_port": 8443}, "web_ui_listen_port: 8443", "web_ui_port"),
        ({"web_ui_port": 9999}, "web_ui_port: 9999", "nginx"),
    ],
)
def test_a_port_that_is_taken_is_refused(ports: dict[str, int], variable: str, process: str) -> None:
    listeners = {"llm_host": {"listeners": [{"port": 9999, "process": "nginx"}]}}
    sections, (problem,) = decided(ports, facts=listeners)
    assert not sections
    assert (problem["code"], problem["value"]) == ("gateway_port_taken", variable)
    assert process in problem["what"]


def test_its_own_program_is_no_stranger_once_it_was_set_up() -> None:
    facts: dict[str, Any] = {"llm_host": {"listeners": [{"port": 8480, "process": "python3"}]}}
    assert [problem["value"] for problem in decided({}, facts=facts)[1]] == ["web_ui_listen_port: 8480"]
    assert decided({}, facts={**facts, "llm_records": {"web_ui": {}}})[1] == []
