"""Which engine is recommended for which GPU, what each row of the table says, and that nothing is said without a source."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import recommend as core
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import (
    LOSSES,
    engines,
    facts,
    loss_of,
    runs,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.cards import read_fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.engines import engine_lines

from tests.support.each import check_each


def hosts(fleet: str) -> list[core.Host]:
    return [(f"gpu{number}", gpus) for number, gpus in enumerate(read_fleet(fleet), start=1)]


def table(model: str, fleet: str, context: int = 0) -> dict[tuple[str, str], core.Choice]:
    found = core.recommend(core.formats_of(model), hosts(fleet), context)
    return {(choice.engine, choice.form): choice for choice in found}


QWEN = "Qwen/Qwen3-32B"
# Fleet, and verdicts of engine and format. What no engine has code for is never said to fit.
CASES: dict[str, dict[tuple[str, str], str]] = {
    "1 x 1 P40": {
        ("llama_cpp", "Q4_K_M"): core.FITS,
        ("llama_cpp", "Q8_0"): core.TOO_LARGE,
        ("vllm", "gptq"): core.NO,
        ("lmdeploy", "awq"): core.NO,
        ("sglang", "awq"): core.NO,
        ("ollama", "Q4_K_M"): core.ESTIMATED,
        ("ollama", "Q8_0"): core.TOO_LARGE,
    },
    "1 x 2 Tesla V100-PCIE-16GB": {
        ("vllm", "gptq"): core.FITS,
        ("vllm", "awq"): core.NO,
        ("vllm", "16-bit"): core.TOO_LARGE,
        ("lmdeploy", "awq"): core.ESTIMATED,
        ("lmdeploy", "fp8"): core.TOO_LARGE,
        ("llama_cpp", "Q4_K_M"): core.FITS,
        ("sglang", "gptq"): core.NO,
    },
    "1 x 1 Tesla T4": {
        ("llama_cpp", "Q4_K_M"): core.TOO_LARGE,
        ("vllm", "awq"): core.TOO_LARGE,
        ("lmdeploy", "awq"): core.TOO_LARGE,
        ("sglang", "awq"): core.NO,
        ("ollama", "Q4_K_M"): core.TOO_LARGE,
    },
    "1 x 4 RTX 2080 Ti": {
        ("vllm", "awq"): core.FITS,
        ("llama_cpp", "Q4_K_M"): core.FITS,
        ("lmdeploy", "gptq"): core.ESTIMATED,
        ("sglang", "16-bit"): core.NO,
    },
    "1 x 1 A100 80GB": {
        ("sglang", "16-bit"): core.ESTIMATED,
        ("sglang", "awq"): core.ESTIMATED,
        ("sglang", "fp8"): core.ESTIMATED,
    },
}


def test_each_engine_says_whether_it_serves_old_gpus() -> None:
    def check(case: tuple[str, dict[tuple[str, str], str]]) -> None:
        fleet, expected = case
        found = table(QWEN, fleet)
        assert {key: found[key].verdict for key in expected} == expected

    check_each({fleet: (fleet, expected) for fleet, expected in CASES.items()}, check)


def test_what_fits_comes_first_and_what_does_not_says_why() -> None:
    found = core.recommend(core.formats_of(QWEN), hosts("1 x 2 Tesla V100-PCIE-16GB"))
    ranks = [core.VERDICTS.index(choice.verdict) for choice in found]
    assert ranks == sorted(ranks)
    for choice in found:
        serves = choice.verdict in (core.FITS, core.NARROW, core.ESTIMATED)
        assert serves == bool(choice.context) == bool(choice.requests) == bool(choice.hosts)
        assert serves or choice.why is not None
        if serves:
            assert choice.context >= core.CONTEXT


@pytest.mark.slow
def test_a_longer_context_leaves_fewer_requests() -> None:
    short, long = (table(QWEN, "1 x 4 Tesla V100-PCIE-16GB", context) for context in (4096, 32768))
    for key in (("llama_cpp", "Q4_K_M"), ("lmdeploy", "awq"), ("vllm", "gptq")):
        assert short[key].requests > long[key].requests > 0, key


@pytest.mark.slow
def test_several_hosts_are_named_with_what_that_means() -> None:
    found = table(QWEN, "2 x 2 Tesla V100-PCIE-16GB")
    beyond = found["llama_cpp", "Q8_0"]
    assert (found["llama_cpp", "Q4_K_M"].hosts, beyond.hosts, beyond.verdict) == (1, 0, core.NOT_PLANNED)
    assert beyond.why is not None
    assert (beyond.why.code, beyond.why.values["hosts"]) == ("engine_rpc", 2), "the collection does not set it up"
    assert found["ollama", "Q8_0"].verdict == core.TOO_LARGE


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "openai/gpt-oss-20b"])
def test_ollama_needs_at_least_what_llama_cpp_needs(model: str) -> None:
    found = table(model, "1 x 2 P40")
    for form in core.GGUF:
        ours, same = found["ollama", form], found["llama_cpp", form]
        if same.verdict == core.FITS:
            assert (ours.verdict, ours.context, ours.requests) == (core.ESTIMATED, same.context, same.requests)
            assert ours.why is not None
            assert ours.why.code == "engine_ollama"
        else:
            assert ours.why is not None
            assert same.why is not None
            assert (ours.verdict, ours.why.say()) == (same.verdict, same.why.say())


def test_of_some_architectures_ollama_takes_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "ollama_facts", lambda: {"alone": {"names": ["qwen3"]}})
    found = table("Qwen/Qwen3-8B", "1 x 2 P40")
    assert (found["ollama", "Q8_0"].requests, found["llama_cpp", "Q8_0"].requests > 1) == (1, True)


def test_formats_that_nobody_published_are_said_to_be_made() -> None:
    found = table(QWEN, "1 x 2 Tesla V100-PCIE-16GB")["vllm", "gptq"]
    assert "gptq" not in core.formats_of(QWEN)
    assert found.why is not None
    assert found.why.code == "engine_made"


def test_nothing_is_recommended_without_gpus_or_formats() -> None:
    assert core.recommend({}, hosts("1 x 1 P40")) == []
    assert core.recommend(core.formats_of(QWEN), [("gpu1", [])]) == []
    with pytest.raises(InputError):
        core.recommend(core.formats_of(QWEN), [("gpu1", [{"name": "?"}])])


def test_every_fact_has_a_source_and_every_engine_a_row() -> None:
    names = {engine.name for engine in engines()}
    assert {row["engine"] for row in facts()["runs"]} == names - {engine.name for engine in engines() if engine.inside}
    assert all(row["source"] for row in [*facts()["runs"], *facts()["engines"], facts()["losses"]])
    assert [loss_of(form) for form in ("16-bit", "Q8_0", "awq", "fp8")] == list(LOSSES)
    for engine in engines():
        assert not any(runs(engine.name, form, (3, 7)) for form in ("gguf", "16-bit", "awq"))
    assert runs("lmdeploy", "awq", (7, 0))
    assert not runs("lmdeploy", "awq", (12, 0))
    assert runs("llama_cpp", "gguf", (6, 1))
    assert not runs("sglang", "awq", (7, 5))


@pytest.mark.slow
def test_the_table_is_said_in_both_languages() -> None:
    for language, head, note in (("en", "engine", "side by side"), ("zh", "引擎", "并列测量")):
        lines = engine_lines(QWEN, hosts("1 x 1 P40 + 1 x 2 Tesla V100-PCIE-16GB"), language)
        assert sum(line.startswith(head) for line in lines) == 2
        assert any(note in line for line in lines)
        assert all(len(line) < 200 for line in lines)
        assert any(line.startswith("SGLang") and "16-bit, " in line for line in lines)
    assert engine_lines("nobody/nothing", hosts("1 x 1 P40"), "en") == []
