"""What the roles docker and nvidia_container_toolkit refuse before they change a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.docker import install_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import render

GOOD: dict[str, Any] = {
    "prefix": "docker_",
    "host": "gpu01",
    "system": "Rocky 9.4",
    "method": "static",
    "bundle": "/srv/bundle",
    "bundled": ["28.5.1"],
    "wanted": "28.5.1",
    "offline": True,
    "repository": False,
    "other_kind": False,
    "switch_enabled": False,
    "old_root": "/var/lib/docker",
    "new_root": "/var/lib/docker",
    "held": 0,
    "root_change_enabled": False,
    "flags": {},
}
DROP_IN = "/etc/systemd/system/docker.service.d/override.conf"
RUNTIME = {"said": "--add-runtime=nvidia=/usr/bin/nvidia-container-runtime", "path": DROP_IN}
LIVE = {"said": "--live-restore", "path": DROP_IN}
MOVED = {"old_root": "/var/lib/docker", "new_root": "/data", "held": 3}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"method": "packages", "wanted": ""},
        {"method": "present", "wanted": ""},
        {"method": "repository", "offline": False, "repository": True},
        {"other_kind": True, "switch_enabled": True},
        {**MOVED, "held": 0},
        {**MOVED, "root_change_enabled": True},
    ],
)
def test_what_works(changed: dict[str, Any]) -> None:
    assert install_problems({**GOOD, **changed}) == []


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({"wanted": "", "bundled": ["1.0", "2.0"]}, ["install_version_open"]),
        ({"method": "bundle", "wanted": ""}, ["install_version_open"]),
        ({"method": "repository", "repository": True}, ["install_repository_offline"]),
        ({"method": "repository"}, ["install_repository_offline", "install_no_repository"]),
        ({"other_kind": True}, ["engine_other_kind_static"]),
        ({"other_kind": True, "method": "packages"}, ["engine_other_kind_package"]),
        (MOVED, ["engine_root_moves"]),
        ({"flags": {"runtimes": RUNTIME}}, ["engine_runtime_flags"]),
        ({"flags": {"live-restore": LIVE}, "config": {"live-restore": True}}, ["engine_flag_in_file"]),
        (
            {
                "flags": {"live-restore": LIVE},
                "config": {"live-restore": True},
                "asked_options": {"live-restore": True},
            },
            ["engine_flag_asked"],
        ),
        ({"swarm": True, "asked_options": {"live-restore": True}}, ["engine_swarm_live_restore"]),
        ({"snap": True}, ["engine_is_snap"]),
        (
            {"other_kind": True, "switch_enabled": True, "live_restore_flag": LIVE},
            ["engine_switch_live_restore"],
        ),
        (
            {**MOVED, "other_kind": True, "wanted": ""},
            ["install_version_open", "engine_other_kind_static", "engine_root_moves"],
        ),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_does_not(changed: dict[str, Any], codes: list[str], lang: str) -> None:
    found = install_problems({**GOOD, **changed}, lang)
    assert [entry["code"] for entry in found] == codes
    text = render(found, lang)
    assert all(entry["what"] in text and entry["allowed"] in text and "gpu01" in entry["what"] for entry in found)


def test_the_error_says_how_to_move_the_data() -> None:
    text = render(install_problems({**GOOD, **MOVED}))
    assert "docker_data_root_change_enabled: true" in text
    assert "rsync -aHAX /var/lib/docker/ /data/" in text
