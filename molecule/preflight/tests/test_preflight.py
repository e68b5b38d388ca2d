"""Preflight on the lab's hosts: good ones pass and stay as they are, bad input is refused before any host is changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from lab.config import STATE, load
from tests.support.drills import users_environment
from tests.support.models import safetensors

CHECKOUT = Path(__file__).resolve().parents[3]
LAB = CHECKOUT / "inventories/lab"
CONFIG = load()
GPUS = {name: node.gpus for name, node in CONFIG.nodes.items()}
ADDRESSES = {name: node.data for name, node in CONFIG.nodes.items()}
# Where a role could leave something.
PLACES = "/etc /opt /usr /var/lib /root/.docker /srv"

# A bundle as far as preflight looks at it: a whole model, and an archive of images that nobody opens.
CONTENT = {
    "models/m/config.json": json.dumps({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}).encode(),
    "models/m/tokenizer.json": b'{"model": {}}',
    "models/m/w.safetensors": safetensors(5_000_000),
    "images/images.tar": bytes(1_000_000),
}
OF_MODEL = {"kind": "model", "model": "lab/tiny-qwen2"}
OF_IMAGE = {
    "kind": "image",
    "images": [{"reference": "llm-lab/vllm-openai:v0.32.0-cpu", "id": "sha256:0", "vllm_version": "0.32.0"}],
}
MANIFEST: dict[str, Any] = {
    "schema": 1,
    "files": [
        {
            "path": path,
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            **(OF_MODEL if path.startswith("models/") else OF_IMAGE),
        }
        for path, content in CONTENT.items()
    ],
}


@dataclass
class Run:
    """What ansible-playbook said and did."""

    status: int
    output: str

    @property
    def changed(self) -> dict[str, int]:
        return {host: int(count) for host, count in re.findall(r"^(\S+)\s+: ok=.* changed=(\d+) ", self.output, re.M)}

    def says(self, *texts: str) -> None:
        for text in texts:
            assert text in self.output, self.output


def preflight(*arguments: str, inventory: Path = LAB, playbook: Path = CHECKOUT / "playbooks/preflight.yml") -> Run:
    command = [sys.executable, "-m", "ansible", "playbook", str(playbook), "-i", str(inventory), *arguments]
    environment = users_environment()
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**environment, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return Run(done.returncode, done.stdout)


@pytest.fixture(scope="module")
def hosts() -> list[Any]:
    return list(testinfra.get_hosts([f"ssh://{name}" for name in GPUS], ssh_config=str(STATE / "ssh/config")))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    for name, content in CONTENT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "manifest.yml").write_text(json.dumps(MANIFEST))
    return folder


@pytest.fixture(scope="module", autouse=True)
def _untouched(hosts: list[Any]) -> Iterator[None]:
    """Fails when a file of a host changed during all this."""
    before = [host.check_output("date +%s.%N") for host in hosts]
    yield
    for host, when in zip(hosts, before, strict=True):
        # What a host and its containers write all the time does not count.
        found = host.run(
            f"find {PLACES} -xdev -newerct @{when} -type f -not -path '/var/lib/docker/*' -not -path '/var/lib/containerd/*' "
            "-not -path '/var/lib/systemd/*' -not -path '/var/lib/private/*' -not -path '/opt/llm/tmp*/*' 2>/dev/null"
        )
        assert found.stdout.split() == [], host


# The playbook, and a second play that writes down the facts which the playbook has set.
SHOW = """
- name: Look at the hosts
  ansible.builtin.import_playbook: {playbook}
- name: Show what was found
  hosts: llm_deployments
  gather_facts: false
  tasks:
    - name: Write
      ansible.builtin.copy:
        content: "{{{{ {{'d': llm_deployment, 'i': llm_interface, 'g': ansible_facts['llm_gpus_found']}} | to_json }}}}"
        dest: "{folder}/{{{{ inventory_hostname }}}}.json"
        mode: "0600"
      delegate_to: localhost
      changed_when: false
