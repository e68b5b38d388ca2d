"""A run costs what changed: whatever is altered by hand is noticed and mended, and with records that hold nothing is done."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import testinfra

from lab.config import CHECKOUT, STATE
from tests.support.drills import play

NAMES = ["node1", "node2", "node3"]
SSH_CONFIG = STATE / "ssh/config"
HERE = Path(__file__).parent
UTILS = "/root/records/ansible_collections/baremetal/llm/plugins/module_utils"
RECORDS = "/opt/llm/records"
ROLES = ["docker", "images", "models", "network", "nvidia_container_toolkit", "nvidia_driver", "ray", "vllm"]
STAGES = ["prepare", "images", "models", "network", "serve"]
# What tasks write on hosts and leave to nobody: each with the reason.
NOT_KEPT = {
    "/opt/llm": "holds what has evidence of its own",
    "/opt/llm/collective.py": "is written anew before each measurement",
    "/": "the archive of the container toolkit, each of whose files has evidence",
    "/opt/llm/bundle": "holds what has evidence of its own",
}


@cache
def connect(name: str) -> Any:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(SSH_CONFIG))


def report() -> str:
    return (STATE / "reports/report.txt").read_text()


def decision() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STATE / "reports/decision.json").read_text())
    return found


def work() -> dict[str, Any]:
    """What the last decision found to do, by stage and host."""
    found: dict[str, Any] = decision()["work"]
    return found


def altering(host: Any, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        host.check_output(f"python3 /root/records/alter.py /root/records {RECORDS} {' '.join(arguments)}")
    )
    return answer


@pytest.fixture(scope="module", autouse=True)
def tools() -> Iterator[None]:
    """What looks at records, on each host."""
    for name in NAMES:
        copy = (
            f"tar --create --directory {CHECKOUT}/plugins module_utils | "
            f"ssh -F {SSH_CONFIG} {name} 'mkdir -p {UTILS} && tar --extract --directory {UTILS}/..'"
        )
        subprocess.run(copy, shell=True, check=True)
        program = (HERE / "files/alter.py").read_bytes()
        subprocess.run(["ssh", "-F", SSH_CONFIG, name, "cat > /root/records/alter.py"], input=program, check=True)
    yield
    for name in NAMES:
        connect(name).check_output("rm -r /root/records")


def alter_for_good(host: Any, is_head: bool) -> list[str]:
    """One of each kind, so that a run has to mend it. Returns what the records show of it."""
    host.check_output("echo '# altered' >> /etc/systemd/system/docker.service")
    host.check_output("rm /etc/modprobe.d/baremetal-llm-nouveau.conf /usr/bin/nvidia-ctk /usr/local/bin/ctr")
    host.check_output("chmod 0666 /opt/llm/scripts/start-*.sh")
    host.check_output(
        "python3 -c \"f = open('/usr/local/lib/docker-engine/current/docker', 'r+b'); f.seek(4096); f.write(b'altered')\""
    )
    host.check_output("systemctl disable --now nvidia-persistenced.service llm-firewall.service")
    host.check_output("nft delete table inet baremetal_llm || true")
    host.check_output("rm /opt/llm/models/*/config.json /opt/llm/secrets/*")
    host.check_output("systemctl disable --now llm-probe.timer")
    if is_head:
        host.check_output("docker rm --force llm-vllm")
    found: list[str] = altering(host, "look")["differs"]
    return found


def test_one_run_mends_it_all() -> None:
    for name in NAMES:
        found = alter_for_good(connect(name), name != "node2")
        assert len({line.partition(":")[0] for line in found}) >= 5, found
    # Another machine changes one of them at the moment, or so it says: none is touched.
    holder = {"run": {"machine": "another", "pid": 1, "started": "1"}, "who": "ops@laptop", "since": 0}
    other = json.dumps({"format": 1, "given_back": 0, "holder": holder})
    connect("node2").check_output(f"echo '{other}' > /opt/llm/lock.json")
    before = {name: altering(connect(name), "look") for name in NAMES}
    said = play("playbooks/site.yml", status=2)
    assert "node2 is being changed by another run, of ops@laptop" in said
    assert {name: altering(connect(name), "look") for name in NAMES} == before
    play("playbooks/site.yml", "--extra-vars=llm_take_over=true")
    for name in NAMES:
        assert json.loads(connect(name).file("/opt/llm/lock.json").content_string)["holder"] is None
    for name in NAMES:
        assert altering(connect(name), "look") == {"roles": ROLES, "differs": []}
        host = connect(name)
        assert "altered" not in host.file("/etc/systemd/system/docker.service").content_string
        assert host.check_output("docker --version && nvidia-ctk --version")
        assert "666" not in host.check_output("stat --format %a /opt/llm/scripts/start-*.sh")
        assert "baremetal_llm" in host.check_output("nft list tables")
        assert host.service("nvidia-persistenced.service").is_enabled
        if name == "node3":  # what the drill before this one has set
            assert "max-num-seqs: 16" not in host.check_output("docker exec llm-vllm cat /llm/vllm.yaml")
    shown = work()
    assert set(shown["prepare"]) == set(shown["serve"]) == set(NAMES)


def test_then_another_controller_has_nothing_to_do(tmp_path: Path) -> None:
    """One without secrets, such as a fresh checkout: it takes over those of the hosts, and leaves out every stage."""
    mine, first = STATE / "secrets", tmp_path / "secrets"
    shutil.move(mine, first)
    said = play("playbooks/site.yml")
    assert said.count("changed=0") == 4
    assert said.count("skipping: no hosts matched") >= 6, said
    assert work() == {stage: {} for stage in STAGES}
    assert f"nothing to do, as the records on the hosts show: {', '.join(STAGES)}" in report()
    adopted = decision()["secrets"]
    assert len(adopted) >= 3
    assert {secret["how"] for secret in adopted} == {"adopted"}
    contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (mine, first)]
    assert contents[0] == contents[1]


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the tasks of a whole run manage: every role is walked, and nothing changes."""
    file = tmp_path_factory.mktemp("managed") / "managed"
    said = play(
        "playbooks/site.yml",
        "--extra-vars=llm_full_check=true",
        ANSIBLE_CALLBACK_PLUGINS=str(CHECKOUT / "tests/support/callbacks"),
        LLM_MANAGED_FILE=str(file),
    )
    assert said.count("changed=0") == 4
    return [json.loads(line) for line in file.read_text().splitlines()]


