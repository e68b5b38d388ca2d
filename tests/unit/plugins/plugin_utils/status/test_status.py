"""The state of a fleet: rows, drift, what is left over, how disks fill; in a terminal and on a page."""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import absentees
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.asked import (
    asked_of,
    looked_of_run,
    remembered,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.drift import drift
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.leftovers import leftovers
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import (
    STATES,
    last_token,
    looked_at,
    ranks_of,
    state_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.report import (
    duration,
    status_document,
    status_lines,
    status_page,
    verdict,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import (
    LOOK_SECONDS,
    days_until_nothing,
    former_hosts,
    kept_looks,
    points,
)

from tests.support.looks import GIB, NOW, asked, container, facts, look

WORD = "llm_live.probe.llm-vllm."
HOUR = 3600.0


@pytest.mark.parametrize(
    ("changes", "code", "grade", "token"),
    [
        ({}, "serving", "good", 4.0),
        ({WORD + "kind": "busy"}, "busy", "good", 4.0),
        ({WORD + "kind": "loading", WORD + "served": False}, "loading", "warning", None),
        ({WORD + "kind": "failed", WORD + "silence": 30}, "failed", "bad", 34.0),
        ({WORD + "kind": "crashing"}, "crashing", "bad", None),
        ({WORD + "age": 600.0}, "unproved", "unknown", None),
        ({WORD + "kind": "a word of tomorrow"}, "unproved", "unknown", None),
        ({"llm_live.probe": {}}, "unproved", "unknown", None),
        ({"llm_live.containers.1.state": "exited"}, "stopped", "bad", 4.0),
        ({"llm_live.containers.1.state": "restarting"}, "crashing", "bad", 4.0),
        ({"llm_live.containers": []}, "absent", "bad", 4.0),
        ({"llm_live.containers": None}, "engine_silent", "unknown", 4.0),
    ],
)
def test_the_state_of_a_head(changes: dict[str, Any], code: str, grade: str, token: float | None) -> None:
    looked = look(changes=changes)
    state = state_of(looked)
    assert (state.code, state.grade, last_token(looked)) == (code, grade, token)


def test_a_worker_is_judged_by_what_takes_part() -> None:
    assert state_of(look("gpu02")).code == "running"
    assert state_of(look("gpu02", {"llm_live.containers": []})).code == "absent"
    assert last_token(look("gpu02")) is None


def test_a_unit_is_a_program_as_a_container_is() -> None:
    unit = {"name": "llm-vllm.service", "load": "loaded", "state": "active", "restarts": 0, "started": NOW - 60}
    changes = {"llm_live.containers": None, "llm_live.units": [unit]}
    state = state_of(look(changes=changes))
    assert (state.code, state.seconds) == ("serving", 60.0)
    unit["state"] = "failed"
    assert state_of(look(changes=changes)).code == "stopped"


@pytest.mark.parametrize(
    ("found", "said", "code"),
    [
        ({}, "no route to host", "silent"),
        ({"llm_live": "?"}, "", "garbage"),
        ({"llm_live": {"now": 1}}, "", "garbage"),
        ({**facts(), "llm_host": None}, "", "garbage"),
        ({**facts(), "llm_live": {**facts()["llm_live"], "disks": [{"mount": "/"}]}}, "", "garbage"),
        ({**facts(), "llm_live": {**facts()["llm_live"], "containers": [{"state": 1}]}}, "", "garbage"),
        ({**facts(), "llm_gpus_found": 7}, "", "garbage"),
    ],
)
def test_a_host_of_which_nothing_is_known_is_a_row_that_says_so(found: dict[str, Any], said: str, code: str) -> None:
    looked = looked_at(asked("gpu01"), found, said)
    assert state_of(looked).code == code
    document = status_document([looked, look("gpu02")], NOW)
    (row, _other) = document["rows"]
    assert (row["grade"], row["gpus"], row["errors"]) == ("unknown", None, None)
    lines = status_lines(document)
    assert "gpu01" in lines[0]
    assert "unknown" in next(line for line in lines[1:] if line.startswith("gpu01"))


def test_ranks_are_said_where_a_program_says_them() -> None:
    assert ranks_of(look()) is None, "only Ray knows"
    assert ranks_of(look(members=("gpu01",))) == [0]
    told = container("llm-vllm", arguments={"nnodes": "2", "node-rank": "1", "tensor-parallel-size": "4"})
    assert ranks_of(look("gpu02", {"llm_live.containers": [told]})) == [2, 3]


def test_only_differences_are_shown_and_unknown_is_none() -> None:
    other = {
        "llm_host.kernel": "6.1.0-21-amd64",
        "llm_gpus_found.0.link": {"width": 8},
        "llm_gpus_found.0.power_limit_watts.now": None,
        "llm_nics_found.0.mtu": 1500,
        "llm_records.docker": {"digest": "99" * 32, "differs": []},
        "llm_live.models": {"org--a": "ef" * 32},
    }
    assert drift([look(), look("gpu02")]) == {}
    assert drift([look(), look("gpu02", other), look("gpu03", said="gone")]) == {
        "org/a": {
            "kernel": {"gpu01": "6.1.0-18-amd64", "gpu02": "6.1.0-21-amd64"},
            "model": {"gpu01": "cd" * 6, "gpu02": "ef" * 6},
            "link": {"gpu01": "x16", "gpu02": "x8"},
            "mtu": {"gpu01": "9000", "gpu02": "1500"},
            "settings_docker": {"gpu01": "11" * 6, "gpu02": "99" * 6},
        }
    }


def test_hosts_of_other_models_may_differ() -> None:
    other = look("gpu03", {"llm_host.kernel": "5"}, deployment="b", members=("gpu03",), served_model="org/b")
    assert drift([look(), other]) == {}
    twin = look("gpu03", {"llm_host.kernel": "5"}, deployment="b", members=("gpu03",))
    assert list(drift([look(), twin])["org/a"]) == ["kernel"], "a replica of the same model"


def test_what_the_inventory_names_no_more() -> None:
    unit = {"load": "loaded", "state": "active", "restarts": 0, "started": None}
    there = {
        "llm_live.containers": [
            container("llm-vllm"),
            container("llm-vllm-old", state="exited"),
            container("llm-vllm-of-somebody-else", labels={}),
            container("llm-ray", labels={"baremetal.llm.deployment": "former"}),
            container("llm-web-ui", labels={}),
        ],
        "llm_recorded": ["llm-web-ui"],
        "llm_live.units": [
            {"name": "llm-gateway.service", **unit},
            {"name": "llm-textfile.timer", **unit},
            {"name": "llm-probe-old.timer", **unit, "load": "not-found"},
            {"name": "llm-nobody-knows.service", **unit},
        ],
        "llm_records": {"gateway": {"digest": "1", "differs": []}, "vllm": {"digest": "1", "differs": []}},
    }
    found = [
        (each.host, each.kind, each.name, each.runs) for each in leftovers([look(changes=there)], {"gpu09": "day"})
    ]
    assert found == [
        ("gpu01", "container", "llm-vllm-old", False),
        ("gpu01", "container", "llm-ray", True),
        ("gpu01", "container", "llm-web-ui", True),
        ("gpu01", "unit", "llm-gateway.service", True),
        ("gpu01", "unit", "llm-textfile.timer", True),
        ("gpu01", "record", "gateway", False),
        ("gpu09", "host", "day", False),
    ]
    groups = ("llm_gateway", "llm_web_ui")
    named = look(changes=there, services=groups, watched=True, suffixes=("", "-old"), deployments=("qwen", "former"))
    assert leftovers([named]) == []
    outside = look("gpu07", there, deployment="", members=("",), suffixes=())
    assert {each.name for each in leftovers([outside])} >= {"llm-vllm", "llm-vllm-old", "vllm"}


def test_the_table_and_the_page_say_the_same_in_both_languages() -> None:
    hosts = [look(), look("gpu02", {"llm_gpus_found.0.link": {"width": 8}}), look("gpu03", said="<b>refused</b>")]
    series = {"running": [{"labels": {"deployment": "qwen"}, "values": [[0, 0], [60, 4.0]]}]}
    document = json.loads(json.dumps(status_document(hosts, NOW, {"gpu09": 0.0}, series)))
    assert (document["ok"], document["time"], document["deployments"]["qwen"]["state"]) == (
        *(False, "2026-09-21T14:13:20Z", "serving"),
    )
    english = status_lines(document, "en", "status.html")
    assert english[0].startswith("All deployments serve (1). No answer from gpu03")
    row = next(line for line in english if line.startswith("gpu01"))
    for said in ("14.0/16 GiB", "41 °C", "head", "serving", "4 s", "34 %"):
        assert said in row, row
    assert "1 x V100-PCIE-16GB" in english[2], "said once"
    assert "3 h 12 min" in row
    assert "x16" in "\n".join(english)
    for lang in ("en", "zh"):
        page = status_page(document, lang)
        assert verdict(document, lang) in page
        assert "<b>refused" not in page
        assert page.count("<polyline") == 1
        for text in status_lines(document, lang)[5].split():
            assert text in page
        body = page.partition("<body>")[2].partition("</body>")[0]
        ET.fromstring(f"<body>{body}</body>")


def test_a_column_that_is_the_same_everywhere_is_said_once() -> None:
    lines = status_lines(status_document([look(), look("gpu02"), look("gpu03", said="no")], NOW))
    assert lines[1] == (
        "The same on every host that answers: GPUs 1 x V100-PCIE-16GB, driver 570.195.03, Docker 27.3.1, image vllm/vllm-openai:v0.8.5"
    )
    assert not any("570" in line for line in lines[2:])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (4, "4 s"), (119, "119 s"), (720, "12 min"), (11520, "3 h 12 min"), (446400, "5 d 4 h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_how_disks_fill() -> None:
    falling = [(hour * HOUR, 100 - hour) for hour in range(25)]
    assert days_until_nothing(falling) == pytest.approx(76 / 24)
    assert days_until_nothing([(at, 5.0) for at, _free in falling]) is None
    assert days_until_nothing([(at, 100 + at) for at, _free in falling]) is None
    assert days_until_nothing(falling[:1]) is None
    assert days_until_nothing([(0, 9.0), (600, 1.0)]) is None, "ten minutes say nothing"


def test_looks_are_kept_one_an_hour() -> None:
    looks: Any = None
    for minute in range(0, 180, 20):
        looks = kept_looks(looks, [look()], NOW + minute * 60)
    times = [each["time"] - NOW for each in looks["looks"]]
    assert times[0] == 0
    assert times[-1] == 160 * 60
    assert all(later - earlier >= LOOK_SECONDS for earlier, later in itertools.pairwise(times[:-1]))
    kept, inodes = points(looks, None, "gpu01", "/")
    assert (kept[-1], inodes[-1]) == ((NOW + 9600, 200.0 * GIB), (NOW + 9600, 8000.0))
    assert points(looks, None, "gpu01", "/srv") == ([], [])
    asked_prometheus = {"free_bytes": [{"labels": {"host": "gpu01", "mountpoint": "/"}, "values": [[1, 2.0]]}]}
    assert points(looks, asked_prometheus, "gpu01", "/") == ([(1.0, 2.0)], [])
    assert former_hosts(looks, ["gpu02"]) == {"gpu01": NOW + 9600}
    for strange in ({"schema": 2}, [], {"schema": 1, "looks": [{"time": "?"}]}, "x"):
        assert len(kept_looks(strange, [look()], NOW)["looks"]) == 1


def test_what_a_run_looked_at() -> None:
    inventory = {"deployments": {"qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}}, "names": {}}
    groups = {"llm_gateway": ["gate"], "llm_monitoring": ["gate"]}
    variables = {"vllm_model": "org/a", "models_dir": "/opt/llm/models"}
    seen = {"ansible_facts": facts(), "__preflight_looked": {"changed": False}}
    fleet: dict[str, Any] = {
        "localhost": {},
        "gpu01": {**variables, **seen},
        # What a cache of facts still knows is none of today's.
        "gpu02": {**variables, **seen, "__preflight_looked": {"said": "one\nssh: no route\n"}},
        "gate": {"__preflight_looked": {"failed": True, "msg": "timed out"}},
        "stranger": {"__preflight_looked": {"said": "no"}},
        "limited": {},
    }
    found = looked_of_run(fleet, groups, inventory)
    assert [(each.asked.host, each.answered, each.said) for each in found] == [
        *(("gpu01", True, ""), ("gpu02", False, "ssh: no route"), ("gate", False, "timed out")),
    ]
    head, worker, gate = (each.asked for each in found)
    assert (head.is_head, head.served_model, head.model_folder, head.suffixes, head.watched) == (
        *(True, "org/a", "org--a", ("",), True),
    )
    assert (worker.is_head, gate.deployment, gate.services) == (False, "", ("llm_gateway", "llm_monitoring"))


def test_a_machine_with_several_names_knows_all_of_them() -> None:
    known = {"a": names("one", ["a", "b"]), "b": names("two", ["a", "b"])}
    inventory = {
        "deployments": {"one": {"hosts": ["a"], "head": "a"}, "two": {"hosts": ["b"], "head": "b"}},
        "names": known,
    }
    mine = asked_of("a", inventory, {}, {"vllm_model": "m", "models_dir": "/m", "vllm_served_model_name": "s"})
    assert (mine.suffixes, mine.deployments, mine.served_model) == (("-one", "-two"), ("one", "two"), "s")


def test_every_state_has_words() -> None:
    for state in STATES:
        document = status_document([look()], NOW)
        document["deployments"]["qwen"]["state"] = state
        assert all(verdict(document, lang) for lang in ("en", "zh"))


def test_who_holds_hosts_and_who_changed_the_fleet_last() -> None:
    run = {"run": {"pid": 7}, "begun": NOW - 600, "who": "mei@desk", "playbook": "site.yml", "collection": "1.0.0"}
    first = {**run, "ended": NOW - 300, "roles": ["docker", "vllm"], "limit": "qwen"}
    second = {**run, "begun": NOW - 598, "ended": None, "roles": [], "limit": "qwen"}
    older = {**run, "run": {"pid": 3}, "begun": NOW - 90000, "ended": NOW - 89000, "roles": [], "who": "<b>jon"}
    holder = {"run": {"pid": 7}, "who": "mei@desk", "since": NOW - 600, "playbook": "site.yml"}
    document = status_document(
        [
            look("gpu01", {"llm_journal": [first, older]}),
            look("gpu02", {"llm_journal": [second], "llm_lock": {"holder": holder}}),
        ],
        NOW,
    )
    text = "\n".join(status_lines(document))
    assert "gpu02: mei@desk has held it for 10 min (site.yml)" in text
    assert (
        "mei@desk: site.yml --limit qwen, collection 1.0.0, on gpu01, gpu02; changed: docker, vllm; it did not give back gpu02"
        in text
    )
    assert "on gpu01; changed: nothing" in text
    assert text.index("mei@desk: site.yml") < text.index("<b>jon")
    assert json.loads(json.dumps(document))["runs"][0]["unfinished"] == ["gpu02"]
    page = status_page(document, "zh")
    assert "此刻被某次运行占用" in page
    assert "<b>jon" not in page


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_deployment_without_its_head_is_shown_with_another_and_says_who_is_missing(lang: str) -> None:
    inventory = {"deployments": {"qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}}, "names": {}}
    absent = {
        "deployment": "qwen",
        "turn": 1,
        "hosts": {"gpu01": {"since": "2026-11-28T03:12Z", "why": "left_out"}},
        "former": {},
    }
    variables = {"vllm_model": "org/a", "models_dir": "/opt/llm/models"}
    fleet: dict[str, Any] = {
        "localhost": {},
        "gpu01": {**variables, "__preflight_looked": {"said": "no route"}},
        "gpu02": {
            **variables,
            "ansible_facts": {**facts(), "llm_network_state": {"absent": absent}},
            "__preflight_looked": {"changed": False},
        },
    }
    (head,) = looked_of_run(fleet, {}, inventory)
    assert (head.asked.host, head.asked.is_head, head.asked.members) == ("gpu02", True, ("gpu02",))
    document = status_document([head], NOW, absent=absentees(remembered(fleet, inventory)))
    (line,) = [each for each in status_lines(document, lang) if "llm_node=gpu01" in each]
    assert "2026-11-28 03:12 UTC" in line
    assert "llm_node=gpu01" in status_page(document, lang)