"""


@dataclass
class Good:
    """A run without any problem, and the facts of each host that the second play found."""

    run: Run
    facts: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def good(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Good:
    folder = tmp_path_factory.mktemp("show")
    play = folder / "show.yml"
    play.write_text(SHOW.format(playbook=CHECKOUT / "playbooks/preflight.yml", folder=folder))
    run = preflight("-e", f"llm_bundle_dir={bundle}", playbook=play)
    assert run.status == 0, run.output
    return Good(run, {name: json.loads((folder / f"{name}.json").read_text()) for name in GPUS})


def test_three_good_hosts_pass_and_stay_as_they_are(hosts: list[Any], good: Good) -> None:
    assert [host.check_output("hostname") for host in hosts] == list(GPUS)
    assert good.run.changed == {"localhost": 0, **dict.fromkeys(GPUS, 0)}


def test_later_plays_know_deployment_interface_and_gpus(good: Good) -> None:
    for name, gpus in GPUS.items():
        facts = good.facts[name]
        assert facts["d"] == ("tiny_single" if name == "node3" else "tiny_split")
        assert facts["i"]["address"] == ADDRESSES[name]
        assert facts["i"]["network"] == CONFIG.networks["data"]
        assert facts["i"]["interface"].startswith(CONFIG.nodes[name].data_interface or "eth")
        assert [gpu["name"] for gpu in facts["g"]] == ["Tesla V100-PCIE-16GB"] * gpus
        assert {gpu["compute_capability"] for gpu in facts["g"]} == {"7.0"}


@pytest.mark.usefixtures("good")  # which noted every file of the bundle as one that was right
def test_a_damaged_bundle_is_refused_by_name(bundle: Path) -> None:
    """With the size and the time of the file as they were: only its bytes tell."""
    weights = bundle / "models/m/w.safetensors"
    status = weights.stat()

    def write(byte: bytes) -> None:
        with weights.open("r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            stream.write(byte)
        os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))

    write(bytes([CONTENT["models/m/w.safetensors"][-1] ^ 1]))
    try:
        run = preflight("-e", f"llm_bundle_dir={bundle}", "--limit", "node3")
    finally:
        write(CONTENT["models/m/w.safetensors"][-1:])
    assert run.status != 0, run.output
    run.says("corrupt: its SHA-256 is not that of the manifest", "models/m/w.safetensors", "No host has been touched")
    assert "images/images.tar" not in run.output


# Each names as many faults as are reported together: those of an inventory before any host is asked, those of all hosts at once.
BAD: list[tuple[str, list[str], list[str]]] = [
    (
        "misspelled variable and missing bundle",
        ["-e", "vllm_max_modle_len=512", "-e", "llm_bundle_dir=/nowhere/bundle"],
        [
            "2 problems. No host has been changed.",
            *("Unknown variable vllm_max_modle_len", "Did you mean vllm_max_model_len?", "the command line (-e)"),
            *("there is no bundle: /nowhere/bundle/manifest.yml does not exist", "playbooks/bundle.yml"),
        ],
    ),
    (
        "missing model",
        ["-e", "vllm_model=lab/other"],
        ["The bundle does not hold the model of the deployment tiny_split", '"lab/other"', "lab/tiny-qwen2"],
    ),
    (
        "GPU count, interface, disk and system",
        [
            *(
                "-e",
                '{"llm_gpus": [{"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}]}',
            ),
            *("-e", "llm_cluster_interface=ib7"),
            *("-e", "preflight_disk_reserve_gib=1000000"),
            *("-e", '{"preflight_supported_systems": {"Plan9": ["4"]}}'),
        ],
        [
            *("The host node3 has 2 GPUs, but llm_gpus declares 1.", "host_vars/node3.yml", "2 x Tesla V100-PCIE-16GB"),
            *(f"The interface ib7 is not on the host {name}." for name in GPUS),
            "llm_cluster_interface: ib7",
            *("is too small for what shall go to", "preflight_disk_reserve_gib"),
            *("The system of node1, node2, node3 is not supported.", "Plan9 4"),
        ],
    ),
    (
        "too few GPUs and another network",
        [
            *("-e", "vllm_tensor_parallel_size=2", "-e", "vllm_pipeline_parallel_size=2"),
            *("-e", "llm_cluster_network=192.0.2.0/24"),
        ],
        [
            "The deployment tiny_split asks for 4 GPUs (tensor parallel 2 x pipeline parallel 2), but its hosts have 2.",
            *("The deployment tiny_single asks for 4 GPUs", "node1: 1, node2: 1"),
            *(f"The host {name} has no address in 192.0.2.0/24." for name in ("node1", "node2")),
        ],
    ),
    (
        "Chinese",
        ["-e", "llm_language=zh", "-e", "llm_cluster_interface=ib7", "--limit", "node3"],
        ["主机 node3 上没有网络接口 ib7。"],
    ),
]


@pytest.mark.parametrize(("arguments", "texts"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_settings_are_refused(bundle: Path, arguments: list[str], texts: list[str]) -> None:
    run = preflight("-e", f"llm_bundle_dir={bundle}", *arguments)
    assert run.status != 0, run.output
    assert set(run.changed.values()) == {0}, run.output
    run.says(*texts)


def test_a_bad_inventory_is_refused_before_a_host_is_looked_at(bundle: Path, tmp_path: Path) -> None:
    """With the lab's hosts and settings, but other groups. What else can be wrong with groups, the unit tests run."""
    own = yaml.safe_load((LAB / "hosts.yml").read_text())
    twice = {"hosts": {"node1": None}}
    own["all"]["children"] = {"llm_deployments": {"children": {"a": twice, "b": twice}}}
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "hosts.yml").write_text(yaml.safe_dump(own))
    (folder / "group_vars").symlink_to(LAB / "group_vars")
    run = preflight(
        "-e", f"llm_bundle_dir={bundle}", "-e", f"lab_dir={STATE}", "-e", "vllm_model=lab/tiny-qwen2",
        "-e", '{"vllm_version": "0.32.0"}', inventory=folder,
    )  # fmt: skip
    assert run.status != 0, run.output
    assert set(run.changed.values()) <= {0}, run.output
    run.says("The host node1 is in more than one deployment.", "a, b")
    assert "Host |" not in run.output, "no host was even looked at"