def evidence_of(host: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for role in ROLES:
        record = json.loads(host.file(f"{RECORDS}/{role}.json").content_string)
        for kind, subjects in record["evidence"].items():
            found.setdefault(kind, {}).update(subjects)
    return found


def without_evidence(entry: dict[str, Any], evidence: dict[str, dict[str, Any]]) -> list[str]:
    """What of a task's result no record names."""
    arguments, module = entry["arguments"], entry["module"].rpartition(".")[2]
    on_disk = {path for kind in ("paths", "trees", "links", "settings") for path in evidence.get(kind, {})}
    units, names = evidence["units"], arguments.get("name")
    if module == "systemd_service":
        return [] if names is None or names in units else [f"units {names}"]
    if module == "docker_container":
        return [] if names in evidence["containers"] else [f"containers {names}"]
    if module == "docker_image_info":
        return [f"images {name}" for name in names if name not in evidence["images"]]
    if module == "group":
        return [] if names in evidence["groups"] else [f"groups {names}"]
    if module in ("apt", "package", "dnf"):
        wanted = names if arguments.get("state") != "absent" else []
        return [f"packages {name}" for name in wanted if name not in evidence["packages"]]
    if module == "bundle_copy":
        return [f"paths {path}" for path in entry["files"] if path not in on_disk]
    if module == "files":
        subjects = arguments["absent"] + [kept["path"] for kept in arguments["folders"] + arguments["files"]]
        subjects += arguments["links"]
        return [f"paths {path}" for path in subjects if path not in on_disk and path not in NOT_KEPT]
    if module in ("copy", "template", "file", "unarchive", "docker_daemon_config"):
        path = str(entry["path"] or arguments.get("dest") or arguments.get("path")).rstrip("/") or "/"
        return [] if path in on_disk or path in NOT_KEPT else [f"paths {path}"]
    return []


@pytest.mark.parametrize("name", NAMES)
def test_everything_that_tasks_manage_has_evidence(name: str, managed: list[dict[str, Any]]) -> None:
    mine = [entry for entry in managed if entry["host"] == name]
    kinds = {entry["module"].rpartition(".")[2] for entry in mine}
    assert {"files", "file", "systemd_service", "docker_container", "bundle_copy", "group"} <= kinds
    evidence = evidence_of(connect(name))
    missing = {f"{entry['task']}: {what}" for entry in mine for what in without_evidence(entry, evidence)}
    assert missing == set()


@pytest.mark.parametrize("name", NAMES)
def test_records_are_for_root_only(name: str) -> None:
    folder = connect(name).file(RECORDS)
    assert (folder.user, folder.mode, sorted(folder.listdir())) == ("root", 0o700, [f"{role}.json" for role in ROLES])
    assert {connect(name).file(f"{RECORDS}/{role}.json").mode for role in ROLES} == {0o600}


def test_whatever_is_altered_is_noticed() -> None:
    with ThreadPoolExecutor() as pool:
        altered = dict(zip(NAMES, pool.map(lambda name: altering(connect(name), "alter"), NAMES), strict=True))
    for name, found in altered.items():
        assert found["before"] == [], name
        assert len(found["altered"]) > 40, name
        assert found["unseen"] == [], name
        assert found["left"] == [], name


def test_a_record_that_somebody_else_can_write_counts_as_none() -> None:
    connect("node2").check_output(f"chmod 0666 {RECORDS}/models.json")
    assert "models" not in altering(connect("node2"), "look")["roles"]
    connect("node2").check_output(f"chmod 0600 {RECORDS}/models.json")
    assert "models" in altering(connect("node2"), "look")["roles"]
