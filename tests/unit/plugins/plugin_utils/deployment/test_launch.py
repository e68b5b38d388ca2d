"""What each host of a deployment starts: Ray's node, vLLM, its probe and the all-reduce."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import (
    GIB,
    Deployment,
    Member,
    model_path,
    object_store_gib,
)

from tests.support.deployments import INFINIBAND, host, plan

ROOT = Path(__file__).resolve().parents[5]


def deployment(executor: str = "ray", ranks: tuple[int, ...] = (1, 1), **more: Any) -> Deployment:
    """Of gpu1, the head, and others, with these variables on each of them."""
    variables = {f"gpu{n}": host(n, **more) for n in range(1, len(ranks) + 1)}
    return Deployment("tiny", "gpu1", list(variables), plan(executor, *ranks), "image:1", variables)


def member(name: str = "gpu1", executor: str = "ray", ranks: tuple[int, ...] = (1, 1), **more: Any) -> Member:
    return deployment(executor, ranks, **more).of(name)


def values(command: list[str]) -> dict[str, str]:
    """The options of a command, --name=value and --name value alike."""
    found: dict[str, str] = {}
    for option, following in zip(command, [*command[1:], ""], strict=True):
        if option.startswith("--"):
            name, equals, value = option.partition("=")
            found[name] = value if equals else "" if following.startswith("--") else following
    return found


@pytest.mark.parametrize(
    ("mib", "gib"),
    [(None, 1), (15 * 1024, 1), (62 * 1024 + 700, 3), (62 * 1024 + 716, 3), (125 * 1024, 6), (2048 * 1024, 8)],
)
def test_ray_gets_whole_gibibytes_unless_somebody_says_how_much(mib: int | None, gib: int) -> None:
    found = {"ansible_facts": {} if mib is None else {"llm_memory_mib": mib}}
    assert object_store_gib(found) == gib
    assert object_store_gib({**found, "ray_object_store_memory_gib": 0.2}) == 0.2
    assert object_store_gib({**found, "ray_object_store_memory_gib": "0.2"}) == 0.2


@pytest.mark.parametrize(
    ("model", "path"), [("lab/tiny", "/opt/llm/models/lab--tiny"), ("/data/tiny", "/data/tiny"), ("tiny", "/opt/llm/models/tiny")]
)  # fmt: skip
def test_where_the_model_lies(model: str, path: str) -> None:
    assert model_path(host(1, vllm_model=model)) == path


@pytest.mark.parametrize(
    ("settings", "devices"),
    [
        ({}, []),
        ({"found": {"llm_rdma_found": [INFINIBAND]}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"ray_environment": {"NCCL_IB_DISABLE": "0"}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"vllm_environment": {"NCCL_IB_DISABLE": 0}}, ["/dev/infiniband:/dev/infiniband"]),
        ({"found": {"llm_rdma_found": [INFINIBAND]}, "ray_environment": {"NCCL_IB_DISABLE": "1"}}, []),
    ],
)
def test_who_asks_for_rdma_gets_its_devices(settings: dict[str, Any], devices: list[str]) -> None:
    sections = member(**settings).sections()
    assert sections["ray"]["container"]["devices"] == devices
    assert sections["vllm"]["container"]["devices"] == devices
    mounted = [option for option in sections["vllm"]["collective"]["command"] if option.startswith("--device=")]
    assert mounted == [f"--device={device}" for device in devices]


def test_little_is_left_of_the_rights_of_root() -> None:
    sections = member().sections()
    for container in (sections["ray"]["container"], sections["vllm"]["container"]):
        assert container["user"] == "0:0"
        assert container["security_opts"] == ["no-new-privileges"]
        assert (container["cap_drop"], container["capabilities"]) == (["ALL"], ["DAC_OVERRIDE"])
    command = sections["vllm"]["collective"]["command"]
    assert {"--user=0:0", "--security-opt=no-new-privileges", "--cap-drop=ALL", "--cap-add=DAC_OVERRIDE"} <= set(
        command
    )
    assert "--privileged" not in command
    asked = member(ray_capabilities=["SYS_NICE"], vllm_port=443).sections()
    assert asked["ray"]["container"]["capabilities"] == ["SYS_NICE"]
    assert asked["vllm"]["container"]["capabilities"] == ["NET_BIND_SERVICE", "SYS_NICE"]


@pytest.mark.parametrize("executor", ["ray", "mp"])
def test_another_user_has_no_capability_and_a_home_and_a_temporary_folder_of_its_own(executor: str) -> None:
    sections = member(executor=executor, vllm_version="0.32.0").sections()
    assert sections["tmp"] == {"path": "/opt/llm/tmp-70000", "uid": 70000}
    for container in (sections["ray"]["container"], sections["vllm"]["container"]):
        assert (container["user"], container["cap_drop"], container["capabilities"]) == ("70000:0", ["ALL"], [])
        assert "/opt/llm/tmp-70000:/tmp" in container["volumes"]
        assert {name: container["environment"][name] for name in ("HOME", "USER", "LOGNAME")} == {
            "HOME": "/var/tmp/llm",
            "USER": "llm",
            "LOGNAME": "llm",
        }
    command = sections["vllm"]["collective"]["command"]
    assert "--user=70000:0" in command
    assert not [option for option in command if option.startswith("--cap-add")]
    assert not {"HOME", "USER", "LOGNAME"} & set(member().environment), "root has those of the image"


@pytest.mark.parametrize("executor", ["ray", "mp"])
def test_what_containers_see_of_the_host_cannot_be_written(executor: str) -> None:
    """But for the folders that both have as /tmp and for caches."""
    sections = member(executor=executor).sections()
    for role in ("ray", "vllm"):
        writable = [volume for volume in sections[role]["container"]["volumes"] if not volume.endswith(":ro")]
        assert writable == ["/opt/llm/tmp:/tmp", "/opt/llm/cache/image-1-7.0-0:/var/cache/llm"]


def test_caches_lie_outside_of_the_container_unless_somebody_says_where() -> None:
    sections = member(vllm_environment={"TRITON_CACHE_DIR": "/elsewhere"}).sections()
    for role in ("ray", "vllm"):
        environment = sections[role]["container"]["environment"]
        assert environment["VLLM_CACHE_ROOT"] == "/var/cache/llm/vllm"
        assert environment["TRITON_CACHE_DIR"] == "/elsewhere"
    assert not [option for option in sections["vllm"]["collective"]["command"] if "CACHE" in option]


@pytest.mark.parametrize(("gib", "memory"), [(None, ""), (0.5, str(GIB // 2)), ("48", str(48 * GIB))])
def test_the_limits_of_a_container(gib: Any, memory: str) -> None:
    sections = member(ray_pids_limit="4096", **({} if gib is None else {"ray_memory_limit_gib": gib})).sections()
    for role in ("ray", "vllm"):
        container = sections[role]["container"]
        assert (container["pids_limit"], container["memory"]) == (4096, memory)
    assert member().sections()["ray"]["container"]["pids_limit"] == 65536


def test_rdma_of_one_host_only_is_not_used() -> None:
    made = deployment()
    made.variables["gpu1"]["ansible_facts"]["llm_rdma_found"] = [INFINIBAND]
    assert made.of("gpu1").devices == []


def test_the_environment_of_every_container() -> None:
    assert member().environment == {
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
    asked = {"NCCL_IB_DISABLE": 0, "OMP_NUM_THREADS": 4, "A": "vllm"}
    found = member(vllm_environment=asked, ray_environment={"A": "ray"}, llm_nccl_debug="INFO").environment
    assert {name: found[name] for name in ("NCCL_IB_DISABLE", "OMP_NUM_THREADS", "A", "NCCL_DEBUG")} == {
        "NCCL_IB_DISABLE": "0",
        "OMP_NUM_THREADS": "4",
        "A": "ray",
        "NCCL_DEBUG": "INFO",
    }


def test_a_node_of_ray_notices_soon_that_its_head_is_another() -> None:
    name = "RAY_raylet_liveness_self_check_interval_ms"
    for each in ("gpu1", "gpu2"):
        assert member(each).sections()["ray"]["container"]["environment"][name] == "5000"
    slower = member(ray_environment={name: 60000}).sections()["ray"]["container"]["environment"]
    assert slower[name] == "60000"


def test_ray_may_watch_the_memory() -> None:
    assert "RAY_memory_monitor_refresh_ms" not in member(ray_memory_monitor_enabled="yes").environment


@pytest.mark.parametrize(
    ("executor", "enabled", "mode", "mounted"),
    [("ray", True, "token", True), ("ray", False, "disabled", False), ("mp", True, None, False)],
)
def test_the_token_of_ray(executor: str, enabled: bool, mode: str | None, mounted: bool) -> None:
    """Through a file, so that neither a process list nor the engine shows it."""
    sections = member(executor=executor, ray_token_enabled=enabled).sections()
    for role in ("ray", "vllm"):
        container = sections[role]["container"]
        assert container["environment"].get("RAY_AUTH_MODE") == mode
        assert ("RAY_AUTH_TOKEN_PATH" in container["environment"]) is mounted
    mount = "/opt/llm/secrets/ray_token:/run/secrets/ray_token:ro"
    assert (mount in sections["ray"]["container"]["volumes"]) is mounted
    without_key = member(executor=executor, ray_token_enabled=enabled, vllm_api_key_enabled=False).sections()
    assert (mount in without_key["vllm"]["container"]["volumes"]) is mounted


def test_the_hosts_of_the_ranks_have_names_in_the_form_that_torch_asks_for() -> None:
    made = deployment(ranks=(1, 1, 0))
    assert made.etc_hosts == {"gpu1.rank": "::ffff:10.0.0.1", "gpu2.rank": "::ffff:10.0.0.2"}
    made.variables["gpu2"]["llm_interface"]["address"] = "fd00::2"
    again = Deployment("tiny", "gpu1", made.hosts, made.plan, "image:1", made.variables)
    assert again.etc_hosts["gpu2.rank"] == "fd00::2"
    assert deployment(ranks=(2,)).etc_hosts == {}


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
    assert worker.environment.get("HOST_IP") == host_ip
    for section in ("ray", "vllm"):
        assert member(vllm_version=version).sections()[section]["container"]["etc_hosts"].get("dns.google") == named


def answers() -> list[list[str]]:
    """What the wheels' own code answered, by release."""
    lines = (ROOT / "tests" / "data" / "vllm" / "own_address.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(("version", "alone", "with_host_ip", "with_vllm_host_ip"), answers())
def test_what_a_release_is_given_is_what_its_own_code_takes(
    version: str, alone: str, with_host_ip: str, with_vllm_host_ip: str
) -> None:
    worker = member("gpu2", vllm_version=version)
    named = "dns.google" in worker.sections()["ray"]["container"]["etc_hosts"]
    taken = {
        "name": alone == "10.0.0.2" and named,
        "HOST_IP": with_host_ip == worker.environment.get("HOST_IP"),
        "VLLM_HOST_IP": with_vllm_host_ip == worker.environment.get("VLLM_HOST_IP"),
    }
    assert any(taken.values()) is (version != "0.3.0")  # it needs a default route, and the plan says so


def test_a_release_without_its_own_all_reduce_is_not_told_to_leave_it() -> None:
    found = {"llm_gpu_p2p": {"0": {"1": False}, "1": {"0": False}}}
    for version, switched_off in (("0.2.7", False), ("0.3.0", True)):
        one = deployment("mp", (2,), found=found, vllm_version=version)
        assert ("--disable-custom-all-reduce" in one.launch["gpu1"]["argv"]) is switched_off


def test_what_containers_see_of_the_host() -> None:
    sections = member(llm_host_dir="/data").sections()
    cache = "/data/cache/image-1-7.0-0:/var/cache/llm"
    common = ["/data/scripts:/llm:ro", "/data/tmp:/tmp", cache, "/opt/llm/models:/opt/llm/models:ro"]
    token = "/data/secrets/ray_token:/run/secrets/ray_token:ro"
    # A head's server sees the folder: keys change while it runs.
    both = "/data/secrets:/run/secrets:ro"
    assert sections["ray"]["container"]["volumes"] == [*common, token]
    assert sections["vllm"]["container"]["volumes"] == [*common, both, "/run/llm-probe:/run/llm-probe:ro"]


def test_a_file_of_options_lies_where_its_release_reads_it() -> None:
    """In the folder of the scripts, which the container sees."""
    old, new = (
        member(vllm_version=version, llm_host_dir="/data").sections()["vllm"] for version in ("0.11.0", "0.11.1")
    )
    assert old["config"] == {"path": "/data/scripts/vllm.yaml", "content": {}}
    assert "--config" not in old["container"]["command"]
    assert new["config"]["path"] == "/data/scripts/vllm.yaml"
    assert new["config"]["content"]["served-model-name"] == "lab/tiny"
    command = new["container"]["command"]
    assert command[command.index("--config") + 1] == "/llm/vllm.yaml"
    assert "/data/scripts:/llm:ro" in new["container"]["volumes"]
    # A container with other options is another one, though its command is the same.
    longer = member(vllm_version="0.11.1", vllm_port=8001, llm_host_dir="/data").sections()["vllm"]
    again = member(vllm_version="0.11.1", llm_host_dir="/data").sections()["vllm"]
    assert longer["container"]["command"] == new["container"]["command"]
    assert (longer["reads"] == new["reads"], again["reads"] == new["reads"]) == (False, True)


@pytest.mark.parametrize(("locked", "limits"), [(True, ["nofile:1:2", "memlock:-1:-1"]), ("no", ["nofile:1:2"])])
def test_the_limits_of_the_containers(locked: Any, limits: list[str]) -> None:
    sections = member(ray_ulimits=["nofile:1:2"], ray_memory_lock_enabled=locked).sections()
    assert sections["ray"]["container"]["ulimits"] == sections["vllm"]["container"]["ulimits"] == limits
    command = sections["vllm"]["collective"]["command"]
    assert [option for option in command if "--ulimit" in option] == [
        f"--ulimit={limit.replace(':', '=', 1)}" for limit in limits
    ]


# -- Ray --------------------------------------------------------------------------------------------------------------
PORTS = [
    "--node-manager-port=6380",
    "--object-manager-port=6381",
    "--runtime-env-agent-port=6382",
    "--dashboard-agent-grpc-port=6383",
    "--dashboard-agent-listen-port=6384",
    "--metrics-export-port=6385",
    "--min-worker-port=10002",
    "--max-worker-port=10999",
]


def test_the_node_of_the_head() -> None:
    ray = member(ranks=(2, 1), ray_object_store_memory_gib=0.5).sections()["ray"]
    assert ray["needed"]
    assert ray["container"]["entrypoint"] == ["/bin/bash", "/llm/start-ray.sh"]
    assert ray["container"]["command"] == [
        "--head",
        "--port=6379",
        "--ray-client-server-port=10001",
        "--include-dashboard=false",
        "--block",
        "--node-ip-address=10.0.0.1",
        "--num-gpus=2",
        '--resources={"host:gpu1": 1}',
        f"--object-store-memory={GIB // 2}",
        *PORTS,
    ]


def test_the_node_of_a_worker() -> None:
    ray = member("gpu2", ray_port=6400, ray_num_cpus=8).sections()["ray"]
    assert ray["container"]["command"] == [
        "--address=10.0.0.1:6400",
        "--block",
        "--node-ip-address=10.0.0.2",
        "--num-gpus=1",
        '--resources={"host:gpu2": 1}',
        f"--object-store-memory={3 * GIB}",
        *PORTS,
        "--num-cpus=8",
    ]


def test_the_dashboard_where_somebody_asks_for_it() -> None:
    dashboard: dict[str, Any] = {
        "ray_dashboard_enabled": "true",
        "ray_dashboard_host": "0.0.0.0",
        "ray_dashboard_port": 8266,
    }
    command = member(**dashboard).sections()["ray"]["container"]["command"]
    assert command[3:6] == ["--include-dashboard=true", "--dashboard-host=0.0.0.0", "--dashboard-port=8266"]
    assert not [option for option in member("gpu2", **dashboard).ray_command(1) if "dashboard-host" in option]


@pytest.mark.parametrize(("executor", "needed"), [("ray", [True, True, False]), ("mp", [False] * 3)])
def test_ray_runs_where_it_has_gpus_to_lend(executor: str, needed: list[bool]) -> None:
    made = deployment(executor, (1, 2, 0))
    sections = [made.of(name).sections()["ray"] for name in made.hosts]
    assert [section["needed"] for section in sections] == needed
    for section in sections:
        assert section["planned_gpus"] == {"gpu1": 1, "gpu2": 2}
        assert section["addresses"] == {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2"}
        assert section["address"] == "10.0.0.1:6379"
        # Engines before 23 may wait for ever.
        assert section["exec"][0] == "timeout"


# -- vLLM -------------------------------------------------------------------------------------------------------------
def test_vllm_on_one_host() -> None:
    sections = member(executor="uni", ranks=(1,)).sections()
    container = sections["vllm"]["container"]
    assert container["entrypoint"] == ["/bin/bash", "/llm/start-vllm.sh", "0"]
    assert container["command"][:5] == [
        *("python3", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "/opt/llm/models/lab--tiny"),
    ]
    given = values(container["command"])
    assert (given["--port"], given["--served-model-name"]) == ("8000", "lab/tiny")
    assert container["pid_mode"] == ""
    assert container["environment"]["HF_HUB_OFFLINE"] == "1"
    assert "RAY_ADDRESS" not in container["environment"]
    assert not sections["ray"]["needed"]


def test_vllm_with_ray() -> None:
    made = deployment("ray", (2, 1))
    head, worker = (made.of(name).sections()["vllm"] for name in made.hosts)
    # It waits for every GPU of the plan.
    assert head["container"]["entrypoint"] == ["/bin/bash", "/llm/start-vllm.sh", "3"]
    assert head["container"]["environment"]["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert head["container"]["pid_mode"] == "host"
    assert (worker["needed"], worker["container"]) == (False, {})
    assert worker["ranks"] == head["ranks"] == ["gpu1", "gpu1", "gpu2"]


def test_vllm_on_several_hosts_without_ray() -> None:
    made = deployment("mp", (1, 1, 0), vllm_version="0.20.0", vllm_served_model_name="tiny", vllm_master_port=29600)
    head, worker, idle = (made.of(name).sections()["vllm"] for name in made.hosts)
    assert head["container"]["entrypoint"] == ["/bin/bash", "/llm/start-vllm.sh", "0"]
    assert worker["container"]["entrypoint"] == ["python3", "/llm/follow_head.py", "10.0.0.1", "29600"]
    for rank, section in enumerate((head, worker)):
        assert section["container"]["command"] == [
            *("vllm", "serve", "/opt/llm/models/lab--tiny", "--config", "/llm/vllm.yaml")
        ]
        assert section["config"]["path"] == "/opt/llm/scripts/vllm.yaml"
        given = section["config"]["content"]
        assert (given["nnodes"], given["node-rank"]) == (2, rank)
        assert (given["master-addr"], given["master-port"]) == ("10.0.0.1", 29600)
        assert given["served-model-name"] == "tiny"
        assert ("headless" in given) is (section is worker)
        assert section["container"]["pid_mode"] == ""
    # Only the head answers, so only it has the key.
    assert not [volume for volume in worker["container"]["volumes"] if "vllm_api_key" in volume]
    assert not idle["needed"]


def test_the_api_is_open_where_somebody_wants_that() -> None:
    vllm = member(vllm_api_key_enabled=False).sections()["vllm"]
    assert not [volume for volume in vllm["container"]["volumes"] if "vllm_api_key" in volume]
    assert "--key" not in vllm["probe"]["command"]


def test_who_answers_is_told_which_paths() -> None:
    made = deployment("mp", vllm_api_paths=["/tokenize", "/rerank"])
    head, worker = (made.of(name).sections()["vllm"]["container"] for name in made.hosts)
    assert head["environment"]["LLM_API_PATHS"] == "/tokenize /rerank"
    assert member().sections()["vllm"]["container"]["environment"]["LLM_API_PATHS"] == ""
    assert "LLM_API_PATHS" not in worker["environment"]
    assert "--middleware" not in worker["command"]


def test_a_head_of_ray_shows_metrics_where_it_is_told() -> None:
    moved = {"ray_monitor_metrics_port": 45000, "ray_dashboard_metrics_port": 45001}
    head, worker = (member(name, **moved).sections()["ray"]["container"]["environment"] for name in ("gpu1", "gpu2"))
    assert (head["AUTOSCALER_METRIC_PORT"], head["DASHBOARD_METRIC_PORT"]) == ("45000", "45001")
    assert "AUTOSCALER_METRIC_PORT" not in worker


def test_who_is_asked_for_a_token() -> None:
    vllm = member(vllm_port=8001, vllm_served_model_name="tiny").sections()["vllm"]
    assert vllm["url"] == "http://10.0.0.1:8001"
    assert vllm["ask"] == ["/usr/bin/env", "python3", "/opt/llm/scripts/ask.py", "http://10.0.0.1:8001", "tiny"]
    assert vllm["key_file"] == "/opt/llm/secrets/vllm_api_key"


@pytest.mark.parametrize(
    ("p2p", "disabled"),
    [
        ([None, None], False),
        # A host whose GPUs nobody asked counts as one that said nothing.
        ([None, {"GPU0": {"GPU1": True}}], False),
        ([None, {"GPU0": {"GPU1": False}}], True),
        ([{"GPU0": {"GPU1": False}}, None], True),
    ],
)
def test_gpus_that_cannot_read_each_other_go_without_vllms_own_all_reduce(p2p: list[Any], disabled: bool) -> None:
    made = deployment("ray", (2, 2))
    for name, found in zip(made.hosts, p2p, strict=True):
        made.variables[name]["ansible_facts"] = {} if found is None else {"llm_gpu_p2p": found}
    assert ("--disable-custom-all-reduce" in made.launch["gpu1"]["argv"]) is disabled
    # What somebody asked for stays.
    asked = {**made.plan, "settings": {"disable_custom_all_reduce": True}}
    again = Deployment("tiny", "gpu1", made.hosts, asked, "image:1", made.variables)
    assert "--disable-custom-all-reduce" in again.launch["gpu1"]["argv"]


# -- the probe --------------------------------------------------------------------------------------------------------
START = [
    *("/usr/bin/env", "python3", "/opt/llm/probe/llm-probe.py"),
    *("--weights", "/opt/llm/models/lab--tiny", "--measured", "/opt/llm/probe/measured.json"),
]
EACH = ["--failures", "3", "--interval", "10"]
ASKED = ["--url", "http://10.0.0.1:8000", "--model", "lab/tiny", "--key", "/opt/llm/secrets/vllm_api_key"]
RAY = ["--watch", "llm-ray:raylet,gcs_server"]
RANKS = ["--cluster", "10.0.0.1:6379", "--below", "llm-ray", "--above", "llm-vllm"]


@pytest.mark.parametrize(
    ("executor", "ranks", "watched", "more"),
    [
        ("uni", (1,), [], []),
        ("mp", (2,), [], []),
        ("mp", (1, 1, 1), [], ["--followers", "2", "--meeting-port", "29501"]),
        ("ray", (1, 1), RAY, RANKS),
    ],
)
def test_the_probe_of_the_head(executor: str, ranks: tuple[int, ...], watched: list[str], more: list[str]) -> None:
    probe = member(executor=executor, ranks=ranks).sections()["vllm"]["probe"]
    command = [*START, *EACH, *watched, *ASKED, *more]
    assert probe == {"needed": True, "folder": "/opt/llm/probe", "start": START, "command": command}
    limited = member(executor=executor, ranks=ranks, vllm_start_seconds=90).sections()["vllm"]["probe"]
    assert limited["command"] == [*command, "--start-seconds", "90"]


@pytest.mark.parametrize(("executor", "watched"), [("ray", RAY), ("mp", ["--watch", "llm-vllm"])])
def test_the_probe_of_another_host_asks_nobody(executor: str, watched: list[str]) -> None:
    """It only looks whether its own container is frozen, which nobody else could repair."""
    made = deployment(executor, (1, 1, 0), vllm_version="0.20.0", vllm_start_seconds=90)
    worker, idle = (made.of(name).sections()["vllm"]["probe"] for name in ("gpu2", "gpu3"))
    assert worker["needed"]
    assert worker["command"] == [*START, *EACH, *watched]
    assert not idle["needed"]


# -- the all-reduce ---------------------------------------------------------------------------------------------------
def test_the_all_reduce_has_no_secret_on_its_command_line() -> None:
    made = deployment("mp", (2, 1), vllm_environment={"HF_TOKEN": "hidden=1"})
    found = made.of("gpu2").sections()["vllm"]["collective"]
    assert found["possible"]
    assert found["hosts"] == ["gpu1", "gpu2"]
    assert found["environment"]["HF_TOKEN"] == "hidden=1"
    assert not [word for word in found["command"] if "HF_TOKEN" in word or "hidden" in word]
    assert found["program"] == "/opt/llm/collective.py"
    assert found["command"] == [
        *("docker", "run", "--rm", "--name=llm-collective", "--runtime=nvidia", "--network=host", "--ipc=host"),
        *("--user=0:0", "--env-file=/dev/stdin", "--volume=/opt/llm/collective.py:/llm-collective.py:ro"),
        *("--security-opt=no-new-privileges", "--cap-drop=ALL", "--cap-add=DAC_OVERRIDE"),
        *("--ulimit=nofile=1048576:1048576", "--ulimit=memlock=-1:-1"),
        *("--add-host=gpu1.rank:::ffff:10.0.0.1", "--add-host=gpu2.rank:::ffff:10.0.0.2"),
        *("--entrypoint=python3", "image:1", "/llm-collective.py", "10.0.0.1", "29502", "3", "2", "1"),
    ]


@pytest.mark.parametrize(
    ("name", "ranks", "more"),
    [("gpu1", (1,), {}), ("gpu3", (1, 1, 0), {}), ("gpu1", (1, 1), {"vllm_collective_enabled": "no"})],
    ids=["one rank", "a host without ranks", "not wanted"],
)
def test_where_no_all_reduce_is_possible(name: str, ranks: tuple[int, ...], more: dict[str, Any]) -> None:
    assert member(name, ranks=ranks, **more).sections()["vllm"]["collective"] == {"possible": False}


@pytest.mark.parametrize(
    ("ranks", "speeds", "fabric", "expected"),
    [
        ((1, 1), [10000, 1000], None, (1000, None)),
        ((1, 1), [0, None], {"mbps": 400000, "via": "NVLink"}, (None, None)),
        ((2,), [10000], {"mbps": 400000, "via": "NVLink"}, (400000, "NVLink")),
        ((2,), [10000], None, (None, None)),
    ],
)
def test_what_the_slowest_link_claims(ranks: tuple[int, ...], speeds: Any, fabric: Any, expected: Any) -> None:
    made = deployment("mp", ranks)
    for name, speed in zip(made.hosts, speeds, strict=True):
        made.variables[name]["llm_interface"]["speed_mbps"] = speed
        made.variables[name]["ansible_facts"]["llm_gpu_fabric"] = fabric
    found = made.of("gpu1").sections()["vllm"]["collective"]
    assert (found["link_mbps"], found["link"]) == expected


# -- the benchmark ----------------------------------------------------------------------------------------------------
def test_the_benchmark_finds_server_model_and_key() -> None:
    found = member(executor="mp", vllm_version="0.11.0").sections()["vllm"]["benchmark"]
    assert not found["problem"]
    assert found["command"] == [
        *("docker", "run", "--rm", "--interactive", "--name=llm-benchmark", "--network=host", "--user=0:0"),
        *("--runtime=nvidia", "--env=NVIDIA_VISIBLE_DEVICES=all", "--env=NVIDIA_DRIVER_CAPABILITIES=utility"),
        *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--env=HOME=/tmp", "--env=HF_HUB_OFFLINE=1"),
        *("--memory=8g", "--pids-limit=65536"),
        *("--volume=/opt/llm/secrets:/run/secrets:ro", "--volume=/opt/llm/models:/opt/llm/models:ro"),
        *("--entrypoint=/bin/bash", "image:1", "-s", "--", "1800"),
        *("--base-url=http://10.0.0.1:8000", "--model=lab/tiny", "--tokenizer=/opt/llm/models/lab--tiny"),
        *("--dataset-name=random", "--random-input-len=512", "--random-output-len=128", "--ignore-eos"),
        *("--num-prompts=64", "--max-concurrency=8", "--percentile-metrics=ttft,itl", "--metric-percentiles=99"),
        "--disable-tqdm",
    ]


def test_the_benchmark_has_no_key_where_there_is_none() -> None:
    command = member(vllm_api_key_enabled=False).sections()["vllm"]["benchmark"]["command"]
    assert not [word for word in command if "secrets" in word]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"vllm_version": "0.8.4"}, ["0.8.4", "0.8.5 or newer"]),
        ({"vllm_options": {"runner": "pooling"}}, ["generates no text", "pooling"]),
        ({"vllm_benchmark_output_tokens": 1537}, ["2048 tokens", "value:   2049", "at most 2048 together"]),
    ],
    ids=["an old release", "embeddings", "longer than the context"],
)
def test_the_benchmark_is_refused(more: dict[str, Any], said: list[str]) -> None:
    made = deployment("mp", **{"vllm_version": "0.11.0", **more})
    made = dataclasses.replace(made, plan={**made.plan, "settings": {"max_model_len": 2048}})
    problem = made.of("gpu1").sections()["vllm"]["benchmark"]["problem"]
    for part in [*said, "group_vars/tiny.yml"]:
        assert part in problem, problem


def test_sections_are_plain_data() -> None:
    made = deployment("mp", (1, 1, 0))
    for name in made.hosts:
        sections = made.of(name).sections()
        assert json.loads(json.dumps(sections)) == sections
        assert sections["is_head"] is (name == "gpu1")
        assert (sections["image"], sections["interface"]) == ("image:1", "eth1")
        assert sections["address"] == f"10.0.0.{name[-1]}"
