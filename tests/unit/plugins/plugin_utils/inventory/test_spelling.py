"""The variable that somebody meant."""

from __future__ import annotations

import string

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.spelling import looks_like, nearest_variable
from hypothesis import given
from hypothesis import strategies as st

from tests.support.inventories import KNOWN


@given(st.sampled_from(sorted(KNOWN)), st.data())
def test_one_wrong_letter_still_finds_the_name(name: str, data: st.DataObject) -> None:
    start = name.index("_") + 1
    position = data.draw(st.integers(start, len(name) - 1))
    letter = data.draw(st.sampled_from(string.ascii_lowercase))
    wrong = data.draw(
        st.sampled_from([name[:position] + name[position + 1 :], name[:position] + letter + name[position:]])
    )
    if wrong not in KNOWN:
        assert nearest_variable(wrong, KNOWN) == name


@given(st.text(max_size=40))
def test_any_name_is_answered(name: str) -> None:
    assert nearest_variable(name, KNOWN) in {"", *KNOWN}
    assert looks_like(name, KNOWN) in {"", *KNOWN}
