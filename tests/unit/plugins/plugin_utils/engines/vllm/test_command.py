# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's command line on each host: who runs it, what it begins with, and where several hosts meet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.arguments import Option, in_file
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.command import (
    MIDDLEWARE,
    joins_hosts,
    launch,
    ranked_hosts,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import unknown_option
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import (
    release_key,
    releases,
    resolve_release,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each import check_each

FILES = Path(__file__).parents[6] / "roles/common/files"

APART = [{"host": "a", "ranks": [0, 1]}, {"host": "b", "ranks": [2, 3]}, {"host": "idle", "ranks": []}]
ALONE = [{"host": "a", "ranks": [0]}, {"host": "idle", "ranks": []}]
SERVICE = {
    "head": "a",
    "model": "/models/lab--tiny",
    "served_model_name": "tiny",
    "port": 8001,
    "master_port": 29509,
    "addresses": {"a": "10.0.0.1", "b": "10.0.0.2"},
    "ray_address": "10.0.0.1:6379",
    "config_file": "/llm/vllm.yaml",
}
SETTINGS: dict[str, Any] = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "max_model_len": 2048}
COMMON = ["vllm", "serve", "/models/lab--tiny", "--host", "0.0.0.0", "--port", "8001", "--served-model-name", "tiny"]
SIZES = ["--tensor-parallel-size", "2", "--pipeline-parallel-size", "2", "--max-model-len", "2048"]
ANSWERING = ["--middleware", "llm_api_paths.ApiPaths"]
OFFLINE = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def as_vllm_reads(config: dict[str, Any]) -> list[str]:
    """The command line that vLLM makes of the one that names a file, as of 0.11.1: the oldest release with the fewest kinds of values.

    Compared with the parsers of the releases that data/version_changes.py names, which make the same of these files.
    """
    place = config["argv"].index("--config")
    assert config["argv"][place + 1] == config["path"]
    words: list[str] = []
    for name, value in yaml.safe_load(yaml.safe_dump(config["content"], sort_keys=False)).items():
        assert value is True or type(value) in (int, float, str, list)
        values = value if isinstance(value, list) else [] if value is True else [value]
        words += ["--" + name, *map(str, values)]
    return [*config["argv"][:place], *words, *config["argv"][place + 2 :]]


def options_of(argv: list[str]) -> list[tuple[str, ...]]:
    """The options of a command line, each with its words; those of one name in their order."""
    found: list[list[str]] = []
    for word in argv:
        if word.startswith("--") or not found:
            found.append([])
        found[-1].append(word)
    return sorted(map(tuple, found), key=lambda option: option[0])


def test_one_host_runs_it_alone() -> None:
    started = launch({"max_model_len": 2048}, "0.11.0", "uni", ALONE, SERVICE)
    module = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/models/lab--tiny"]
    argv = [*module, *COMMON[3:], "--max-model-len", "2048", *ANSWERING]
    assert started == {"a": {"argv": argv, "environment": OFFLINE}}


def test_newer_releases_read_their_options_from_a_file() -> None:
    (started,) = launch({"max_model_len": 2048}, "0.20.0", "uni", ALONE, SERVICE).values()
    assert started == {
        "argv": [*COMMON, "--max-model-len", "2048", *ANSWERING],
        "environment": OFFLINE,
        "config": {
            "argv": ["vllm", "serve", "/models/lab--tiny", "--config", "/llm/vllm.yaml"],
            "path": "/llm/vllm.yaml",
            "content": {
                "host": "0.0.0.0",
                "port": 8001,
                "served-model-name": "tiny",
                "max-model-len": 2048,
                "middleware": "llm_api_paths.ApiPaths",
            },
        },
    }


READ_OTHERWISE = {
    "enable_prefix_caching": False,  # an entry that is false would be left out
    "enforce_eager": True,
    "compilation_config": {"mode": 3, "cudagraph_capture_sizes": [1, 2]},  # a mapping would be Python's text of it
    "allowed_origins": ["*"],
    "max_model_len": "4k",
    "gpu_memory_utilization": 0.875,
    "seed": "1_000",
    "revision": "2026-01-01",
    "tokenizer": "1e3",
    "load_format": "auto",
    "code_revision": "null",
    "served_model_name": "yes",
    "chat_template": "{{ a }}: b\n# c",
    "middleware": ["mine.One"],
}


@pytest.mark.parametrize("nodes", [ALONE, APART])
def test_the_file_says_what_the_command_line_says(nodes: Any) -> None:
    check_each({version: (version, nodes) for version in releases()}, says_the_same)


def says_the_same(case: tuple[str, Any]) -> None:
    version, nodes = case
    known = {
        name: value for name, value in READ_OTHERWISE.items() if unknown_option(name, resolve_release(version)) is None
    }
    executor = "mp" if nodes is APART and release_key(version) >= release_key("0.11.1") else "ray"
    for host, started in launch(known, version, executor, nodes, SERVICE).items():
        assert ("config" in started) is (release_key(version) >= release_key("0.11.1"))
        if "config" not in started:
            continue
        assert known.keys() == READ_OTHERWISE.keys()
        assert options_of(as_vllm_reads(started["config"])) == options_of(started["argv"])
        content = started["config"]["content"]
        assert content["no-enable-prefix-caching"] is True
        assert (content["max-model-len"], content["gpu-memory-utilization"], content["seed"]) == ("4k", 0.875, "1_000")
        # Given twice, it cannot stand in a mapping.
        assert ("--middleware" in started["config"]["argv"]) is (host == "a")


@given(st.text())
def test_a_value_is_read_as_it_was_written(value: str) -> None:
    content, others = in_file([Option("--x", (value,)), Option("--y", (value, "1", "1.50", "nan"))])
    read = yaml.safe_load(yaml.safe_dump(content, sort_keys=False))
    assert others == []
    assert [str(read["x"]), *map(str, read["y"])] == [value, value, "1", "1.50", "nan"]


def test_several_processes_of_one_host_need_no_meeting() -> None:
    (started,) = launch({"tensor_parallel_size": 2}, "0.20.0", "mp", APART[:1], SERVICE).values()
    assert started["argv"] == [*COMMON, "--tensor-parallel-size", "2", *ANSWERING]


def test_with_ray_only_the_head_runs_it() -> None:
    started = launch(SETTINGS, "0.20.0", "ray", APART, SERVICE)
    assert list(started) == ["a"]
    assert started["a"]["argv"] == [*COMMON, *SIZES, *ANSWERING]
    assert started["a"]["environment"] == {**OFFLINE, "RAY_ADDRESS": "10.0.0.1:6379"}


def test_without_ray_each_host_with_ranks_runs_it_and_the_head_answers() -> None:
    started = launch(SETTINGS, "0.20.0", "mp", APART, SERVICE)
    meeting = ["--master-addr", "10.0.0.1", "--master-port", "29509"]
    assert {host: command["argv"] for host, command in started.items()} == {
        "a": [*COMMON, *SIZES, "--nnodes", "2", "--node-rank", "0", *meeting, *ANSWERING],
        "b": [*COMMON, *SIZES, "--nnodes", "2", "--node-rank", "1", *meeting, "--headless"],
    }
    assert [command["environment"] for command in started.values()] == [OFFLINE, OFFLINE]


def test_what_nobody_says_has_a_default() -> None:
    """As the report of a plan shows it, before a host is known to have an address."""
    started = launch({}, "0.20.0", "mp", APART)
    assert started["a"]["argv"] == [
        *("vllm", "serve", "MODEL", "--host", "0.0.0.0", "--port", "8000", "--served-model-name", "MODEL"),
        *("--nnodes", "2", "--node-rank", "0", "--master-addr", "a", "--master-port", "29501"),
        *ANSWERING,
    ]
    assert launch({}, "0.20.0", "ray", APART)["a"]["environment"] == OFFLINE


def check_releases(check: Callable[[str], None]) -> None:
    check_each({version: version for version in releases()}, check)


def test_every_release_refuses_what_its_key_does_not_cover() -> None:
    """A middleware of one's own comes with it, each behind an option of its own: that is how every release reads them."""

    def check(version: str) -> None:
        assert unknown_option("middleware", resolve_release(version)) is None
        for said in ("mine.One", ["mine.One"]):
            argv = launch({"middleware": said}, version, "uni", ALONE, SERVICE)["a"]["argv"]
            assert argv[-4:] == ["--middleware", "mine.One", *ANSWERING]

    check_releases(check)


def test_no_release_writes_prompts_into_its_log() -> None:
    """From 0.10.1 on none does by default."""

    def check(version: str) -> None:
        argv = launch({}, version, "uni", ALONE, SERVICE)["a"]["argv"]
        quiet = "--disable-log-requests"
        assert argv.count(quiet) == (release_key(version) < release_key("0.10.1"))
        option = "disable_log_requests" if quiet in argv else "enable_log_requests"
        assert unknown_option(option, resolve_release(version)) is None

    check_releases(check)


@pytest.mark.parametrize(("said", "count"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("name", ["disable_log_requests", "disable-log-requests"])
def test_whoever_wants_prompts_in_the_log_has_to_say_so(name: str, said: bool, count: int) -> None:
    argv = launch({name: said}, "0.8.5", "uni", ALONE, SERVICE)["a"]["argv"]
    assert argv.count("--disable-log-requests") == count


def test_vllm_finds_the_middleware_by_that_name() -> None:
    module, name = MIDDLEWARE.rsplit(".", 1)
    assert f"class {name}:" in (FILES / f"{module}.py").read_text()


def test_the_entry_point_is_that_of_the_release() -> None:
    def check(version: str) -> None:
        argv = launch({}, version, "uni", ALONE, SERVICE)["a"]["argv"]
        if release_key(version) >= release_key("0.11.1"):
            assert argv[:3] == ["vllm", "serve", "/models/lab--tiny"]
        else:
            module = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
            assert argv[:5] == [*module, "--model", "/models/lab--tiny"]

    check_releases(check)


@pytest.mark.parametrize(
    ("executor", "nodes", "joins"), [("mp", APART, True), ("mp", APART[:1], False), ("ray", APART, False)]
)
def test_hosts_join_where_ranks_are_on_several_and_ray_is_not_there(executor: str, nodes: Any, joins: bool) -> None:
    assert joins_hosts(executor, nodes) is joins
    assert ranked_hosts(nodes) == [node["host"] for node in nodes if node["host"] != "idle"]