def test_part_of_a_deployment_agrees_with_the_rest(bundle: Path) -> None:
    """Without a network to go by, node2 alone must still choose what node1 and node2 share."""
    run = preflight("-e", f"llm_bundle_dir={bundle}", "--limit", "node2", "-v")
    assert run.status == 0, run.output
    run.says(*(f'"address": "{ADDRESSES[name]}"' for name in ("node1", "node2")))
    assert '"node3"' not in run.output.split("Compare the hosts")[1]


# What somebody else left on the hosts: a web server on vLLM's port, a Ray of their own, a network card that was never set up, Docker as a snap.
PLANT = {
    "node1": "systemd-run --quiet --unit=llm-test-web python3 -m http.server 8000 && "
    "systemd-run --quiet --unit=llm-test-ray /bin/bash -c 'exec -a /opt/ray/raylet sleep 1d'",
    "node2": "ip link set {interface} mtu 1400",
    "node3": "mkdir --parents /snap/docker/current",
}
REMOVE = {
    "node1": "systemctl stop llm-test-web llm-test-ray",
    "node2": "ip link set {interface} mtu 1500",
    "node3": "rm --recursive /snap",
}


@pytest.fixture(scope="module")
def planted(hosts: list[Any]) -> Iterator[dict[str, str]]:
    """Hosts with foreign things on them; per host the interface of the data network."""
    by_name = dict(zip(GPUS, hosts, strict=True))
    interfaces = {
        name: str(host.check_output(f"ip -oneline address show to {ADDRESSES[name]}").split()[1])
        for name, host in by_name.items()
    }
    for name, command in PLANT.items():
        by_name[name].check_output(command.format(interface=interfaces[name]))
    assert wait_for_port(by_name["node1"], 8000)
    yield interfaces
    for name, command in REMOVE.items():
        by_name[name].check_output(command.format(interface=interfaces[name]))


def wait_for_port(host: Any, port: int) -> bool:
    return any(host.run(f"sleep 0.2; bash -c ': < /dev/tcp/127.0.0.1/{port}'").rc == 0 for _attempt in range(50))


def test_what_others_left_is_reported_at_once_and_for_machines(
    planted: dict[str, str], bundle: Path, tmp_path: Path
) -> None:
    wish = '{"vllm_options": {"cpu_offload_gb": 100000}, "preflight_kernel_minimum": "99.1"}'
    arguments = ("-e", f"llm_bundle_dir={bundle}", "-e", wish, "-e", f"llm_report_dir={tmp_path}")
    run = preflight(*arguments)
    assert run.status == 2, run.output
    assert set(run.changed.values()) == {0}, run.output
    run.says(
        "6 problems with the hosts. Nothing has been changed.",
        "Docker is installed as a snap on the host node3.",
        "The port 8000 of the host node1 is taken.",
        "python3 (process ",
        "The host node1 runs a model server or Ray that is not this collection's.",
        "The host node3 has too little memory for what is asked of it",
        *("The kernel of the host node1 is older than 99.1.", "The same is true of node2, node3."),
        "One warning about the hosts.",
        "1400: node2; 1500: node1",
    )
    report = json.loads((tmp_path / "preflight.json").read_text())
    assert (report["ok"], report["errors"], report["warnings"]) == (False, 9, 1)
    found = {name: sorted(check["code"] for check in entry["checks"]) for name, entry in report["hosts"].items()}
    assert found == {
        "node1": ["kernel_too_old", "memory_too_small", "mtu_differs", "port_taken", "service_foreign"],
        "node2": ["kernel_too_old", "memory_too_small", "mtu_differs"],
        "node3": ["engine_by_snap", "kernel_too_old", "memory_too_small"],
    }
    for entry in report["hosts"].values():
        for check in entry["checks"]:
            assert set(check) == {"code", "severity", "what", "value", "limit", "where", "remedy"}


def test_warnings_alone_do_not_fail(planted: dict[str, str], bundle: Path, tmp_path: Path) -> None:
    meant = (
        '{"preflight_severities": {"port_taken": "warning", "service_foreign": "ignore", "engine_by_snap": "ignore"}}'
    )
    run = preflight("-e", f"llm_bundle_dir={bundle}", "-e", meant, "-e", f"llm_report_dir={tmp_path}")
    assert run.status == 0, run.output
    run.says("2 warnings about the hosts.", "warning: port_taken")
    report = json.loads((tmp_path / "preflight.json").read_text())
    assert (report["ok"], report["errors"], report["warnings"]) == (True, 0, 2)
