"""Docker Engine from the static archive runs, and what others wrote into daemon.json is still there."""

from __future__ import annotations

import json
from typing import Any

VERSION = "20.10.24"
testinfra_hosts = ["ssh://node2"]


def test_it_is_this_host(host: Any) -> None:
    assert host.check_output("hostname") == "node2"


def test_the_engine_answers_with_the_version_of_the_bundle(host: Any) -> None:
    assert host.check_output("docker version --format '{{.Server.Version}}'").split("+")[0] == VERSION
    assert host.file("/usr/local/lib/docker-engine/current").linked_to == f"/usr/local/lib/docker-engine/{VERSION}"


def test_every_program_of_the_archive_is_there(host: Any) -> None:
    for program in (
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "docker",
        "docker-init",
        "docker-proxy",
        "dockerd",
        "runc",
    ):
        file = host.file(f"/usr/local/lib/docker-engine/{VERSION}/{program}")
        assert file.is_file
        assert file.mode == 0o755
        assert (file.user, file.group) == ("root", "root")
        assert host.check_output(f"readlink --canonicalize /usr/local/bin/{program}") == file.path


def test_units_run_and_start_at_boot(host: Any) -> None:
    for unit in ("containerd", "docker"):
        assert host.service(unit).is_running
        assert host.service(unit).is_enabled


def test_daemon_json_holds_ours_and_theirs(host: Any) -> None:
    config = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert config["default-address-pools"] == [{"base": "10.213.0.0/16", "size": 24}]
    assert config["debug"] is False
    assert config["log-driver"] == "json-file"
    # Those of the driver "local" are gone with it: json-file would refuse "compress" without "max-file".
    assert config["log-opts"] == {"max-size": "50m", "max-file": "3"}
    assert config["live-restore"] is True
    assert "max-concurrent-downloads" not in config


def test_the_file_before_was_kept(host: Any) -> None:
    backups = host.check_output("ls /etc/docker").splitlines()
    first = next(name for name in sorted(backups) if name.startswith("daemon.json.") and name.endswith("~"))
    assert host.file(f"/etc/docker/{first}").exists
    assert host.run('grep --quiet \'"log-driver": "local"\' /etc/docker/daemon.json.*~').rc == 0


def test_the_engine_uses_it(host: Any) -> None:
    info = json.loads(host.check_output("docker info --format '{{json .}}'"))
    assert info["LiveRestoreEnabled"] is True
    assert info["LoggingDriver"] == "json-file"


def test_a_container_outlived_all_restarts(host: Any) -> None:
    assert host.check_output("docker inspect --format '{{.State.Running}} {{.RestartCount}}' survivor") == "true 0"


def test_its_group_is_empty(host: Any) -> None:
    assert host.group("docker").exists
    assert host.check_output("getent group docker").endswith(":")


def test_packages_came_from_the_bundle_and_the_hosts_own_sources_are_untouched(host: Any) -> None:
    for package in ("iptables", "python3-requests"):
        assert host.package(package).is_installed
    assert host.run("grep -rs /opt/llm /etc/apt").stdout == ""
