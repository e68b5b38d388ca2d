"""The environment of everything that is started on a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.environment import container_environment
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support.deployments import member

ROOT = Path(__file__).resolve().parents[5]


def test_the_environment_of_every_container() -> None:
    assert container_environment(member()) == {
        "VLLM_HOST_IP": "10.0.0.1",
        "NCCL_SOCKET_IFNAME": "=eth1",
        "GLOO_SOCKET_IFNAME": "eth1",
        "TP_SOCKET_IFNAME": "eth1",
        "UCX_NET_DEVICES": "eth1",
        "NCCL_IB_DISABLE": "1",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": "/run/secrets/ray_token",
    }


def test_what_the_inventory_sets_in_the_environment_wins_and_is_text() -> None:
    asked = {"NCCL_IB_DISABLE": 0, "OMP_NUM_THREADS": 4, "VLLM_A": "vllm"}
    mine = member(vllm_environment=asked, ray_environment={"VLLM_A": "ray"}, llm_nccl_debug="INFO")
    found = container_environment(mine)
    assert {name: found[name] for name in ("NCCL_IB_DISABLE", "OMP_NUM_THREADS", "VLLM_A", "NCCL_DEBUG")} == {
        "NCCL_IB_DISABLE": "0",
        "OMP_NUM_THREADS": "4",
        "VLLM_A": "ray",
        "NCCL_DEBUG": "INFO",
    }


CLOSED = {
    "HF_TOKEN": "s3cret-1",
    "MY_AUTH": "s3cret-2",
    "https_proxy": "http://me:s3cret-3@proxy:3128",
    "VLLM_PLUGIN_AUTH": "s3cret-4",
    "VLLM_S3_ENDPOINT": "https://me:s3cret-5@s3",
    "ANYTHING": "s3cret-6",
}


@pytest.mark.parametrize("executor", ["ray", "mp"])
def test_what_may_be_a_secret_is_in_no_decision(executor: str) -> None:
    """Its names are, and where the programs read the values."""
    mine = member(executor=executor, ranks=(1, 1), vllm_environment=CLOSED, ray_environment={"AWS_SECRET": "s3cret-7"})
    found = host_sections(mine)
    assert "s3cret" not in str(found)
    for kind in ("ray", "vllm"):
        assert found[kind]["environment_file"] == {
            "names": sorted([*CLOSED, "AWS_SECRET"]),
            "path": f"/opt/llm/secrets/{kind}.environment",
        }
        container = found[kind]["container"]
        assert container["environment"]["LLM_ENVIRONMENT_FILE"] == f"/run/secrets/{kind}.environment"
        mounts = ["/opt/llm/secrets:/run/secrets:ro"]
        mounts += [f"/opt/llm/secrets/{kind}.environment:/run/secrets/{kind}.environment:ro"]
        assert set(mounts) & set(container["volumes"])


def test_without_such_variables_there_is_no_such_file() -> None:
    found = host_sections(member(vllm_environment={"NCCL_DEBUG": "INFO"}))
    assert found["vllm"]["environment_file"]["names"] == []
    assert "LLM_ENVIRONMENT_FILE" not in found["vllm"]["container"]["environment"]
    assert not [volume for volume in found["ray"]["container"]["volumes"] if "environment" in volume]


def test_ray_may_watch_the_memory() -> None:
    assert "RAY_memory_monitor_refresh_ms" not in container_environment(member(ray_memory_monitor_enabled="yes"))


def test_caches_lie_outside_of_the_container_unless_somebody_says_where() -> None:
    sections = host_sections(member(vllm_environment={"TRITON_CACHE_DIR": "/elsewhere"}))
    for role in ("ray", "vllm"):
        environment = sections[role]["container"]["environment"]
        assert environment["VLLM_CACHE_ROOT"] == "/var/cache/llm/vllm"
        assert environment["TRITON_CACHE_DIR"] == "/elsewhere"
    assert not [option for option in sections["vllm"]["collective"]["command"] if "CACHE" in option]


@pytest.mark.parametrize(
    ("executor", "enabled", "mode", "mounted"),
    [("ray", True, "token", True), ("ray", False, "disabled", False), ("mp", True, None, False)],
)
def test_the_token_of_ray(executor: str, enabled: bool, mode: str | None, mounted: bool) -> None:
    """Through a file, so that neither a process list nor the engine shows it."""
    sections = host_sections(member(executor=executor, ray_token_enabled=enabled))
    for role in ("ray", "vllm"):
        container = sections[role]["container"]
        assert container["environment"].get("RAY_AUTH_MODE") == mode
        assert ("RAY_AUTH_TOKEN_PATH" in container["environment"]) is mounted
    mount = "/opt/llm/secrets/ray_token:/run/secrets/ray_token:ro"
    assert (mount in sections["ray"]["container"]["volumes"]) is mounted
    without_key = host_sections(member(executor=executor, ray_token_enabled=enabled, vllm_api_key_enabled=False))
    assert (mount in without_key["vllm"]["container"]["volumes"]) is mounted


@pytest.mark.parametrize(
    ("version", "host_ip", "named"),
    [
        ("0.3.3", "10.0.0.2", "10.0.0.1"),
        ("0.4.1", "10.0.0.2", None),
        ("0.4.2", None, None),
        ("0.8.5.post1", None, None),
    ],
)
def test_old_releases_learn_their_address_without_a_default_route(
    version: str, host_ip: str | None, named: str | None
) -> None:
    """0.3 asks for the route to a name of the internet, which here is the head; 0.4.0 and 0.4.1 read a variable of another name."""
    worker = member("gpu2", vllm_version=version)
    assert container_environment(worker).get("HOST_IP") == host_ip
    for section in ("ray", "vllm"):
        assert host_sections(member(vllm_version=version))[section]["container"]["etc_hosts"].get("dns.google") == named


def answers() -> list[list[str]]:
    """What the wheels' own code answered, by release."""
    lines = (ROOT / "tests" / "data" / "vllm" / "own_address.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(("version", "alone", "with_host_ip", "with_vllm_host_ip"), answers())
def test_what_a_release_is_given_is_what_its_own_code_takes(
    version: str, alone: str, with_host_ip: str, with_vllm_host_ip: str
) -> None:
    worker = member("gpu2", vllm_version=version)
    named = "dns.google" in host_sections(worker)["ray"]["container"]["etc_hosts"]
    taken = {
        "name": alone == "10.0.0.2" and named,
        "HOST_IP": with_host_ip == container_environment(worker).get("HOST_IP"),
        "VLLM_HOST_IP": with_vllm_host_ip == container_environment(worker).get("VLLM_HOST_IP"),
    }
    assert any(taken.values()) is (version != "0.3.0")  # it needs a default route, and the plan says so
