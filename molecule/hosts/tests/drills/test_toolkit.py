"""Docker knows the runtime of the container toolkit, and a container with it sees the cards."""

from __future__ import annotations

import json
from typing import Any

VERSION = "1.17.8"
GPUS = 2
RUN = "docker run --rm --network none --runtime nvidia --env NVIDIA_VISIBLE_DEVICES={} molecule/python:1 nvidia-smi -L"
testinfra_hosts = ["ssh://node3"]


def test_it_is_this_host(host: Any) -> None:
    assert host.check_output("hostname") == "node3"


def test_the_version_is_the_one_of_the_bundle(host: Any) -> None:
    assert host.check_output("nvidia-ctk --version").splitlines()[0].endswith(f" {VERSION}")


def test_daemon_json_has_the_runtime_beside_what_was_there(host: Any) -> None:
    config = json.loads(host.file("/etc/docker/daemon.json").content_string)
    assert config["runtimes"] == {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert config["live-restore"] is True
    assert config["default-address-pools"] == [{"base": "10.213.0.0/16", "size": 24}]
    assert "default-runtime" not in config


def test_the_engine_knows_it(host: Any) -> None:
    assert "nvidia" in json.loads(host.check_output("docker info --format '{{json .Runtimes}}'"))


def test_a_container_sees_what_the_host_sees(host: Any) -> None:
    cards = host.check_output("nvidia-smi -L").splitlines()
    assert len(cards) == GPUS
    assert host.check_output(RUN.format("all")).splitlines() == cards
    assert len(host.check_output(RUN.format("1")).splitlines()) == 1


def test_a_container_that_asks_for_none_gets_none(host: Any) -> None:
    assert host.run(RUN.format("void")).rc != 0


def test_an_older_container_outlived_the_restart(host: Any) -> None:
    assert host.check_output("docker inspect --format '{{.State.Running}} {{.RestartCount}}' survivor") == "true 0"


def test_folders_of_the_system_kept_their_owner_and_mode(host: Any) -> None:
    for path in ("/", "/usr", "/usr/bin"):
        assert (host.file(path).user, host.file(path).mode) == ("root", 0o755)
