"""vLLM as a unit of systemd, from a Python environment of its host."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.modules import gather
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import changes
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.unit import quoted

from tests.support.deployments import INFINIBAND, deployment, member

ROOT = Path(__file__).parents[5]
VENV: dict[str, Any] = {
    "vllm_runtime": "venv",
    "vllm_python": "/opt/env/bin/python3",
    "vllm_version": "0.20.0",
    "vllm_environment": {"HF_TOKEN": "secret-token"},
}


def sections(**more: Any) -> dict[str, Any]:
    return host_sections(member(executor="uni", ranks=(1,), **{**VENV, **more}))


def lines(**more: Any) -> list[str]:
    text: str = sections(**more)["vllm"]["unit"]["text"]
    return text.splitlines()


def test_it_runs_the_command_of_a_container_where_its_files_lie() -> None:
    vllm = sections()["vllm"]
    assert vllm["container"] == {}
    assert (
        'ExecStart="/bin/bash" "/opt/llm/scripts/start-vllm.sh" "0" "vllm" "serve" "/opt/llm/models/lab--tiny" "--config" "/opt/llm/scripts/vllm.yaml"'
        in vllm["unit"]["text"].splitlines()
    )
    in_container = host_sections(member(executor="uni", ranks=(1,), vllm_version="0.20.0"))["vllm"]
    assert vllm["config"] == in_container["config"]


def test_its_environment_is_in_a_file_and_names_no_place_of_a_container() -> None:
    unit = sections()["vllm"]["unit"]
    environment = unit["environment"]
    assert environment["PATH"].startswith("/opt/env/bin:")
    assert "HF_TOKEN" not in environment
    assert unit["closed"] == ["HF_TOKEN"]
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["LLM_API_KEY_FILE"] == "/opt/llm/secrets/vllm_api_key"
    assert environment["LLM_SECRETS_DIR"] == "/opt/llm/secrets"
    assert environment["VLLM_CACHE_ROOT"] == "/opt/llm/cache/venv-0.20.0-7.0/vllm"
    assert not [name for name in environment if name.startswith(("NVIDIA_", "RAY_"))]
    assert not [value for value in environment.values() if "/var/cache/llm" in value or "/run/secrets" in value]
    assert "secret-token" not in unit["text"]
    assert "EnvironmentFile=/opt/llm/secrets/llm-vllm.env" in unit["text"].splitlines()
    assert unit["text"].splitlines()[0] == gather.MADE, "by this gather knows that a unit is the collection's"


def test_it_may_write_to_its_caches_only() -> None:
    found = sections()
    assert found["cache"] == found["tmp"]["path"] == "/opt/llm/cache/venv-0.20.0-7.0"
    assert found["tmp"]["uid"] == "llm-vllm"
    said = lines()
    assert [line for line in said if line.startswith("ReadWritePaths=")] == [f"ReadWritePaths={found['cache']}"]
    for line in ("ProtectSystem=strict", "NoNewPrivileges=yes", "DevicePolicy=closed", "CapabilityBoundingSet="):
        assert line in said
    assert "DeviceAllow=/dev/nvidia0 rw" in said
    assert "DeviceAllow=/dev/nvidia1 rw" not in said


def test_no_limit_of_processes_is_a_word_for_systemd() -> None:
    for limit, said in ((-1, "infinity"), (0, "infinity"), (512, "512")):
        assert f"TasksMax={said}" in lines(ray_pids_limit=limit)


def test_a_low_port_needs_one_capability() -> None:
    low = lines(vllm_port=443)
    assert "CapabilityBoundingSet=CAP_NET_BIND_SERVICE" in low
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in low
    assert not [line for line in lines() if line.startswith("AmbientCapabilities=")]


def test_limits_are_those_of_containers() -> None:
    said = lines(ray_ulimits=["nofile:1024:2048", "core:0"], ray_memory_lock_enabled=True, ray_pids_limit=99)
    for line in ("LimitNOFILE=1024:2048", "LimitCORE=0:0", "LimitMEMLOCK=infinity:infinity", "TasksMax=99"):
        assert line in said


def test_another_option_is_another_unit() -> None:
    assert lines() == lines()
    assert lines() != lines(vllm_port=8001)


def test_chosen_gpus_are_named() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in sections()["vllm"]["unit"]["environment"]
    for version, by_index in (("0.5.1", False), ("0.5.2", True), ("0.23.0", True), ("0.24.0", False)):
        environment = sections(_llm_devices="GPU-1,GPU-3", _llm_device_indices="1,3", vllm_version=version)["vllm"][
            "unit"
        ]["environment"]
        assert environment["CUDA_VISIBLE_DEVICES"] == ("1,3" if by_index else "GPU-1,GPU-3"), version
        # The order in which nvidia-smi counts; CUDA's own begins with the fastest card.
        assert environment.get("CUDA_DEVICE_ORDER") == ("PCI_BUS_ID" if by_index else None), version


def test_the_probe_asks_systemd() -> None:
    vllm = sections()["vllm"]
    assert "--units" in vllm["probe"]["command"]
    assert vllm["runtime"]["log"][0] == "journalctl"


def test_its_user_is_tried_as_systemd_will_run_it() -> None:
    user = sections()["user"]
    command = user["check"]
    assert {"--property=User=llm-vllm", "--property=ProtectHome=yes"} <= set(command)
    program = command[command.index("--") + 1 :]
    assert program[:3] == ["/opt/env/bin/python3", "-I", "-c"]
    assert program[-1] == "/opt/llm/models/lab--tiny"
    assert "/dev" in program[3]
    assert "DEVICES" not in program[3]
    assert (user["refusal"], user["program"]) == ("venv_user_refused", "/opt/env/bin/python3")


# -- several hosts ----------------------------------------------------------------------------------------------------
def cluster(name: str, executor: str = "ray", **more: Any) -> dict[str, Any]:
    return host_sections(deployment(executor, (1, 1), **{**VENV, **more}).of(name))


def test_ray_is_a_unit_on_each_host_and_vllm_one_on_the_head() -> None:
    head, worker = cluster("gpu1"), cluster("gpu2")
    assert head["units"] == ["llm-ray", "llm-vllm"]
    assert worker["units"] == ["llm-ray"]
    assert head["ray"]["container"] == head["vllm"]["container"] == {}
    assert ' "/opt/llm/scripts/start-ray.sh" "--head" "--port=6379" ' in head["ray"]["unit"]["text"]
    assert ' "/opt/llm/scripts/start-ray.sh" "--address=10.0.0.1:6379" "--block" ' in worker["ray"]["unit"]["text"]
    assert '"--resources={\\"host:gpu2\\": 1}"' in worker["ray"]["unit"]["text"]
    assert '"/opt/llm/scripts/start-vllm.sh" "2" "vllm" "serve"' in head["vllm"]["unit"]["text"]


def test_vllm_ends_with_the_ray_of_its_host() -> None:
    text = cluster("gpu1")["vllm"]["unit"]["text"].splitlines()
    assert {"Wants=llm-ray.service", "After=llm-ray.service", "PartOf=llm-ray.service"} <= set(text)
    assert not [line for line in lines() if "llm-ray" in line]


def test_both_units_find_the_sockets_of_the_session() -> None:
    head = cluster("gpu1")
    for unit in (head["ray"]["unit"], head["vllm"]["unit"]):
        assert unit["environment"]["TMPDIR"] == "/var/lib/llm-vllm"
        assert {"StateDirectory=llm-vllm", "StateDirectoryMode=0700", "PrivateTmp=yes"} <= set(
            unit["text"].splitlines()
        )
        assert (unit["environment"]["RAY_AUTH_MODE"], unit["environment"]["RAY_AUTH_TOKEN_PATH"]) == (
            "token",
            "/opt/llm/secrets/ray_token",
        )
    # ray/_private/utils.py, validate_socket_filename; the session has its time and a number of seven digits in its name.
    session = "session_2026-01-01_01-01-01_123456_1234567"
    assert len(f"/var/lib/llm-vllm/ray/{session}/sockets/plasma_store") <= 107
    assert "TMPDIR" not in sections()["vllm"]["unit"]["environment"]


def test_the_sandbox_is_the_same_for_both() -> None:
    head = cluster("gpu1", ray_memory_limit_gib=8)
    ray, vllm = (head[kind]["unit"]["text"].splitlines() for kind in ("ray", "vllm"))
    same = [
        line
        for line in ray
        if line.partition("=")[0] not in ("Description", "EnvironmentFile", "ExecStart", "RuntimeDirectory")
    ]
    assert set(same) - set(vllm) <= {line for line in ray if line.startswith("# ")}
    assert "MemoryMax=8589934592" in same
    assert not [line for line in cluster("gpu1")["ray"]["unit"]["text"].splitlines() if line.startswith("MemoryMax=")]


def test_rdma_needs_its_devices() -> None:
    ports = {"llm_rdma_found": [{**INFINIBAND, "interface": "eth1"}]}
    with_rdma = cluster("gpu1", found=ports)["ray"]["unit"]
    assert with_rdma["environment"]["NCCL_IB_DISABLE"] == "0"
    assert "DeviceAllow=char-infiniband_verbs rw" in with_rdma["text"].splitlines()
    assert "infiniband" not in cluster("gpu1")["ray"]["unit"]["text"]


def test_names_of_the_ranks_are_in_a_file_of_the_units() -> None:
    head = cluster("gpu1")
    assert head["hosts_file"] == {
        "path": "/opt/llm/scripts/hosts",
        "text": "::ffff:10.0.0.1 gpu1.rank\n::ffff:10.0.0.2 gpu2.rank\n",
    }
    line = "BindReadOnlyPaths=/opt/llm/scripts/hosts:/etc/hosts"
    assert all(line in head[kind]["unit"]["text"].splitlines() for kind in ("ray", "vllm"))
    assert sections()["hosts_file"] == {}
    assert host_sections(deployment().of("gpu1"))["hosts_file"] == {}


def test_ray_is_asked_as_the_user_of_its_unit_with_its_variables() -> None:
    command = cluster("gpu1")["ray"]["cluster"]
    assert command[:3] == ["timeout", "60", "systemd-run"]
    assert {"--property=User=llm-vllm", "--property=EnvironmentFile=/opt/llm/secrets/llm-ray.env"} <= set(command)
    assert command[-3:] == ["/opt/env/bin/python3", "/opt/llm/scripts/cluster.py", "10.0.0.1:6379"]
    probe = cluster("gpu1")["vllm"]["probe"]["command"]
    assert shlex.split(probe[probe.index("--cluster") + 1]) == command
    assert "--units" in cluster("gpu2")["vllm"]["probe"]["command"]


def test_without_ray_each_host_runs_vllm_and_workers_follow_the_head() -> None:
    head, worker = cluster("gpu1", "mp"), cluster("gpu2", "mp")
    assert head["units"] == worker["units"] == ["llm-vllm"]
    assert '"/opt/llm/scripts/start-vllm.sh" "0" "vllm"' in head["vllm"]["unit"]["text"]
    follows = '"/opt/env/bin/python3" "/opt/llm/scripts/follow_head.py" "10.0.0.1" "29501" "vllm" "serve"'
    assert f"ExecStart={follows} " in worker["vllm"]["unit"]["text"]
    assert "TMPDIR" not in worker["vllm"]["unit"]["environment"]
    assert "LLM_API_KEY_FILE" not in worker["vllm"]["unit"]["environment"]
    assert not worker["ray"]["needed"]


def test_the_all_reduce_runs_from_the_environment_without_its_secrets() -> None:
    found = cluster("gpu2")["vllm"]["collective"]
    assert found["possible"]
    assert "HF_TOKEN" not in found["environment"]
    command = found["command"]
    assert command[0] == "systemd-run"
    assert {"--unit=llm-collective", "--property=User=llm-vllm", "--property=LimitMEMLOCK=infinity:infinity"} <= set(
        command
    )
    assert "--property=BindReadOnlyPaths=/opt/llm/scripts/hosts:/etc/hosts" in command
    assert not [word for word in command if "secret-token" in word or "HF_TOKEN" in word]
    assert command[-7:] == ["/opt/env/bin/python3", "/opt/llm/collective.py", "10.0.0.1", "29502", "2", "1", "1"]


def test_variables_from_standard_input_reach_the_program() -> None:
    command = cluster("gpu2")["vllm"]["collective"]["command"]
    begin = [*command[command.index("--") + 1 : command.index("/opt/env/bin/python3")], "sh", "-c", 'echo "$ONE|$TWO"']
    done = subprocess.run(begin, input="ONE=a b=$c\nTWO=\\d", capture_output=True, text=True, check=True)
    assert done.stdout == "a b=$c|\\d\n"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("plain", '"plain"'),
        ("a b", '"a b"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ("$HOME 100%", '"$$HOME 100%%"'),
        ("a\\b\nc", '"a\\\\b\\nc"'),
    ],
)
def test_words_are_quoted_for_systemd(word: str, expected: str) -> None:
    assert quoted(word) == expected


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="this machine has no systemd")
@pytest.mark.parametrize("kind", ["ray", "vllm"])
def test_systemd_reads_it(tmp_path: Path, kind: str) -> None:
    made = cluster("gpu1")[kind]["unit"]
    unit = tmp_path / made["name"]
    unit.write_text(made["text"].replace("User=llm-vllm", "User=root").replace("Group=llm-vllm", ""))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if made["name"] in line and "Unknown" in line]


def of_systemd() -> int:
    """The release of systemd here; 0 without one. Since 250 it looks at units that nobody has installed."""
    if not shutil.which("systemd-analyze"):
        return 0
    said = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split()[1])


@pytest.mark.skipif(of_systemd() < 250, reason="this machine has no systemd that looks at a unit without running it")
@pytest.mark.parametrize("kind", ["ray", "vllm"])
def test_the_documented_exposure_is_what_systemd_computes(tmp_path: Path, kind: str) -> None:
    made = cluster("gpu1")[kind]["unit"]
    (tmp_path / made["name"]).write_text(made["text"])
    asks = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(tmp_path / made["name"])]
    said = subprocess.run(asks, capture_output=True, text=True, check=True).stdout
    computed = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    stated = re.search(r"of systemd (\d+) says ([\d.]+) for Ray and for vLLM", (ROOT / "docs/security.md").read_text())
    assert computed
    assert stated
    if of_systemd() == int(stated[1]):
        assert computed[1] == stated[2]
    # Another release counts other things.
    assert abs(float(computed[1]) - float(stated[2])) < 0.5


def test_a_host_without_containers_has_nothing_to_do_for_them() -> None:
    variables = {"llm_host_dir": "/opt/llm", "vllm_model": "lab/tiny", **VENV, "ansible_facts": {}}
    options: dict[str, list[str]] = {role: [] for role in changes.BY_VARIABLES}
    asked = changes.asked_by_variables(variables, options, (), "", {"engine": False})
    unused = {role for role, found in asked.items() if found == changes.UNUSED}
    assert unused == {"docker", "nvidia_container_toolkit", "images"}
    found = changes.to_do({"": ["gpu1"]}, {"gpu1": asked}, {"gpu1": {}})
    assert {reason["role"] for reason in found["prepare"]["gpu1"]} == {"nvidia_driver"}
    assert found["images"] == {}
    # Also where every role is run, and where tags choose.
    left = changes.left_out(["gpu1"], found, {"llm_full_check": True}, asked={"gpu1": asked})
    assert (left["images"], left["prepare"]) == (":!gpu1", "")


def test_an_engine_that_something_else_needs_is_brought() -> None:
    variables = {"llm_host_dir": "/opt/llm", "vllm_model": "lab/tiny", **VENV, "ansible_facts": {}}
    options: dict[str, list[str]] = {role: [] for role in changes.BY_VARIABLES}
    asked = changes.asked_by_variables(variables, options, (), "", {"engine": True})
    assert {role for role, found in asked.items() if found == changes.UNUSED} == {"images"}
