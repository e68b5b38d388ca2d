"""What is wrong with a bundle, in words."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._coded import coded
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.faults import describe_faults, fault_names


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_faults_in_words(lang: str) -> None:
    faults = {"missing": ["a"], "link": ["b"], "size": ["c"], "corrupt": ["d"], "swapped": ["e"], "extra": ["f"]}
    text = describe_faults("/b", faults, lang)
    assert [line.strip() for line in text.splitlines() if line.startswith("  ")] == list("abcdef")
    assert len(text.splitlines()) == 14


def test_extra_files_alone_are_no_fault() -> None:
    assert describe_faults("/b", {"extra": ["notes.txt"]}) == ""


def test_a_file_is_named_with_what_is_wrong_with_it() -> None:
    faults = {"missing": ["a"], "size": [coded("fault_size_of", path="b", found=1, wanted=2)]}
    assert fault_names(faults) == {"missing": ["a"], "size": ["b (1 instead of 2 bytes)"]}
    assert fault_names(faults, "zh")["size"] == ["b（1 字节，应为 2 字节）"]
