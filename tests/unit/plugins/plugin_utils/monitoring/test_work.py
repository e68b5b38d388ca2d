"""Where the role monitoring has something to do, by what its last run recorded."""

from __future__ import annotations

from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.work import EXPORTERS, WATCHER, asked, sections

DECIDED: dict[str, Any] = {
    "files": [{"path": "a", "content": "b"}],
    "exporters": {"gpu01": "192.0.2.1:9100", "watch": "192.0.2.9:9100"},
    "figures": {},
}
JOURNALS = {"gpu01": 4, "watch": 4}
WANTED = asked({**DECIDED, "collectors": ["192.0.2.9"]}, ["watch"], JOURNALS, {"monitoring_dir": "/etc/x"}, [])


def records(wanted: Any = None, **differs: list[str]) -> Any:
    return {
        host: {
            name: {"digest": found, "collection": "c", "differs": differs.get(host, [])}
            for name, found in digests.items()
        }
        for host, digests in (wanted or WANTED).items()
    }


def needed(wanted: Any = None, there: Any = None, walk: bool = False, whole: bool = True) -> dict[str, list[str]]:
    found = sections(wanted or WANTED, records() if there is None else there, "c", walk, whole)
    return {host: section["needed"] for host, section in found.items()}


def test_where_every_record_holds_nothing_is_to_do() -> None:
    assert needed() == {"gpu01": [], "watch": []}
    assert needed(walk=True) == {"gpu01": [EXPORTERS], "watch": [EXPORTERS, WATCHER]}


def test_without_a_record_everything_is_to_do() -> None:
    assert needed(there={}) == {"gpu01": [EXPORTERS], "watch": [EXPORTERS, WATCHER]}
    (reason,) = sections(WANTED, {}, "c", False, True)["gpu01"]["work"][EXPORTERS]
    assert reason["code"] == "work_no_record"


def test_what_changed_on_a_host_is_mended_there() -> None:
    assert needed(there=records(gpu01=["units llm-textfile.timer"])) == {"gpu01": [EXPORTERS], "watch": []}


def test_another_receiver_concerns_only_who_watches() -> None:
    other = asked({**DECIDED, "collectors": ["192.0.2.9"]}, ["watch"], JOURNALS, {"monitoring_dir": "/etc/y"}, [])
    assert needed(other) == {"gpu01": [], "watch": [WATCHER]}


def test_another_rule_of_the_site_concerns_only_who_watches() -> None:
    other = asked({**DECIDED, "collectors": ["192.0.2.9"]}, ["watch"], JOURNALS, {"monitoring_dir": "/etc/x"}, ["x"])
    assert needed(other) == {"gpu01": [], "watch": [WATCHER]}


def test_another_collector_concerns_every_host() -> None:
    other = asked({**DECIDED, "collectors": ["192.0.2.8"]}, ["watch"], JOURNALS, {"monitoring_dir": "/etc/x"}, [])
    assert needed(other) == {"gpu01": [EXPORTERS], "watch": [EXPORTERS]}


def test_another_limit_of_a_journal_concerns_that_host() -> None:
    other = asked(
        {**DECIDED, "collectors": ["192.0.2.9"]}, ["watch"], {"gpu01": 1, "watch": 4}, {"monitoring_dir": "/etc/x"}, []
    )
    assert needed(other) == {"gpu01": [EXPORTERS], "watch": []}


def test_a_host_with_an_exporter_of_its_own_gets_none() -> None:
    wanted = asked({**DECIDED, "collectors": ["192.0.2.9"]}, ["watch"], {}, {"monitoring_dir": "/etc/x"}, [])
    assert needed(wanted, there={}) == {"watch": [WATCHER]}


def test_another_start_concerns_only_its_head() -> None:
    other = asked(
        {**DECIDED, "collectors": ["192.0.2.9"], "figures": {"gpu01": "x 1\n"}},
        ["watch"],
        JOURNALS,
        {"monitoring_dir": "/etc/x"},
        [],
    )
    assert needed(other) == {"gpu01": [EXPORTERS], "watch": []}


def test_a_run_that_does_not_know_all_targets_leaves_who_watches_alone() -> None:
    assert needed(there={}, whole=False) == {"gpu01": [EXPORTERS], "watch": [EXPORTERS]}


def test_a_machine_under_two_names_gets_its_exporters_once() -> None:
    found = sections(WANTED, {}, "c", False, True, ["watch"])
    assert {host: section["needed"] for host, section in found.items()} == {"gpu01": [EXPORTERS], "watch": [WATCHER]}
