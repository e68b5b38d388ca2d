"""How far a start is: logs of real starts, line by line, and lines in the form of older releases."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.start_phases import PHASES
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import start_progress as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.start_progress import Start
from hypothesis import given
from hypothesis import strategies as st

start_progress = functools.partial(core.start_progress, reading_seconds=None, phases=PHASES)
NAMES = tuple(name for name, _pattern in PHASES)

RECORDED = sorted((Path(__file__).resolve().parents[4] / "data/vllm/starts").glob("*.log"))
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in RECORDED}

H100 = "0.25.1-h100"

# Lines in the form of three times, put together from what people pasted into issues, each with what it shows.
V0_3_0 = """
INFO 11-18 05:15:34 api_server.py:227] args: Namespace(host=None, port=8000, model='m')
server
INFO 11-18 05:15:34 llm_engine.py:72] Initializing an LLM engine with config: model='m', tensor_parallel_size=2, seed=0)
weights
INFO 11-18 05:28:27 llm_engine.py:207] # GPU blocks: 2593, # CPU blocks: 1638
cache
INFO 11-18 05:28:28 model_runner.py:501] Capturing the model for CUDA graphs. This may lead to unexpected consequences if the model is not static.
graphs
INFO 11-18 05:28:40 model_runner.py:547] Graph capturing finished in 12 secs.
graphs
INFO:     Started server process [2438]
api
"""
V0_7_3 = """
INFO 08-06 01:39:10 api_server.py:912] vLLM API server version 0.7.3
server
INFO 08-06 01:39:17 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='m'
engine
INFO 08-06 01:39:18 cuda.py:229] Using Flash Attention backend.
engine
INFO 08-06 01:39:18 model_runner.py:1110] Starting to load model /models/m...
weights
Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]
weights 0/2
Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.37s/it]
weights 1/2 1
INFO 08-06 01:39:21 model_runner.py:1115] Loading model weights took 7.1694 GB
memory
INFO 08-06 01:39:22 worker.py:267] Memory profiling takes 0.75 seconds
memory
INFO 08-06 01:39:23 executor_base.py:111] # cuda blocks: 13618, # CPU blocks: 2048
cache
INFO 08-06 01:39:25 model_runner.py:1434] Capturing cudagraphs for decoding. This may lead to unexpected consequences
graphs
Capturing CUDA graph shapes:  20%|██        | 7/35 [00:06<00:27,  1.03it/s]
graphs 7/35 27
INFO 08-06 01:39:59 llm_engine.py:436] init engine (profile, create kv cache, warmup model) took 38.1 seconds
api
"""
V0_15_0 = """
(APIServer pid=1) INFO 01-23 15:48:01 [utils.py:253] non-default args: {'model': 'm'}
server
(EngineCore_DP0 pid=164) INFO 01-23 15:48:09 [core.py:96] Initializing a V1 LLM engine (v0.15.0) with config: model='m'
engine
(Worker_TP0 pid=170) INFO 01-23 15:48:20 [gpu_model_runner.py:3808] Starting to load model m...
weights
Loading pt checkpoint shards:  33% Completed | 11/33 [01:04:02<2:08:04, 349.2s/it]
weights 11/33 7684
(Worker_TP0 pid=170) INFO 01-23 15:49:02 [gpu_model_runner.py:3905] Model loading took 1.88 GiB memory and 22.154321 seconds
memory
(Worker_TP1 pid=171) INFO 01-23 15:48:20 [gpu_model_runner.py:3808] Starting to load model m...
memory
(Worker_TP0 pid=170) INFO 01-23 15:49:20 [backends.py:812] Dynamo bytecode transform time: 7.20 s
compile
(EngineCore_DP0 pid=164) INFO 01-23 15:50:02 [kv_cache_utils.py:1305] GPU KV cache size: 100,752 tokens
cache
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67 [00:12<00:00,  5.43it/s]
graphs 67/67 0
Capturing CUDA graphs (decode, FULL):   3%|▎         | 1/35 [00:00<00:09,  3.61it/s]
graphs 1/35 9
(APIServer pid=1) INFO:     Started server process [1]
api
"""
WAITING = """
waiting for GPUs of the Ray cluster at 192.0.2.1:6379: 1 of 2 there, 1 free
gpus 1/2
(APIServer pid=1) INFO 01-23 15:48:01 [utils.py:253] non-default args: {'model': 'm'}
server
(APIServer pid=1) INFO:     Started server process [1]
api
3 starts in a row ended within 600 s: the next one is in 10 s
pause
(APIServer pid=1) INFO 01-23 15:58:01 [utils.py:253] non-default args: {'model': 'm'}
server
"""


def shown(start: Start) -> str:
    count = "" if start.total is None else f" {start.done}/{start.total}"
    return start.phase + count + ("" if start.seconds_left is None else f" {start.seconds_left:.0f}")


@pytest.mark.parametrize(
    "written", [V0_3_0, V0_7_3, V0_15_0, WAITING], ids=["as 0.3.0", "as 0.7.3", "as 0.15.0", "waiting"]
)
def test_each_line_of_a_release_is_understood(written: str) -> None:
    lines = written.strip().splitlines()
    log = ""
    for line, expected in zip(lines[::2], lines[1::2], strict=True):
        log += line + "\n"
        assert shown(start_progress(log)) == expected, line


@pytest.mark.parametrize("name", TEXTS)
def test_a_real_start_goes_forward_through_its_parts(name: str) -> None:
    lines = TEXTS[name].splitlines()
    seen = [start_progress("\n".join(lines[:count]), reading_seconds=30.0) for count in range(len(lines) + 1)]
    phases = ["container", "server", "engine", "weights", "compile", "cache", "api"]
    if name == H100:
        phases[4:6] = ["memory", "compile", "cache", "graphs"]
    assert list(dict.fromkeys(start.phase for start in seen)) == phases
    files = 8 if name == H100 else 1
    assert Start("weights", files, files, 0) in seen


def test_a_real_start_tells_how_long_the_weights_still_take() -> None:
    """They took 10.2 s, from a disk that was measured before: 1,460 MiB/s for 14.2 GiB."""
    lines = TEXTS[H100].splitlines()
    seen = [
        start_progress("\n".join(lines[:count]), reading_seconds=14.2 * 1024 / 1460) for count in range(len(lines) + 1)
    ]
    left = {
        start.done: round(start.seconds_left or 0) for start in seen if start.phase == "weights" and start.total == 8
    }
    assert left == {0: 10, 1: 13, 2: 9, 3: 7, 4: 5, 5: 4, 6: 2, 7: 1, 8: 0}


def test_logs_of_real_starts_are_there() -> None:
    assert sorted(TEXTS) == [H100, "0.32.0-cpu-mp", "0.32.0-cpu-ray"]


LINES = st.one_of(
    st.sampled_from([line for text in (*TEXTS.values(), V0_3_0, V0_7_3, V0_15_0) for line in text.splitlines()]),
    st.text(max_size=80),
    st.builds(
        "Loading safetensors checkpoint shards: {}% Completed | {}/{} [{}<{}, 1it/s]".format,
        *[st.integers(-9, 10**9) for _number in range(3)],
        *[st.text("0123456789:?-", max_size=12) for _number in range(2)],
    ),
)


@given(st.lists(LINES, max_size=30), st.one_of(st.none(), st.floats(allow_nan=False)), st.sampled_from("\r\n"))
def test_a_start_never_goes_back_whatever_the_log_says(lines: list[str], reading: float | None, end: str) -> None:
    def is_beginning(line: str) -> bool:
        return any(
            sign in line for sign in ("args: ", "vLLM API server version", "starts in a row", "waiting for GPUs")
        )

    begun = [line for line in lines if not is_beginning(line)]
    starts = [start_progress(end.join(begun[:count]), reading_seconds=reading) for count in range(len(begun) + 1)]
    for before, after in itertools.pairwise(starts):
        assert ("container", *NAMES).index(before.phase) <= ("container", *NAMES).index(after.phase)
        if before.phase == after.phase and before.total == after.total:
            assert (before.done or 0) <= (after.done or 0)
    for start in starts:
        assert start.seconds_left is None or start.seconds_left >= 0
        assert start.total is None or 0 <= (start.done or 0) <= start.total


@given(st.one_of(st.none(), st.integers(), st.binary(), st.text()))
def test_odd_input_is_no_start(text: object) -> None:
    assert start_progress(text) == Start()


def test_until_the_log_counts_the_disk_says_how_long_it_takes() -> None:
    assert start_progress("Starting to load model m...", reading_seconds=40.0) == Start("weights", None, None, 40.0)
    bar = "Loading safetensors checkpoint shards:   {}% Completed | {}/4 [00:00<?, ?it/s]"
    assert start_progress(bar.format(0, 0), reading_seconds=40.0) == Start("weights", 0, 4, 40.0)
    assert start_progress(bar.format(75, 3), reading_seconds=40.0) == Start("weights", 3, 4, 10.0)
    assert start_progress("Initializing a V1 LLM engine", reading_seconds=40.0).seconds_left is None


def test_parts_have_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(PHASES)
