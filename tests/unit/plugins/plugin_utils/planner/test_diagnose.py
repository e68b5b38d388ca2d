# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log says: known failures, the order of causes, unknown errors, and what stands around a message."""

from __future__ import annotations

import json
import os
import re
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import TEXTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import (
    CONSEQUENCE,
    FAILURES,
    FAMILIES,
    NOTE,
    ROOT,
    SYMPTOM,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import (
    UNKNOWN,
    diagnose_log,
    explain_log,
    saved_log,
    signature,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.log_text import HEAD_BYTES, TAIL_BYTES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.each import check_each

ROOT_DIR = Path(__file__).resolve().parents[5]
DATA = ROOT_DIR / "tests" / "data" / "planner"
# What engines, drivers and libraries print: from reports, else their own texts with values filled in.
EXCERPTS: dict[str, str] = json.loads((DATA / "failure_excerpts.json").read_text(encoding="utf-8"))
# Reports of people. The first 31 were written down before the entries that explain them, and the table of then explained 2. The last six were
# read when the entries were there: they explained 3, told 2 only roughly,
# and called 1 unknown.
REPORTS: list[dict[str, str]] = json.loads((DATA / "log_reports.json").read_text(encoding="utf-8"))
# 33 more, written down before the 31 entries that were added for their kinds: 17 of them were explained then.
LATER_REPORTS: list[dict[str, str]] = json.loads((DATA / "later_log_reports.json").read_text(encoding="utf-8"))
# Logs of real starts, and the first lines of one with the names of most options (vllm-project/vllm issues 8984 and 16456).
STARTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(DATA.parent.glob("vllm/starts/*.log"))}
OPTIONS = """INFO 04-10 22:30:34 [api_server.py:1034] vLLM API server version 0.8.3
INFO 04-10 22:30:34 [api_server.py:1035] args: Namespace(host=None, port=8080, uvicorn_log_level='info', api_key=None, lora_modules=None, \
chat_template=None, enable_auto_tool_choice=False, tool_call_parser=None, task='auto', trust_remote_code=True, load_format='auto')
INFO 10-01 10:44:26 llm_engine.py:213] Initializing an LLM engine (v0.6.0) with config: model='/data/Llama-2-7b-chat-hf', \
speculative_config=None, trust_remote_code=True, dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=2, \
disable_custom_all_reduce=False, quantization=None, enforce_eager=True, kv_cache_dtype=auto, quantization_param_path=None, \
decoding_config=DecodingConfig(guided_decoding_backend='outlines'), enable_prefix_caching=False)
INFO 10-01 10:44:27 cuda.py:241] Cannot use FlashAttention-2 backend for Volta and Turing GPUs.
WARNING 10-01 10:44:28 [gpu_model_runner.py:1] CUDAGraphMode.FULL is not supported with cascade attention currently. Disabling cascade attention.
WARNING 10-01 10:44:28 [utils.py:1] Found ulimit of 1024 and failed to automatically increase with error x. This can cause fd limit errors like \
`OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n
"""
LAYERS = {"model", "memory", "kernel", "network", "ray", "host", "driver", "client"}
CODES = list(dict.fromkeys([*(failure.code for failure in FAILURES), *(family.code for family in FAMILIES), UNKNOWN]))


def codes(log: str) -> list[str]:
    return [finding["code"] for finding in diagnose_log(log)]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_entry_explains_its_excerpt(lang: str) -> None:
    assert set(EXCERPTS) == set(CODES)

    def check(code: str) -> None:
        found = {finding["code"]: finding for finding in diagnose_log(f"INFO all is well\n{EXCERPTS[code]}", lang)}
        assert code in found
        assert "?" not in found[code]["cause"]
        assert found[code]["evidence"] in EXCERPTS[code]

    check_each({code: code for code in EXCERPTS}, check)


def test_every_report_is_explained() -> None:
    assert len(REPORTS) >= 30

    def check(report: dict[str, str]) -> None:
        found = [finding for finding in diagnose_log(report["log"]) if finding["kind"] in (ROOT, SYMPTOM)]
        assert any(re.search(report["finds"], f"{each['cause']} {each['remedy']}", re.IGNORECASE) for each in found)

    check_each({report["id"]: report for report in [*REPORTS, *LATER_REPORTS]}, check)


def test_a_healthy_start_shows_nothing() -> None:
    def check(log: str) -> None:
        assert [(each["code"], each["evidence"]) for each in diagnose_log(log) if each["kind"] != NOTE] == []

    check_each({**STARTS, "options": OPTIONS, "nothing": ""}, check)


def test_the_table_is_whole() -> None:
    """Codes once, known layers and kinds, a source, texts in both languages that use what signatures catch, a variable in each remedy."""
    variables: set[str] = set()
    for path in ROOT_DIR.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            variables.update(entry.get("options") or {})
    assert len(FAILURES) >= 120
    assert len({failure.code for failure in FAILURES}) == len(FAILURES)
    for failure in FAILURES:
        assert failure.layer in LAYERS, failure
        assert failure.kind in (ROOT, SYMPTOM, CONSEQUENCE, NOTE), failure
        assert re.fullmatch(r"any|[\w.]+-[\w.]*", failure.releases), failure
        assert re.search(r"[#:/]", failure.source), failure
    caught = {
        failure.code: {name for each in failure.signatures for name in re.compile(each).groupindex}
        for failure in FAILURES
    }
    for code in CODES:
        for lang in ("en", "zh"):
            for text in (f"failure_{code}", f"failure_{code}_remedy"):
                fields = {field for _, field, _, _ in string.Formatter().parse(TEXTS[lang][text]) if field}
                assert fields <= caught.get(code, {"what"}), (code, lang)
            named = set(re.findall(r"[a-z]+(?:_[a-z0-9]+)+", TEXTS[lang][f"failure_{code}_remedy"]))
            assert named & variables, (code, lang)


def test_signatures_begin_with_text_and_are_bounded() -> None:
    """So a log is read in a time that grows with its length, whatever it holds."""
    for failure in FAILURES:
        for text in failure.signatures:
            assert len(signature(text).key) >= 4, text
            assert not re.search(r"(?<!\\)\.[*+]|\{\d+,\}", text), text
            assert not re.search(r"[*+}]\)[*+{]", text), text  # a repetition of repetitions


@pytest.mark.slow
def test_a_log_is_read_in_linear_time() -> None:
    """Texts that begin like signatures and never end as they do, four times as many in at most eight times as long."""
    for key in {signature(text).key for failure in FAILURES for text in failure.signatures}:
        took = []
        for size in (2**13, 2**15):
            log = (key + " 1") * (size // len(key))
            # Of this process alone: whoever else computes makes nothing slower.
            start = time.process_time()
            diagnose_log(log)
            took.append(time.process_time() - start)
        assert took[1] < max(8 * took[0], 0.3), key


@pytest.mark.slow
@settings(max_examples=300, deadline=2000)
@given(
    st.one_of(st.text(max_size=2000), st.lists(st.sampled_from(sorted(EXCERPTS.values())), max_size=20).map("\n".join))
)
def test_any_text_is_read(text: str) -> None:
    for finding in diagnose_log(text, "zh"):
        assert finding["cause"]
        assert finding["line"] >= 1


AROUND: dict[str, Callable[[str], str]] = {
    "colours": lambda line: f"\x1b[31m{line}\x1b[0m",
    "docker compose": lambda line: f"llm-vllm-1  | {line}",
    "docker's own file": lambda line: json.dumps(
        {"log": line + "\n", "stream": "stderr", "time": "2025-03-01T07:34:52Z"}
    ),
    "docker logs --timestamps": lambda line: f"2024-09-22T22:40:15.504307332Z {line}",
    "Kubernetes": lambda line: f"2024-09-22T22:40:15.504307332Z stderr F {line}",
    "journald": lambda line: f"Aug 19 18:34:27 node1 vllm[8727]: {line}",
    "journald with ISO times": lambda line: f"2025-08-19T18:34:27+0200 node1 docker[8727]: {line}",
    "Ray": lambda line: f"(RayWorkerWrapper pid=1978, ip=10.41.0.8) {line}",
    "vLLM": lambda line: f"(Worker_TP2 pid=142) ERROR 12-12 21:39:58 [multiproc_executor.py:750] {line}",
    "an older vLLM": lambda line: (
        f"(VllmWorkerProcess pid=307) ERROR 01-19 03:55:24 multiproc_worker_utils.py:233] {line}"
    ),
    "torch": lambda line: f"[rank0]: {line}",
    "c10d": lambda line: f"[rank3]:[E227 16:30:43.526290891 ProcessGroupNCCL.cpp:1785] [c10d] {line}",
    "SGLang": lambda line: f"[2025-04-01 09:58:02 TP0] {line}",
    "Ray's own log": lambda line: f"[2024-05-26 11:26:16,798 E 177479 178526] {line}",
    "all at once": lambda line: (
        f"Aug 19 18:34:27 node1 docker[8727]: (RayWorkerWrapper pid=19, ip=10.0.0.8) \x1b[36m(Worker_TP1 pid=2)\x1b[0m "
        f"ERROR 12-12 21:39:58 [core.py:750] {line}"
    ),
}
SPANNING = (
    "ValueError: FP8 KV cache is not supported by the\n  Triton attention backend on\nQuadro RTX 8000 (compute capability 7.5)",
    "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.0 as it may crash.",
    "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.43.0\nThis process on node 10.0.0.196 was started with:\n    Ray: 2.44.1",
)


def test_a_message_is_found_behind_what_stands_before_its_lines() -> None:
    def check(around: Callable[[str], str]) -> None:
        for log in SPANNING:
            wrapped = "\n".join(around(line) for line in log.split("\n"))
            assert codes(wrapped) == codes(log)
            assert codes(log)[0] in ("fp8_cache_unsupported", "numpy_2", "ray_version_mismatch")

    check_each(AROUND, check)


def test_a_message_is_found_where_a_terminal_broke_it() -> None:
    line = EXCERPTS["max_model_len_exceeds_kv_cache"].replace("\n", " ")
    log = "INFO starting\n" + "\n".join(line[at : at + 61] for at in range(0, len(line), 61))
    log += "\n" + "\n".join("x" * 61 for _ in range(2)) + "\n"
    assert codes(log)[0] == "max_model_len_exceeds_kv_cache"


def test_messages_of_workers_that_write_at_once_are_told_apart() -> None:
    first, second = SPANNING[1].split("\n")
    log = "\n".join(f"(Worker_TP{rank} pid={rank}) {line}" for line in (first, second) for rank in (0, 1))
    assert codes(log) == ["numpy_2"]


def test_roots_come_before_what_follows_from_them() -> None:
    order = ("engine_dead", "engine_failed_to_start", "worker_died", "nccl", "no_kernel_image", "gpu_too_old_for_torch")
    log = "\n".join(EXCERPTS[code] for code in order)
    assert codes(log)[:2] == ["gpu_too_old_for_torch", "no_kernel_image"]
    kinds = [finding["kind"] for finding in diagnose_log(log)]
    assert kinds == sorted(kinds, key=(ROOT, SYMPTOM, CONSEQUENCE, NOTE).index)


def test_heads_are_told_without_the_size() -> None:
    """SGLang and some forks print less."""
    for line in (
        "ValueError: attention heads (32) must be divisible by tensor parallel size",
        "    assert self.total_num_heads % tp_size == 0",
    ):
        assert codes(line) == ["heads_not_divisible"]


@pytest.mark.parametrize(("lang", "unknown"), [("en", "unknown: "), ("zh", "未知：")])
def test_an_error_that_nothing_knows_is_quoted_as_unknown(lang: str, unknown: str) -> None:
    log = """(EngineCore pid=9) Traceback (most recent call last):
(EngineCore pid=9)   File "/x/vllm/v1/engine/core.py", line 1, in run
(EngineCore pid=9) KeyError: 'the key of the day'
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
    root, follows = diagnose_log(log, lang)
    assert root["code"] == UNKNOWN
    assert root["line"] == 3
    assert unknown in root["cause"]
    assert "the key of the day" in root["cause"]
    assert follows["code"] == "engine_failed_to_start"
    assert unknown in explain_log(log, lang)


def test_a_long_unknown_error_is_shortened_and_shows_no_token() -> None:
    (finding,) = diagnose_log("KeyError: hf_" + "a" * 30 + " " + "word " * 1000)
    assert len(finding["cause"]) < 400
    assert "hf_a" not in finding["cause"] + finding["evidence"]


def test_a_client_s_error_does_not_hide_why_the_engine_ended() -> None:
    log = f"{EXCERPTS['api_key']}\nKeyError: 'the key of the day'"
    assert codes(log) == [UNKNOWN, "api_key"]


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="lang"):
        diagnose_log("", "fr")


@pytest.mark.parametrize(("lang", "nearest"), [("en", "the nearest other plan: "), ("zh", "最接近的其他计划：")])
def test_a_start_that_failed_gets_cause_evidence_remedy_and_the_nearest_plan(
    lang: str, nearest: str, model: Callable[[str], dict[str, Any]], v100: dict[str, Any]
) -> None:
    asked = {"vllm_version": "0.8.5.post1"}
    plan = plan_deployment(model("Qwen__Qwen2.5-7B-Instruct"), [{"host": "a", "gpus": [v100] * 2}], asked)
    log = f"INFO starting\n{EXCERPTS['no_cache_blocks']}\n"
    (finding,) = diagnose_log(log, lang)
    said = explain_log(log, lang, plan)
    other = next(each for each in plan["alternatives"] if each["ok"])
    for part in (*(finding[key] for key in ("cause", "evidence", "remedy")), nearest + other["change"]):
        assert part in said
    assert nearest not in explain_log(log, lang)


def test_a_saved_log_is_read_whatever_it_is(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes("ä is no UTF-8 in this file\n".encode("latin-1") + EXCERPTS["numpy_2"].encode())
    assert "NumPy 2" in explain_log(saved_log(str(log)))
    log.write_text(EXCERPTS["numpy_2"], encoding="utf-16")
    assert "NumPy 2" in explain_log(saved_log(str(log)), "zh")


@pytest.mark.slow
def test_of_a_huge_log_the_beginning_and_the_end_are_read(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    filler = b"INFO nothing to see here\n"
    many = filler * (2 * (HEAD_BYTES + TAIL_BYTES) // len(filler))
    for data in (many + EXCERPTS["numpy_2"].encode(), EXCERPTS["numpy_2"].encode() + b"\n" + many):
        log.write_bytes(data)
        start = time.perf_counter()
        assert "NumPy 2" in explain_log(saved_log(str(log)))
        assert time.perf_counter() - start < 20


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, lang: str) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "vllm.log.gz").write_bytes(b"\x1f\x8b\x08" + b"a" * 100)
    (tmp_path / "empty.log").write_text("\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")

    def check(name: str) -> None:
        with pytest.raises(InputError, match="llm_log") as refused:
            saved_log(str(tmp_path / name))
        assert refused.value.why.say(lang)

    check_each({name: name for name in ("missing.log", ".", "weights.bin", "vllm.log.gz", "empty.log", "pipe")}, check)
