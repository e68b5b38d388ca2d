"""Where the web page for people has a place, as far as the inventory tells."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.inventory import Inventory
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import Unresolved
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.web_ui import web_ui_problems


def found(page: list[str], gateways: list[str], lang: str = "en", **variables: Any) -> list[dict[str, str]]:
    groups = {"llm_web_ui": {"hosts": page}, "llm_gateway": {"hosts": gateways}}
    hosts = dict.fromkeys([*page, *gateways], variables)
    return list(web_ui_problems(Inventory(hosts, groups, known_variables(), {}, lang)))


def test_a_host_with_a_gateway_is_a_place() -> None:
    assert found(["a"], ["a", "b"], web_ui_admin_email="admin@example.org") == []
    assert found(["a"], ["a"]) == [], "the defaults are right"
    assert found([], []) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_cannot_be_is_refused(lang: str) -> None:
    def codes(page: list[str], gateways: list[str], **variables: Any) -> list[str]:
        return [problem["code"] for problem in found(page, gateways, lang, **variables)]

    assert codes(["a", "b"], ["a", "b"]) == ["web_ui_several"]
    assert codes(["a"], ["b"]) == ["web_ui_no_gateway"]
    assert codes(["a"], []) == ["web_ui_no_gateway"]
    assert codes(["a"], ["a"], web_ui_admin_email="root") == ["web_ui_email"]
    assert codes(["a"], ["a"], web_ui_admin_password="short") == ["web_ui_password"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_single_sign_on_has_its_secret(lang: str) -> None:
    oidc = {"provider_url": "https://login.example.org/.well-known/openid-configuration", "client_id": "llm"}
    ldap = {"host": "ldap.example.org", "search_base": "dc=example"}

    def codes(**variables: Any) -> list[str]:
        return [problem["code"] for problem in found(["a"], ["a"], lang, **variables)]

    assert codes(web_ui_oidc=oidc) == ["web_ui_sso_secret"]
    assert codes(web_ui_oidc=oidc, web_ui_oidc_client_secret="s") == []
    assert codes(web_ui_oidc=oidc, web_ui_oidc_client_secret=Unresolved("secret")) == []
    assert codes(web_ui_ldap=ldap) == [], "it asks as nobody"
    assert codes(web_ui_ldap={**ldap, "app_dn": "cn=llm"}) == ["web_ui_sso_secret"]
    assert codes(web_ui_ldap={**ldap, "app_dn": "cn=llm"}, web_ui_ldap_password="s") == []
    assert codes(web_ui_oidc="https://login.example.org", web_ui_ldap=["x"]) == [], "types are judged elsewhere"


def test_a_password_that_is_refused_is_not_shown() -> None:
    assert "s3cret" not in str(found(["a"], ["a"], web_ui_admin_password="s3cret"))
