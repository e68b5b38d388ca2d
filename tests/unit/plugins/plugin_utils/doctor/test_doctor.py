"""What the doctor finds: each fault by its code, a fleet that is well by nothing."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.checks import CHECKS, examine, examine_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.finding import GIB, Finding, Question
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.report import doctor_document, doctor_lines
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import make_authority

from tests.support.looks import NOW, container, look

WORD = "llm_live.probe.llm-vllm."
COUNTERS = {"prompt_tokens_total": 50.0, "generation_tokens_total": 900.0, "num_requests_running": 2.0}
USED = {"gpu01": {"interface": {"interface": "eth1", "address": "10.0.0.1", "network": "10.0.0.0/24"}}}
LOG = "ValueError: Free memory on device (1.0/16.0 GiB) on startup is less than desired GPU memory utilization (0.9, 14.4 GiB)."


def found(*hosts: Any, **known: Any) -> list[Finding]:
    return examine(Question(hosts, now=NOW, **known))


def ill(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.code, each.grade) for each in findings if each.grade != "good"]


def test_a_fleet_that_is_well() -> None:
    findings = found(look(), look("gpu02", {"llm_live.containers.0.environment": {}}), used=USED)
    assert ill(findings) == []
    document = doctor_document(findings, "now")
    assert (document["exit_code"], document["counts"]["bad"]) == (0, 0)
    names = [each.check for each in findings]
    assert names == [name for name in CHECKS if name not in ("placement", "weights", "certificates")], "not asked"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"llm_live.containers.1.state": "exited"}, ("stopped", "bad")),
        ({"llm_live.containers.1.state": "exited", "llm_live.containers.1.restarts": 9}, ("restart_loop", "bad")),
        ({WORD + "kind": "crashing", WORD + "starts": 4}, ("restart_loop", "bad")),
        ({WORD + "kind": "loading"}, ("loading", "warning")),
        ({WORD + "kind": "waiting"}, ("waiting", "warning")),
        ({WORD + "kind": "failed"}, ("failed", "bad")),
        ({WORD + "kind": "refused"}, ("refused", "warning")),
        ({WORD + "age": 999.0}, ("unproved", "unknown")),
        ({"llm_live.containers": []}, ("absent", "bad")),
        ({"llm_live.containers": None}, ("engine_silent", "unknown")),
        ({"llm_live.pending": ["{'GPU': 1.0} * 2 (PACK)"]}, ("placement_pending", "bad")),
        ({WORD + "counters": COUNTERS, WORD + "age": 20.0}, ("hung", "bad")),
        ({"llm_live.containers.1.environment": {"VLLM_HOST_IP": "192.0.2.1"}}, ("wrong_network", "bad")),
        ({"llm_live.containers.1.environment": {"NCCL_SOCKET_IFNAME": "=eth0"}}, ("wrong_network", "bad")),
        ({"llm_live.containers.0.arguments": {"node-ip-address": "10.9.0.1"}}, ("wrong_network", "bad")),
        ({"llm_live.certificates": {"/tls.pem": None}}, ("certificate_unknown", "unknown")),
        ({"llm_live.certificates": {"/tls.pem": "no certificate"}}, ("certificate_unknown", "unknown")),
        ({"llm_live.disks.0.available_bytes": 1 * GIB}, ("disk_full", "bad")),
        ({"llm_live.disks.0.available_bytes": 9 * GIB}, ("disk_full", "warning")),
        ({"llm_live.disks.0.files_free": 20}, ("inodes_few", "bad")),
        ({"llm_live.clock_synchronized": False}, ("clock_alone", "warning")),
        ({"llm_live.clock_synchronized": None}, ("clock_unknown", "unknown")),
        ({"llm_live.weights": {"bad": ["org--a/model.safetensors"], "missing": []}}, ("weights_wrong", "bad")),
        ({"llm_live.xids": [{"time": NOW - 60, "bus_id": "3b", "xid": 79, "action": "reboot"}]}, ("xids", "bad")),
        ({"llm_live.xids": [{"time": NOW - 60, "bus_id": "3b", "xid": 31, "action": "restart"}]}, ("xids", "warning")),
        ({"llm_live.xids": None}, ("xids_unknown", "unknown")),
        ({"llm_records.docker.differs": ["paths /etc/x"]}, ("changed", "warning")),
        ({"llm_lock.holder": {"since": NOW - 9000}}, ("held", "warning")),
    ],
)
def test_a_fault_is_found_and_nothing_beside_it(changes: dict[str, Any], expected: tuple[str, str]) -> None:
    findings = found(look(changes=changes), used=USED)
    codes = ill(findings)
    assert expected in codes
    # A program that stands still is said in its state, too.
    assert set(codes) - {expected} <= {("stopped", "bad")}
    (each,) = [one for one in findings if one.code == expected[0] and one.grade == expected[1]]
    assert each.hosts == ("gpu01",)
    assert "gpu01" in each.what
    assert each.remedy


@pytest.mark.parametrize(
    "changes",
    [
        {WORD + "counters": COUNTERS, WORD + "age": 2.0},
        {WORD + "counters": {**COUNTERS, "generation_tokens_total": 880.0}, WORD + "age": 60.0},
        {WORD + "counters": {**COUNTERS, "num_requests_running": 0.0}, WORD + "age": 60.0},
        {"llm_live.xids": [{"time": NOW - 2 * 86400, "bus_id": "3b", "xid": 79, "action": "reboot"}]},
        {"llm_live.disks.0": {"mount": "/btrfs", "total_bytes": 0, "available_bytes": 0, "files": 0, "files_free": 0}},
        {"llm_live.containers.1.restarts": 9},
        {"llm_live.containers.1.environment": {"NCCL_SOCKET_IFNAME": "^docker0,lo", "VLLM_HOST_IP": "10.0.0.1"}},
        {"llm_lock.holder": {"since": NOW - 60}},
        {"llm_live.weights": {"bad": [], "missing": []}},
    ],
)
def test_what_is_no_fault(changes: dict[str, Any]) -> None:
    assert ill(found(look(changes=changes), used=USED)) == []


def test_a_restart_loop_has_the_error_with_which_it_began() -> None:
    changes = {WORD + "kind": "crashing", WORD + "starts": 5, "llm_live.logs": {"llm-vllm": f"INFO x\n{LOG}\n"}}
    (each,) = [one for one in found(look(changes=changes)) if one.code == "restart_loop"]
    assert "ended at 5 starts in a row" in each.what
    assert "Free memory" in each.evidence
    assert "vllm_gpu_memory_utilization" in each.remedy
    killed = {"llm_live.containers.1.out_of_memory": True, "llm_live.containers.1.restarts": 4}
    changes = {**killed, "llm_live.containers.1.state": "exited"}
    (each,) = [one for one in found(look(changes=changes)) if one.code == "restart_loop"]
    assert "ray_memory_limit_gib" in each.what


def test_commands_are_those_of_what_runs() -> None:
    unit = {"name": "llm-vllm.service", "load": "loaded", "state": "failed", "restarts": 1, "started": None}
    (each,) = [one for one in found(look(changes={"llm_live.containers": [], "llm_live.units": [unit]})) if one.hosts]
    assert "systemctl start llm-vllm" in each.remedy
    (each,) = [one for one in found(look(changes={"llm_live.containers.1.state": "exited"})) if one.hosts]
    assert "docker start llm-vllm" in each.remedy


def test_a_host_that_does_not_answer_is_not_known() -> None:
    silent = look("gpu02", said="no route to host")
    document = doctor_document(found(look(), silent, used=USED), "now")
    assert document["exit_code"] == 2
    assert document["findings"][0]["evidence"] == "no route to host"
    assert all(each["check"] != "answers" for each in document["findings"] if each["grade"] == "good")
    broken = look(changes={"llm_live.containers": []})
    assert doctor_document(found(broken, silent), "now")["exit_code"] == 1, "what is broken comes first"
    nobody = found(look(said="no"))
    assert [each.code for each in nobody] == ["host_silent"], "no check is well that nobody made"


def test_placement_names_the_hosts_that_are_missing() -> None:
    waiting = look(changes={"llm_live.pending": ["{'GPU': 1.0} * 2 (PACK)"]})
    (each,) = [one for one in found(waiting, look("gpu02", {"llm_live.containers": []})) if one.check == "placement"]
    assert "gpu02" in each.what


def test_a_replica_slower_than_its_twins() -> None:
    def replica(host: str, milliseconds: float, gaps: float = 1000.0) -> Any:
        figures = {"token_gaps": gaps, "token_seconds": gaps * milliseconds / 1000}
        return look(host, {"llm_live.server.figures": figures}, deployment=host, members=(host,))

    slow = found(replica("a", 30), replica("b", 32), replica("c", 80))
    assert [(each.hosts, each.evidence) for each in slow if each.code == "slow_twin"] == [(("c",), "80 ms / 31 ms")]
    assert ill(found(replica("a", 30), replica("b", 40))) == []
    assert ill(found(replica("a", 30), replica("b", 90, gaps=10))) == [], "too few tokens"


@pytest.mark.parametrize(("days", "code"), [(29, "certificate_ends"), (-3, "certificate_ended"), (90, "")])
def test_a_certificate_near_its_end(days: int, code: str) -> None:
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    authority, _key = make_authority(now - datetime.timedelta(days=3650 - days))
    findings = found(look(changes={"llm_live.certificates": {"/tls.pem": authority.decode()}}))
    assert [each.code for each in findings if each.check == "certificates" and each.grade != "good"] == [code] * bool(
        code
    )


@pytest.mark.parametrize(
    ("hours", "over", "codes"),
    [
        (12, 10, [("disk_fills", "bad")]),
        (100, 10, [("disk_fills", "warning")]),
        (1000, 10, []),
        (12, 2, []),  # a model that arrives
    ],
)
def test_a_disk_that_fills(hours: float, over: float, codes: list[tuple[str, str]]) -> None:
    rate = 200 * GIB / hours
    looks = [
        {"time": NOW - back * 3600, "hosts": {"gpu01": {"/": [200 * GIB + rate * back, 8000]}}}
        for back in (over, over / 2, 0)
    ]
    assert ill(found(look(), looks={"schema": 1, "looks": looks})) == codes


def test_what_preflight_finds_is_said() -> None:
    entry = {"code": "gpu_throttled", "severity": "warning", "what": "w", "value": "v", "where": "x", "allowed": "a"}
    findings = found(look(), preflight=[{**entry, "limit": "", "hosts": ["gpu01"]}])
    assert ill(findings) == [("gpu_throttled", "warning")]
    (each,) = [one for one in findings if one.check == "preflight"]
    assert (each.what, each.evidence, each.remedy) == ("w", "v", "a")


def test_what_is_left_and_what_differs() -> None:
    left = {"llm_live.containers": [container("llm-vllm"), container("llm-ray"), container("llm-gateway")]}
    other = look("gpu02", {"llm_host.kernel": "5"})
    assert ill(found(look(changes=left), other)) == [("drift", "warning"), ("leftover", "warning")]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_lines_say_all_of_it(lang: str) -> None:
    broken = look(changes={"llm_live.containers.1.state": "exited"})
    document = doctor_document(examine(Question([broken], now=NOW, lang=lang)), "now")
    lines = doctor_lines(document, lang, "doctor.json")
    assert "doctor.json" in lines[1]
    assert "llm-vllm" in lines[3]
    text = "\n".join(lines)
    for each in document["findings"]:
        assert each["what"] in text
        assert each["remedy"] in text


def test_a_saved_log() -> None:
    assert doctor_document(examine_log(LOG), "now")["exit_code"] == 1
    assert (
        doctor_document(examine_log("INFO all is well\nINFO it starts\nINFO it runs\nINFO still"), "now")["exit_code"]
        == 0
    )
