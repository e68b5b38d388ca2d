"""The filter that reads the catalogue of messages: thin."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter.message import FilterModule

message = FilterModule().filters()["message"]


def test_a_text_is_in_the_language_that_is_asked_for() -> None:
    assert message("report_total") == "all of it"
    assert message("report_total", "zh") == "总计"
    assert message("report_rank", rank=1, host="gpu01") == "rank 1 runs on gpu01"


def test_without_a_language_it_is_that_of_whoever_runs_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert message("report_total", "") == "总计"


def test_an_error_says_the_value_where_it_is_set_and_what_is_allowed() -> None:
    text = message("engine_wrong_version", "en", "docker_version: 1", "here", host="gpu01", found="2", wanted="1")
    assert text.splitlines()[0] == "gpu01 runs Docker Engine 2, and 1 is wanted."
    assert all(part in text for part in ("docker_version: 1", "here", "allowed:"))
    assert "gpu01" in message("engine_wrong_version", "zh", host="gpu01", found="2", wanted="1")


def test_a_code_that_the_catalogue_lacks_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="nosuch"):
        message("nosuch")
