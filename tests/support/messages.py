"""Errors that hold a code and values, compared by the text that people read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import reason


@contextmanager
def refused(kind: type[CodedError], said: str, lang: str = "en") -> Iterator[None]:
    """What happens inside raises such an error, and its text matches."""
    with pytest.raises(kind) as caught:
        yield
    text = reason(caught.value, lang)
    assert re.search(said, text), text
