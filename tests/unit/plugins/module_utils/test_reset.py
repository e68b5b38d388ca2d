"""What a reset removes from a host, and what it never touches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils import _evidence as evidence
from ansible_collections.baremetal.llm.plugins.module_utils import _reset as reset

LABELS = {"baremetal.llm.deployment": "chat"}


class Machine:
    """Programs and the engine of a host; commands that change something are noted."""

    def __init__(self, failing: tuple[str, ...] = ()) -> None:
        self.failing = failing
        self.done: list[str] = []
        self.units = {
            "llm-probe.timer",
            "haproxy.service",
            "prometheus.service",
            "llm-vllm.service",
            "llm-firewall.service",
        }

    def path(self, name: str) -> str:
        return name if name in ("dpkg", "systemctl") else ""

    def answer(self, name: str, *arguments: str) -> str:
        if name == "nft":
            return "there" if not any(step.endswith("llm-firewall.service") for step in self.done) else ""
        return "there" if arguments[-1] in self.units else ""

    def run(self, command: list[str], must_succeed: bool = False) -> tuple[int, str, str]:
        self.done.append(" ".join(command))
        return (1, "", "in use") if command[-1] in self.failing else (0, "", "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    containers = {"llm-vllm": LABELS, "llm-grafana": {}}

    def ask_list(question: str) -> list[dict[str, Any]]:
        assert question == "/images/json"
        kept = ["llm-kept:0123456789ab"] if (tmp_path / "served.json").exists() else []
        return [{"RepoTags": ["vllm:1", *kept]}, {"RepoTags": None}]

    def ask(question: str) -> dict[str, Any] | None:
        name = question.split("/")[2]
        if question.startswith("/images"):
            return {"Id": "x", "RepoTags": ["vllm:1", "site/vllm:1"]}
        return {"Config": {"Labels": containers[name]}} if name in containers else None

    monkeypatch.setattr(reset, "ask_engine", ask)
    monkeypatch.setattr(reset, "ask_engine_list", ask_list)
    for path in ("scripts/start.sh", "secrets/key", "cache/kernel"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


def record(host: Path, role: str, **subjects: Any) -> str:
    content = {"digest": "d", "collection": "c", "subjects": subjects, "evidence": {}}
    evidence.write_record(str(host / "records"), role, content)
    return str(host / "records" / f"{role}.json")


def names(found: Any) -> list[tuple[str, ...]]:
    return [tuple(each)[1:] for each in found]


def test_only_what_a_record_names_and_is_ours_goes_and_the_record_last(host: Path) -> None:
    files = [str(host / name) for name in ("scripts", "scripts/start.sh", "secrets", "secrets/key", "cache", "gone")]
    path = record(host, "vllm", containers=["llm-vllm"], units=["llm-probe.timer"], paths=[*files, "/usr/bin/env"])
    steps, stays = reset.planned(str(host), None, Machine(), {})  # type: ignore[arg-type]
    assert names(steps) == [
        ("unit", "llm-probe.timer"),
        ("container", "llm-vllm"),
        ("file", files[1]),
        ("folder", files[2]),
        ("folder", files[0]),
        ("folder", files[4]),
        ("record", path),
    ]
    assert names(stays) == [("file", files[3], reset.SECRET), ("file", "/usr/bin/env", reset.UNKNOWN)]


def test_a_container_and_a_running_unit_of_a_deployment_serve_and_nothing_else() -> None:
    there = ("llm-vllm.service", "llm-probe.timer", "llm-ray.service")
    steps = [reset.Step("vllm", "unit", name) for name in there] + [reset.Step("gateway", "unit", "haproxy.service")]
    # The unit llm-ray.service is stopped.
    assert reset.serving(steps, Machine()) == ["llm-vllm.service"]  # type: ignore[arg-type]
    containers = [reset.Step("ray", "container", "llm-ray"), reset.Step("web_ui", "container", "llm-web-ui")]
    assert reset.serving(containers, Machine()) == ["llm-ray"]  # type: ignore[arg-type]


def test_what_was_there_before_stays_and_without_a_picture_nothing_that_others_may_have_made_goes(host: Path) -> None:
    record(host, "monitoring", units=["prometheus"], packages=["prometheus", "haproxy"], containers=["llm-grafana"])
    now = {"prometheus": "2", "haproxy": "2"}
    before = {"units": {}, "packages": {"haproxy": "1"}, "files": []}
    steps, stays = reset.planned(str(host), before, Machine(), now)  # type: ignore[arg-type]
    assert names(steps)[:-1] == [("unit", "prometheus.service"), ("package", "prometheus")]
    assert names(stays) == [("container", "llm-grafana", reset.FOREIGN), ("package", "haproxy", reset.BEFORE)]
    steps, stays = reset.planned(str(host), None, Machine(), now)  # type: ignore[arg-type]
    assert [each.kind for each in steps] == ["record"]
    assert len(stays) == 4


def test_weights_archives_driver_and_engine_are_left_alone(host: Path) -> None:
    kernel = str(host / "cache/kernel")
    record(host, "models", trees=[kernel])
    record(host, "images", images=["vllm:1"], paths=[kernel])
    record(host, "docker", units=["llm-vllm.service"], paths=[kernel])
    record(host, "network", tables=["baremetal_llm"], firewalls=["ufw"])
    before: dict[str, Any] = {"units": {}, "packages": {}, "files": [], "images": []}
    steps, stays = reset.planned(str(host), before, Machine(), {})  # type: ignore[arg-type]
    assert [each for each in names(steps) if each[0] != "record"] == [("table", "baremetal_llm"), ("image", "vllm:1")]
    assert names(stays) == [("firewall", "ufw", reset.RULES)]
    # An image that was there before is left alone.
    before["images"] = ["site/vllm:1"]
    _steps, stays = reset.planned(str(host), before, Machine(), {})  # type: ignore[arg-type]
    assert ("image", "vllm:1", reset.BEFORE) in names(stays)
    assert [each.role for each in steps if each.kind == "record"] == ["models", "network", "images"]


def test_a_step_that_fails_keeps_the_record_and_the_next_run_ends_the_work(host: Path) -> None:
    path = record(host, "vllm", containers=["llm-vllm"], paths=[str(host / "scripts/start.sh"), str(host / "cache")])
    images = record(host, "images", images=["vllm:1"])
    machine = Machine(failing=("llm-vllm",))
    steps, _stays = reset.planned(str(host), None, machine, {})  # type: ignore[arg-type]
    _gone, failed = reset.undone(steps, machine)  # type: ignore[arg-type]
    assert names(failed) == [("container", "llm-vllm", "in use")]
    assert Path(path).exists()
    assert not Path(images).exists()
    assert not (host / "scripts/start.sh").exists()
    again = Machine()
    steps, _stays = reset.planned(str(host), None, again, {})  # type: ignore[arg-type]
    assert reset.undone(steps, again)[1] == []  # type: ignore[arg-type]
    assert again.done == ["docker rm --force llm-vllm"]
    assert not Path(path).exists()
    # Somebody's file is in there.
    assert (host / "cache/kernel").exists()
    assert reset.planned(str(host), None, again, {}) == ([], [])  # type: ignore[arg-type]


def test_a_table_that_goes_with_its_unit_is_no_failure_and_neither_is_a_file_that_is_gone(host: Path) -> None:
    record(host, "network", tables=["baremetal_llm"], units=["llm-firewall"], paths=[str(host / "scripts/start.sh")])
    machine = Machine()
    steps, _stays = reset.planned(str(host), None, machine, {})  # type: ignore[arg-type]
    assert [each.kind for each in steps] == ["unit", "table", "file", "record"]
    (host / "scripts/start.sh").unlink()
    assert reset.undone(steps, machine)[1] == []  # type: ignore[arg-type]
    assert machine.done == ["systemctl disable --now llm-firewall.service"]
    blocked = reset.Step("network", "file", str(host / "cache/kernel/below"))
    assert reset.remove(blocked, machine) != ""  # type: ignore[arg-type]


def test_a_package_is_removed_by_the_program_that_refuses_to_take_others_along() -> None:
    machine = Machine()
    assert reset.remove(reset.Step("gateway", "package", "haproxy"), machine) == ""  # type: ignore[arg-type]
    assert machine.done == ["dpkg --remove haproxy"]


@pytest.mark.parametrize(
    ("kind", "name", "stays"),
    [
        ("files", "/etc/llm-gateway/haproxy.cfg", ""),
        ("files", "/etc/systemd/system/docker.service.d/llm-firewall.conf", ""),
        ("files", "/opt/llm/scripts/start.sh", ""),
        ("files", "/opt/llm/environments/people/bin/python3.12", reset.UNKNOWN),
        ("files", "/opt/llmother/x", reset.UNKNOWN),
        ("files", "/srv/llm-data/x", reset.UNKNOWN),
        ("files", "/etc/prometheus/prometheus.yml", reset.BEFORE),
        ("files", "/etc/prometheus/rules.yml", ""),
        ("units", "llm-gateway.service", ""),
        ("units", "haproxy.service", reset.BEFORE),
    ],
)
def test_whose_something_is(kind: str, name: str, stays: str) -> None:
    before = {"files": ["/etc/prometheus/prometheus.yml"], "units": {"haproxy.service": "enabled"}}
    assert reset.Owner("/opt/llm/", before).why_not(kind, name) == stays


def test_what_keeps_earlier_versions_goes_with_the_server(host: Path) -> None:
    (host / "served.json").write_text("{}")
    record(host, "ray")
    record(host, "vllm")
    steps, _stays = reset.planned(str(host), None, Machine(), {})  # type: ignore[arg-type]
    said = [(step.role, step.kind, step.name.removeprefix(f"{host}/")) for step in steps]
    assert said == [
        ("vllm", "file", "served.json"),
        ("vllm", "image", "llm-kept:0123456789ab"),
        ("vllm", "record", "records/vllm.json"),
        ("ray", "record", "records/ray.json"),
    ]
