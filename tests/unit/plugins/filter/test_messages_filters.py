"""The filters that read the catalogue of messages: thin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter.refusal import refusal
from ansible_collections.baremetal.llm.plugins.filter.told import told


def test_a_text_is_told_in_the_language_that_is_asked_for() -> None:
    assert told("report_total") == "all of it"
    assert told("report_total", "zh") == "总计"
    assert told("report_rank", rank=1, host="gpu01") == "rank 1 runs on gpu01"


@pytest.mark.parametrize("asked", [told, refusal])
def test_a_code_that_the_catalogue_lacks_is_an_error(asked: Callable[[str], str]) -> None:
    with pytest.raises(AnsibleFilterError, match="nosuch"):
        asked("nosuch")
