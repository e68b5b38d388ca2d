"""Where receivers of alerts are tried: nothing of an address but its host and port."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.receivers import endpoints


def test_each_kind_has_a_host_and_a_port() -> None:
    receivers = [
        {"name": "ops", "kind": "webhook", "url": "http://192.0.2.40/hook"},
        {"name": "duty", "kind": "wecom", "url": "https://robot.example/send?key=secret"},
        {"name": "inner", "kind": "feishu", "url": "http://[2001:db8::1]:8080/x"},
        {"name": "mail", "kind": "email", "smarthost": "mail.example:587"},
        {"name": "old", "kind": "email", "smarthost": "mail.example"},
    ]
    assert [(each["name"], each["host"], each["port"]) for each in endpoints(receivers)] == [
        ("ops", "192.0.2.40", 80),
        ("duty", "robot.example", 443),
        ("inner", "2001:db8::1", 8080),
        ("mail", "mail.example", 587),
        ("old", "mail.example", 25),
    ]
    assert "secret" not in str(endpoints(receivers))
