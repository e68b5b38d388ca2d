"""What hosts say of their GPUs and of the probe, in Prometheus's text format: from recorded answers of nvidia-smi, and by the program itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import programs

ROOT = Path(__file__).parents[3]
FILE = ROOT / "roles/monitoring/files/llm-textfile.py"
RECORDED = (ROOT / "tests/data/nvidia_smi/smi.xml").read_text(encoding="utf-8")
textfile = programs.load("monitoring/files/llm-textfile.py")

LINE = re.compile(r'([\w:]+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (-?\d+\.\d+(?:e\+\d+)?)')


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples of a page by name; every line is one that Prometheus can read."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            name, labels, value = match.groups()
            found.setdefault(name, []).append((dict(re.findall(r'(\w+)="([^"]*)"', labels or "")), float(value)))
    return found


def gpus(xml: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return samples(str(textfile.gpu_page(xml)))


def test_each_gpu_has_the_figures_that_it_reports() -> None:
    found = gpus(RECORDED)
    count = RECORDED.count("<gpu id=")
    assert found["llm_nvidia_smi_up"] == [({}, 1)]
    assert found["llm_gpus"] == [({}, count)]
    for name in (
        "GPU_UTIL",
        "FB_USED",
        "FB_FREE",
        "POWER_USAGE",
        "GPU_TEMP",
        "SM_CLOCK",
        "PCIE_LINK_WIDTH",
        "ECC_DBE_VOL_TOTAL",
    ):
        assert len(found["DCGM_FI_DEV_" + name]) == count, name
    labels, celsius = found["DCGM_FI_DEV_GPU_TEMP"][0]
    assert labels["UUID"].startswith("GPU-")
    assert labels["modelName"] in RECORDED
    assert f"<gpu_temp>{celsius:.0f} C</gpu_temp>" in RECORDED


def test_a_figure_that_a_card_does_not_report_is_left_out() -> None:
    found = gpus(re.sub("<gpu_temp>.*?</gpu_temp>", "<gpu_temp>N/A</gpu_temp>", RECORDED))
    assert "DCGM_FI_DEV_GPU_TEMP" not in found
    assert "DCGM_FI_DEV_GPU_UTIL" in found


@pytest.mark.parametrize(
    ("reason", "is_trouble"),
    [("hw_thermal_slowdown", 1), ("sw_thermal_slowdown", 1), ("sw_power_cap", 0), ("gpu_idle", 0)],
)
@pytest.mark.parametrize("word", ["event", "throttle"])
def test_heat_lowers_the_clocks(word: str, reason: str, is_trouble: int) -> None:
    xml = (
        f"<nvidia_smi_log><gpu id='0'><clocks_{word}_reasons><clocks_{word}_reason_{reason}>Active</clocks_{word}_reason_{reason}>"
        f"</clocks_{word}_reasons></gpu></nvidia_smi_log>"
    )
    assert [value for _labels, value in gpus(xml)["llm_gpu_throttled"]] == [is_trouble]


@pytest.mark.parametrize("xml", ["", "Unable to determine the device handle", "<nvidia_smi_log>"])
def test_a_driver_that_does_not_answer_is_told(xml: str) -> None:
    assert gpus(xml) == {"llm_nvidia_smi_up": [({}, 0)]}


KERNEL = """\
1700000000.100000 gpu01 kernel: NVRM: Xid (PCI:0000:3B:00): 31, pid=812, name=python3, Ch 00000008
1700000010.500000 gpu01 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=813, name=python3, Ch 00000008
1700000011.500000 gpu01 kernel: NVRM: Xid (PCI:0000:5e:00 GPU-I:01 GPU-CI:00): 43, pid=814, name=python3
1700000020.000000 gpu01 kernel: NVRM: Xid (PCI:0000:af:00): 79, GPU has fallen off the bus.
1700000030.000000 gpu01 kernel: NVRM: GPU at PCI:0000:af:00 is lost
""".splitlines()


def test_the_last_error_of_each_kind_that_the_driver_logged() -> None:
    page = textfile.Page()
    textfile.add_xids(page, KERNEL)
    assert samples(str(page)) == {
        "llm_gpu_xid_timestamp_seconds": [
            ({"pci_bus_id": "0000:3b:00", "xid": "31"}, 1700000010.5),
            ({"pci_bus_id": "0000:5e:00", "xid": "43"}, 1700000011.5),
            ({"pci_bus_id": "0000:af:00", "xid": "79"}, 1700000020),
        ]
    }


@pytest.mark.parametrize("lines", [[], ["-- No entries --"], ["NVRM: Xid (PCI"], ["x" * 10000]])
def test_a_log_without_errors_gives_no_figure(lines: list[str]) -> None:
    page = textfile.Page()
    textfile.add_xids(page, lines)
    assert page.metrics == {}


def models(state: Any) -> dict[str, list[tuple[dict[str, str], float]]]:
    page = textfile.models_page(state)
    return samples(str(page)) if page.metrics else {}


def test_a_model_has_a_digest_and_a_count_of_damaged_files() -> None:
    state = {
        "lab--tiny/config.json": {"sha256": "aa", "stamp": [1, 2]},
        "lab--tiny/sub/model.safetensors": {"sha256": "bb", "stamp": None},
        "other/config.json": {"sha256": "aa", "stamp": [1, 2]},
    }
    found = models(state)
    assert [(labels["model"], value) for labels, value in found["llm_model_damaged_files"]] == [
        ("lab--tiny", 1),
        ("other", 0),
    ]
    (digest, _one), (other, _two) = found["llm_model_info"]
    assert digest["digest"] != other["digest"]
    assert models({**state, "other/config.json": {"sha256": "cc", "stamp": 1}})["llm_model_info"][0][0] == digest
    state["lab--tiny/config.json"] = {"sha256": "cc", "stamp": [1, 2]}
    assert models(state)["llm_model_info"][0][0]["digest"] != digest["digest"]


@pytest.mark.parametrize("state", [{}, {"a": 1}])
def test_a_host_without_models_says_nothing_of_them(state: Any) -> None:
    assert models(state) == {}


def test_requests_and_tokens_of_llama_cpp_are_told_for_prometheus_which_has_no_key() -> None:
    counters = {
        "prompt_tokens_total": 10.0,
        "tokens_predicted_total": 17.0,
        "requests_processing": 1.0,
        "n_decode_total": 9.0,
    }
    state = {"now": 1.0, "kind": "serving", "counters": counters}
    found = samples(str(textfile.probe_page({"llm-vllm": state}, 2.0, deployment="small")))
    assert found["llamacpp:tokens_predicted_total"] == [({"deployment": "small"}, 17.0)]
    assert found["llamacpp:requests_processing"] == [({"deployment": "small"}, 1.0)]
    assert "llamacpp:requests_deferred" not in found
    vllm = {**state, "counters": {"prompt_tokens_total": 10.0, "generation_tokens_total": 17.0}}
    assert not [name for name in samples(str(textfile.probe_page({"llm-vllm": vllm}, 2.0))) if "llamacpp" in name]


def test_the_image_of_a_container_is_told_where_it_is_known() -> None:
    state = {"now": 90.0, "kind": "running"}
    found = samples(str(textfile.probe_page({"llm-ray": {**state, "image": "sha256:1"}, "llm-vllm": state}, 100.0)))
    assert found["llm_container_info"] == [({"container": "llm-ray", "image": "sha256:1"}, 1)]


def test_what_the_probe_says() -> None:
    state = {"now": 90.0, "kind": "failed", "failures": 2, "silence": 20.5, "starts": 1, "restarts": 0, "loading": 0}
    found = samples(str(textfile.probe_page({"form": 1, "measured": {"start_seconds": 3}, "llm-vllm": state}, 100.0)))
    server = {"container": "llm-vllm"}
    assert found["llm_probe_age_seconds"] == [(server, 10)]
    assert found["llm_probe_state"] == [({**server, "state": "failed"}, 1)]
    assert found["llm_probe_silence_seconds"] == [(server, 20.5)]
    assert found["llm_probe_failures"] == [(server, 2)]


@pytest.mark.parametrize(
    "states", [{}, {"llm-vllm": None}, {"llm-vllm": {"now": 1.0, "starts": "many", "kind": 'a"b\nc'}}]
)
def test_a_strange_state_breaks_nothing(states: dict[str, Any]) -> None:
    samples(str(textfile.probe_page(states, 2.0)).replace('a\\"b\\nc', "abc"))


def page_of(folder: Path, name: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    return samples((folder / f"llm-{name}.prom").read_text())


def run(folder: Path, programs: Path, state: Path) -> None:
    environment = {"PATH": str(programs), "HOME": str(folder)}
    command = [sys.executable, "-I", "-S", str(FILE), "--folder", str(folder), "--state", str(state)]
    command += ["--models", str(state.parent / "models")]
    subprocess.run(command, env=environment, check=True, timeout=60)


def test_the_program_asks_nvidia_smi_only_now_and_then(tmp_path: Path) -> None:
    programs, folder, state = tmp_path / "bin", tmp_path / "out", tmp_path / "state.json"
    programs.mkdir()
    folder.mkdir()
    state.write_text(json.dumps({"llm-vllm": {"now": 1.0, "kind": "serving", "failures": 0}}))
    (tmp_path / "models").mkdir()
    (tmp_path / "models/.bundle-state.json").write_text(json.dumps({"tiny/a": {"sha256": "aa", "stamp": [1]}}))
    asked = programs / "nvidia-smi"
    asked.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\n/bin/cat {ROOT}/tests/data/nvidia_smi/smi.xml\n")
    asked.chmod(0o755)
    run(folder, programs, state)
    run(folder, programs, state)
    assert (tmp_path / "asked").read_text().splitlines() == ["asked"]
    assert page_of(folder, "gpu")["llm_nvidia_smi_up"] == [({}, 1)]
    written = page_of(folder, "probe")
    assert abs(written["llm_textfile_written_timestamp_seconds"][0][1] - time.time()) < 60
    assert page_of(folder, "models")["llm_model_damaged_files"] == [({"model": "tiny"}, 0)]
    assert sorted(path.name for path in folder.iterdir()) == ["llm-gpu.prom", "llm-models.prom", "llm-probe.prom"]
    os.utime(folder / "llm-gpu.prom", (1, 1))
    run(folder, programs, state)
    assert len((tmp_path / "asked").read_text().splitlines()) == 2


def test_a_damaged_model_is_told_within_a_minute(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    known = tmp_path / "models/.bundle-state.json"
    for stamp, damaged in (([1], 0), (None, 1)):
        known.write_text(json.dumps({"tiny/a": {"sha256": "aa", "stamp": stamp}}))
        run(tmp_path, tmp_path / "bin", tmp_path / "state.json")
        assert page_of(tmp_path, "models")["llm_model_damaged_files"] == [({"model": "tiny"}, damaged)]
        os.utime(tmp_path / "llm-models.prom", (time.time() - 60,) * 2)


@pytest.mark.parametrize("options", [[], ["--gpus", "dcgm"], ["--folder", "/tmp", "more"], ["--folder=a", "--gpus=b"]])
def test_an_option_that_is_missing_or_unknown_is_said(options: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"usage: .* --folder FOLDER"):
        textfile.given(options)


def test_the_unit_gives_options_that_the_program_has() -> None:
    unit = (FILE.parents[1] / "templates/llm-textfile.service.j2").read_text(encoding="utf-8")
    more = yaml.safe_load((FILE.parents[1] / "vars/main.yml").read_text(encoding="utf-8"))["_monitoring_textfile_more"]
    used = re.findall(r" --(\w+) ", unit + more)
    assert sorted(used) == sorted(set(textfile.OPTIONS) - {"state"})
    assert " -I -S " in unit, "what it imports is the standard library"
    assert textfile.given(["--folder", "/a", "--gpus", "dcgm"])["gpus"] == "dcgm"
    assert " --gpus dcgm" in more


def test_a_host_without_gpus_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    run(tmp_path, tmp_path / "bin", tmp_path / "no-state.json")
    assert (tmp_path / "llm-gpu.prom").read_text().strip() == ""
    assert list(samples((tmp_path / "llm-probe.prom").read_text())) == ["llm_textfile_written_timestamp_seconds"]


def test_probes_of_several_deployments_have_their_names(tmp_path: Path) -> None:
    state = {"llm-vllm": {"now": 1.0, "kind": "serving", "image": "sha256:1", "starts": 0}}
    for name in ("llm-probe-one", "llm-probe-two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text(json.dumps(state))
    found = samples(str(textfile.probe_pages(str(tmp_path / "llm-probe" / "state.json"), 3.0)))
    assert found["llm_probe_age_seconds"] == [
        ({"container": "llm-vllm", "deployment": "one"}, 2.0),
        ({"container": "llm-vllm", "deployment": "two"}, 2.0),
    ]
    (tmp_path / "llm-probe").mkdir()
    (tmp_path / "llm-probe" / "state.json").write_text(json.dumps(state))
    alone = samples(str(textfile.probe_page(state, 3.0)))
    assert alone["llm_probe_age_seconds"] == [({"container": "llm-vllm"}, 2.0)]


def page_with(tmp_path: Path, *options: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    command = [sys.executable, str(FILE), "--folder", str(tmp_path), "--models", str(tmp_path / "none"), *options]
    subprocess.run(command, check=True, env={"PATH": str(tmp_path)}, timeout=30)
    return page_of(tmp_path, "probe")


def test_a_backup_is_as_old_as_the_newest_one(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    assert page_with(tmp_path, "--backup", str(folder))["llm_backup_written_timestamp_seconds"] == [({}, 0)]
    folder.mkdir()
    os.utime(folder, (1.6e9, 1.6e9))
    assert page_with(tmp_path, "--backup", str(folder))["llm_backup_written_timestamp_seconds"] == [({}, 1.6e9)]
    for name, at in (("metrics.tar.gz.part", 1.61e9), ("notes.txt", 1.62e9), ("etc.tar.gz", 1.65e9)):
        (folder / name).touch()
        os.utime(folder / name, (at, at))
    waits = page_with(tmp_path, "--backup", str(folder))["llm_backup_written_timestamp_seconds"]
    assert waits == [({}, 1.61e9)], "whatever others write there"
    for name, at in (("metrics.tar.gz", 1.5e9), ("metrics-tuesday.tar.gz", 1.55e9)):
        (folder / name).touch()
        os.utime(folder / name, (at, at))
    assert page_with(tmp_path, "--backup", str(folder))["llm_backup_written_timestamp_seconds"] == [({}, 1.55e9)]
    assert "llm_backup_written_timestamp_seconds" not in page_with(tmp_path)


def test_each_sender_of_a_journal_has_its_time(tmp_path: Path) -> None:
    (tmp_path / "senders.json").write_text(json.dumps({"gpu02": 1.6e9, "gpu01": 1.7e9}))
    found = page_with(tmp_path, "--journals", str(tmp_path / "senders.json"))
    assert found["llm_journal_received_timestamp_seconds"] == [
        ({"sender": "gpu01"}, 1.7e9),
        ({"sender": "gpu02"}, 1.6e9),
    ]
    assert "llm_journal_received_timestamp_seconds" not in page_with(
        tmp_path, "--journals", str(tmp_path / "none.json")
    )


def test_what_nvidias_exporter_measures_is_left_to_it() -> None:
    found = samples(str(textfile.gpu_page(RECORDED, True)))
    assert [name for name in found if name.startswith("DCGM_")] == []
    assert {"llm_nvidia_smi_up", "llm_gpus", "llm_nvidia_driver_info", "llm_gpu_throttled"} <= set(found)
