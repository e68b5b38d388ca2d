"""What nvidia-smi, DCGM and the kernel's log say of cards under load is read, and garbage is nothing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils import _accept as accept
from ansible_collections.baremetal.llm.plugins.module_utils import _xid as xid
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring import rules
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import FAILURES

ROOT = Path(__file__).parents[4]


def xml() -> str:
    return next(path for path in sorted((Path(__file__).parents[3] / "data/nvidia_smi").rglob("*.xml"))).read_text()


def test_figures_are_read_beside_the_health() -> None:
    found = accept.readings(xml())
    assert found
    for card in found.values():
        assert card["power_limit_watts"]["default"] > 0
        assert card["sm_clock_max_mhz"] >= card["sm_clock_mhz"] > 0
        assert "ecc" in card


def test_the_worst_of_all_samples_counts() -> None:
    card = next(iter((accept.readings(xml()) or {}).values()))
    card["temperature_left_celsius"] = None
    cold: Any = {**card, "link": {"generation": 1, "width": 16}, "temperature_celsius": 35, "throttle_reasons": []}
    warm: Any = {
        **card,
        "link": {"generation": 5, "width": 8},
        "temperature_celsius": 80,
        "throttle_reasons": ["hw_slowdown"],
        "temperature_left_celsius": 3,
    }
    [worst] = accept.under_load([{"a": cold}, {"a": warm}, {"a": cold}]).values()
    assert (worst["generation"], worst["width"], worst["temperature_celsius"], worst["samples"]) == (5, 8, 80, 3)
    assert (worst["throttle_reasons"], worst["temperature_left_celsius"]) == (["hw_slowdown"], 3)


def test_errors_of_nvlinks_are_added_up() -> None:
    text = "GPU 0: NVIDIA H100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 2\n\t Link 0: Recovery Errors: 0\n\t Link 1: CRC Errors: 3\nGPU 1: x\n"
    assert accept.nvlink_errors(text) == {0: 5}
    assert accept.nvlink_errors("No NVLinks") == {}


def test_dcgm_of_each_release_is_read() -> None:
    def answer(root: str, result: dict[str, Any]) -> str:
        test = {"name": "Memory", "results": [{"status": "Pass", "gpu_id": "1"}, {"status": "Skip"}, result]}
        return "Successfully ran diagnostic\n" + json.dumps(
            {root: {"test_categories": [{"category": "Hardware", "tests": [test]}]}}
        )

    old = answer("DCGM GPU Diagnostic", {"gpu_id": "0", "status": "Fail", "warnings": ["bad"]})
    new = answer(
        "DCGM Diagnostic",
        {"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"warning": "bad", "error_id": 1}]},
    )
    wanted = [{"gpu": 0, "test": "Memory", "status": "Fail", "said": "bad"}]
    assert accept.dcgm_results(old) == accept.dcgm_results(new) == wanted
    for garbage in (
        "",
        "x",
        "{",
        "{}",
        "[]",
        '{"a": 3}',
        '{"a": {"test_categories": 3}}',
        '{"a": {"test_categories": [{"tests": [null]}]}}',
    ):
        assert accept.dcgm_results(garbage) is None


def test_a_load_is_watched_and_ended() -> None:
    seen: list[int] = []
    program = "import json; print('torch warns'); print(json.dumps({'gpus': [{'uuid': 'GPU-1'}]}))"
    status, out, _err = accept.load([sys.executable, "-c", program], 20, lambda: seen.append(1))
    assert (status, accept.burnt(out), bool(seen)) == (0, [{"uuid": "GPU-1"}], True)
    assert accept.load(["sleep", "60"], 0.01, lambda: None)[0] is None
    assert accept.load(["/none/of/this"], 1, lambda: None)[0] == 127
    assert [accept.burnt(text) for text in ("", "x", "{}", '{"gpus": 3}', "[]")] == [None] * 5


class Answers:
    """A host whose programs say what is given, by the first word after the program."""

    def __init__(self, text: str) -> None:
        self.text = text

    def path(self, name: str) -> str:
        return "/usr/bin/" + name

    def run(self, command: list[str]) -> tuple[int, str, str]:
        return 0, self.text, ""

    def answer(self, name: str, *words: str) -> str:
        return self.text


def test_a_host_that_answers_nonsense_is_no_error(tmp_path: Path) -> None:
    for text in (
        "",
        "Unable to determine the device handle",
        "<nvidia_smi_log>",
        "<nvidia_smi_log><gpu id='x'/></nvidia_smi_log>",
        "\0" * 30,
    ):
        found = accept.examine(Answers(text), Answers(text), ["true"], 5, 1, str(tmp_path))  # type: ignore[arg-type]
        assert (found["gpus"], found["burn"], found["dcgm"], found["xids"]) == ([], None, None, [])


def test_xids_have_an_action_each() -> None:
    lines = {
        "1.5 gpu01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.": (
            "0000:3b:00",
            79,
            "reboot",
        ),
        "NVRM: Xid (PCI:0000:3B:00 GPU-I:01): 94, pid=1, Contained": ("0000:3b:00", 94, "restart"),
        "NVRM: Xid (PCI:0000:3b:00): 63, Row Remapper: New row marked for remapping": ("0000:3b:00", 63, "watch"),
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)": (
            "0000:3b:00",
            154,
            "reboot",
        ),
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)": (
            "0000:3b:00",
            154,
            "watch",
        ),
        "NVRM: Xid (PCI:0000:3b:00): 99999999999": ("0000:3b:00", 0, "watch"),
    }
    assert {line: tuple(xid.read(line) or ()) for line in lines} == lines
    assert xid.read("NVRM: loading") is None
    assert not set(xid.ACTIONS) - {xid.WATCH, xid.RESTART, *xid.BAD}
    assert len([number for numbers in xid.ACTIONS.values() for number in numbers]) == len(xid._ACTION_OF)


def test_pages_and_signatures_class_xids_alike() -> None:
    """The runbooks in both languages, the signatures of the diagnosis and the pattern of the alert say what the table says."""
    wanted = {action: set(numbers) for action, numbers in xid.ACTIONS.items()}
    for page in ("docs/runbooks/alerts.md", "docs/zh/runbooks/alerts.md"):
        rows = re.findall(r"^\| (\d[\d, 、]*) \|", (ROOT / page).read_text(), re.MULTILINE)
        said = [{int(number) for number in re.findall(r"\d+", row)} for row in rows]
        assert sorted(map(sorted, said)) == sorted(map(sorted, wanted.values())), page
    signatures = {failure.code: failure.signatures for failure in FAILURES if failure.code.startswith("xid_")}
    for code, (text,) in signatures.items():
        assert {int(number) for number in re.findall(r"\d+", text.partition("(?P<xid>")[2])} == wanted[
            code[len("xid_") :]
        ]
    assert len(signatures) == len(wanted)
    assert set(map(int, rules.BAD_XIDS.split("|"))) == set().union(*(wanted[action] for action in xid.BAD))
