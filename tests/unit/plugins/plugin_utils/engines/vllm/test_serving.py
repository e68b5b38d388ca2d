"""What a server is started with besides its model: options of its release, and what is refused before a host is touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import DecisionInput, Readers, decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.serving import (
    Serving,
    answers_with,
    parse_template,
)
from jinja2 import TemplateSyntaxError

from tests.support.deployments import host, refused

CONFIG = json.loads(
    (Path(__file__).resolve().parents[6] / "tests/data/models/Qwen__Qwen2-0.5B.json").read_text(encoding="utf-8")
)
# As models bring them: loops that end early, a mark of transformers, an error of its own.
TEMPLATE = """
{%- for message in messages %}
{%- if message.role == 'system' %}{% continue %}{% endif %}
{%- if message.role not in ['user', 'assistant'] %}{{ raise_exception('only users') }}{% endif %}
{%- generation %}{{ message.content | tojson }}{% endgeneration %}
{%- endfor %}
"""
ADAPTER: dict[str, Any] = {"name": "sql", "model": "org/sql"}
# What the bundle holds, by path.
CONTENT: dict[str, Any] = {
    "models/lab--tiny/config.json": CONFIG,
    "models/lab--tiny/tokenizer_config.json": {"chat_template": "{{ messages }}"},
    "models/org--sql/adapter_config.json": {"base_model_name_or_path": "lab/tiny", "r": 24},
}
OWNERS = {"lab--tiny": "lab/tiny", "org--sql": "org/sql", "org--words": "org/words"}


def records(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"kind": "model", "path": path, "model": OWNERS[path.split("/")[1]]} for path in content]


def serving(content: dict[str, Any] | None = None, **more: Any) -> Serving:
    held = CONTENT if content is None else content
    variables = host(1, **more)
    return Serving("d", variables, records(held), held.__getitem__, lambda path: Path(path).read_text(encoding="utf-8"))


def codes(**more: Any) -> list[str]:
    return [each["code"] for each in serving(**more).problems()]


# -- options ----------------------------------------------------------------------------------------------------------
def test_nothing_is_asked_for_where_nothing_is_said() -> None:
    assert serving().settings("/llm/files") == {}
    assert (serving().files(), codes(), list(serving().warnings())) == ({}, [], [])


def test_files_and_folders_become_paths_that_the_server_sees(tmp_path: Path) -> None:
    template, config = tmp_path / "mine.jinja", tmp_path / "any.json"
    template.write_text(TEMPLATE)
    config.write_text('{"temperature": 0.5}')
    asked = serving(vllm_tokenizer="org/words", vllm_chat_template=str(template), vllm_generation_config=str(config))
    assert asked.settings("/llm/files") == {
        "tokenizer": "/opt/llm/models/org--words",
        "chat_template": "/llm/files/chat_template.jinja",
        "generation_config": "/llm/files",
    }
    assert asked.files() == {"chat_template.jinja": TEMPLATE, "generation_config.json": '{"temperature": 0.5}'}
    assert list(asked.problems()) == []
    said = serving(vllm_generation_config="vllm")
    assert (said.settings("/f"), said.files()) == ({"generation_config": "vllm"}, {})


@pytest.mark.parametrize(
    ("version", "options", "rank"),
    [
        ("0.5.4", {}, 32),
        ("0.8.5.post1", {}, 32),
        ("0.20.0", {}, 32),
        ("0.20.0", {"max_lora_rank": 64, "max_loras": 4}, None),
    ],
)
def test_the_rank_of_adapters_is_the_least_that_the_release_takes(
    version: str, options: dict[str, Any], rank: int | None
) -> None:
    """24 is none of them."""
    adapters = [ADAPTER, {"name": "there", "model": "/data/there"}]
    found = serving(vllm_version=version, vllm_lora_adapters=adapters, vllm_options=options).settings("/f")
    assert found["enable_lora"] is True
    assert found["lora_modules"] == ["sql=/opt/llm/models/org--sql", "there=/data/there"]
    assert found.get("max_lora_rank") == rank


def test_a_draft_model_is_said_as_the_release_reads_it() -> None:
    draft: dict[str, Any] = {"vllm_speculative_model": "org/small", "vllm_num_speculative_tokens": 3}
    path = "/opt/llm/models/org--small"
    old = {"speculative_model": path, "num_speculative_tokens": 3}
    assert serving(vllm_version="0.8.2", **draft).settings("/f") == old
    more = {"speculative_config": {"method": "eagle", "model": "x"}}
    assert serving(vllm_version="0.8.3", vllm_options=more, **draft).settings("/f") == {
        "speculative_config": {"method": "eagle", "model": path, "num_speculative_tokens": 3}
    }
    (warning,) = serving(**draft).warnings()
    assert "draft model" in warning


@pytest.mark.parametrize(("version", "switched"), [("0.8.5.post1", True), ("0.9.0.1", False), ("0.33.0", False)])
def test_parsers(version: str, switched: bool, tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("PARSER = 1\n")
    parsers = {"vllm_tool_call_parser": "hermes", "vllm_reasoning_parser": "deepseek_r1"}
    found = serving(vllm_version=version, vllm_tool_parser_plugin=str(plugin), **parsers).settings("/f")
    expected = {
        "enable_auto_tool_choice": True,
        "tool_call_parser": "hermes",
        "tool_parser_plugin": "/f/tool_parser.py",
        "reasoning_parser": "deepseek_r1",
    }
    assert found == {**expected, **({"enable_reasoning": True} if switched else {})}


# -- what is wrong ----------------------------------------------------------------------------------------------------
def test_a_template_is_parsed_and_not_run() -> None:
    parse_template(TEMPLATE)
    parse_template("{{ ''.__class__.__mro__[1].__subclasses__() }}{% set x = 1 // 0 %}")
    for broken in ("{% for x in y %}", "{{ x ", "{% generation %}x", "{{ x | nothing }}{% endif %}"):
        with pytest.raises(TemplateSyntaxError):
            parse_template(broken)


@pytest.mark.parametrize(
    ("variable", "text", "code"),
    [
        ("vllm_chat_template", "{% for x in y %}", "chat_template_malformed"),
        ("vllm_generation_config", "{", "serving_file_malformed"),
        ("vllm_generation_config", "[1]", "serving_file_malformed"),
        ("vllm_tool_parser_plugin", "def f(:", "serving_file_malformed"),
        ("vllm_tool_parser_plugin", None, "serving_file_unreadable"),
        ("vllm_chat_template", None, "serving_file_unreadable"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_file_that_is_of_no_use_is_named(
    variable: str, text: str | None, code: str, language: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    if text is not None:
        path.write_text(text)
    variables = host(1, **{variable: str(path)})
    asked = Serving("d", variables, [], {}.__getitem__, lambda name: Path(name).read_text(encoding="utf-8"), language)
    (found,) = asked.problems()
    assert (found["code"], found["value"]) == (code, str(path))
    assert "group_vars/d.yml" in found["where"]


@pytest.mark.parametrize(
    ("trained", "more", "wrong"),
    [
        ("lab/tiny", {}, False),
        ("/mnt/models/Tiny/", {}, False),
        ("/root/.cache/models--lab--tiny", {}, False),
        ("", {}, False),
        ("lab/tiny-instruct", {}, True),
        ("/mnt/base", {"base_model": "/mnt/base"}, False),
        ("lab/tiny", {"base_model": "/mnt/base"}, True),
    ],
)
def test_an_adapter_of_another_model_is_refused(trained: str, more: dict[str, Any], wrong: bool) -> None:
    content = {**CONTENT, "models/org--sql/adapter_config.json": {"base_model_name_or_path": trained, "r": 8}}
    found = codes(content=content, vllm_lora_adapters=[{**ADAPTER, **more}])
    assert found == (["adapter_of_other_model"] if wrong else [])


def test_what_is_no_adapter_is_refused() -> None:
    content = {**CONTENT, "models/org--words/config.json": {}}
    adapters = [{"name": "x", "model": "org/words"}, {"name": "there", "model": "/data/there"}]
    assert codes(content=content, vllm_lora_adapters=adapters) == ["adapter_without_config"]


BARE = {**CONTENT, "models/lab--tiny/tokenizer_config.json": {}}


@pytest.mark.parametrize(
    ("content", "more", "lacks"),
    [
        (CONTENT, {}, False),
        (BARE, {}, True),
        ({**BARE, "models/lab--tiny/chat_template.jinja": None}, {}, False),
        ({**BARE, "models/lab--tiny/tekken.json": None}, {}, False),
        (BARE, {"vllm_chat_template": "/inventory/mine.jinja"}, False),
        (BARE, {"vllm_options": {"task": "embed"}}, False),
        (BARE, {"vllm_options": {"runner": "pooling"}}, False),
        (BARE, {"vllm_tokenizer": "org/words"}, False),  # nothing is known of it
        ({**CONTENT, "models/org--words/tokenizer_config.json": {}}, {"vllm_tokenizer": "org/words"}, True),
        ({}, {}, False),
    ],
)
def test_a_model_without_a_template_is_told_how_to_set_one(
    content: dict[str, Any], more: dict[str, Any], lacks: bool
) -> None:
    assert [("vllm_chat_template" in said) for said in serving(content, **more).warnings()] == [True] * lacks
    asked = {"vllm_tool_call_parser": "hermes", **more}
    chats = [each for each in serving(content, **asked).problems() if each["code"] == "chat_without_template"]
    assert ["vllm_chat_template" in each["allowed"] for each in chats] == [True] * lacks


# -- the decision -----------------------------------------------------------------------------------------------------
def decided(**more: Any) -> dict[str, Any]:
    def read(path: str) -> Any:
        return CONTENT[path.removeprefix("/bundle/")]

    variables = {"gpu1": host(1, vllm_max_model_len=2048, llm_bundle_dir="/bundle", **more)}
    question = DecisionInput({"d": {"hosts": ["gpu1"], "head": "gpu1"}}, variables, ["gpu1"])
    return decide(question, Readers(lambda bundle: records(CONTENT), read))


def test_they_reach_the_host_and_the_command_line(tmp_path: Path) -> None:
    template = tmp_path / "mine.jinja"
    template.write_text(TEMPLATE)
    found = decided(vllm_chat_template=str(template), vllm_lora_adapters=[ADAPTER], vllm_version="0.8.5.post1")
    assert refused(found) == ""
    section = found["hosts"]["gpu1"]["vllm"]
    argv = section["container"]["command"]
    for words in (
        ["--chat-template", "/llm/files/chat_template.jinja"],
        ["--lora-modules", "sql=/opt/llm/models/org--sql"],
        ["--max-lora-rank", "32"],
    ):
        assert argv[argv.index(words[0]) + 1] == words[1]
    assert section["files"] == [
        {"path": "/opt/llm/scripts/files/chat_template.jinja", "content": TEMPLATE},
        {"path": "/opt/llm/scripts/files/generation_config.json", "content": ""},
        {"path": "/opt/llm/scripts/files/tool_parser.py", "content": ""},
    ]
    template.write_text("{{ messages }}")
    again = decided(vllm_chat_template=str(template), vllm_lora_adapters=[ADAPTER], vllm_version="0.8.5.post1")
    assert again["hosts"]["gpu1"]["vllm"]["files"] != section["files"]


def test_it_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    found = decided(vllm_chat_template=str(tmp_path / "none"), vllm_lora_adapters=[{"name": "x", "model": "lab/tiny"}])
    assert found["plans"] == found["hosts"] == {}
    for part in ("none", "adapter_config.json", "group_vars/d.yml"):
        assert part in refused(found)


def test_an_option_that_the_release_lacks_is_refused() -> None:
    found = decided(vllm_tool_call_parser="hermes", vllm_version="0.5.4")
    assert "enable_auto_tool_choice" in refused(found)


# -- what a server shows that it works with ---------------------------------------------------------------------------
CLASSIFIER = {"architectures": ["Qwen3ForSequenceClassification"]}


@pytest.mark.parametrize(
    ("options", "config", "kind"),
    [
        ({}, {}, "token"),
        ({"task": "generate"}, CLASSIFIER, "token"),
        ({"task": "embedding"}, {}, "embedding"),
        ({"task": "embed"}, {}, "embedding"),
        ({"task": "score"}, {}, "score"),
        ({"task": "classify"}, {"id2label": {"0": "a", "1": "b"}}, "class"),
        ({"task": "reward"}, {}, "pooled"),
        ({"runner": "pooling"}, {"architectures": ["BertModel"]}, "embedding"),
        ({"runner": "pooling"}, CLASSIFIER, "score"),
        ({"runner": "pooling"}, {**CLASSIFIER, "num_labels": 3}, "class"),
        ({"runner": "pooling"}, {"architectures": ["Qwen2ForRewardModel"]}, "pooled"),
        ({"runner": "pooling", "convert": "embed"}, CLASSIFIER, "embedding"),
        ({"runner": "pooling", "convert": "reward"}, {}, "pooled"),
        # A reranker that is a language model, as docs/guides/recipes.md has it
        (
            {"runner": "pooling", "hf_overrides": {**CLASSIFIER, "classifier_from_token": ["no", "yes"]}},
            {"architectures": ["Qwen3ForCausalLM"], "id2label": {"0": "a", "1": "b"}},
            "score",
        ),
    ],
)
def test_what_a_server_answers_with(options: dict[str, Any], config: dict[str, Any], kind: str) -> None:
    assert answers_with(options, config) == kind
