# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vocabulary of a server, made from the tokenizer of its model."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "roles/vllm/files/vocabulary.py"
SPEC = importlib.util.spec_from_file_location("vocabulary", FILE)
if SPEC is None or SPEC.loader is None:
    raise ImportError(FILE)
vocabulary = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(vocabulary)


def test_every_byte_has_its_letter() -> None:
    """Those that GPT-2's tokenizer shows in their stead: a blank as this one, an end of line as that one."""
    letters = vocabulary.letters()
    assert sorted(letters.values()) == list(range(256))
    assert (letters["A"], letters["\u0120"], letters["\u010a"], letters["\u00e9"]) == (65, 32, 10, 0xE9)


def test_the_lines_are_those_of_tiktoken() -> None:
    tokenizer = {"model": {"vocab": {"\u0120a": 2, "!": 0, "\u00e4\u00bd": 1, "<|end|>": 3}}}
    assert vocabulary.vocabulary(tokenizer, 3) == b"IQ== 0\n5L0= 1\nIGE= 2\n"


def test_it_is_made_once_and_only_with_the_content_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"IQ== 0\n"
    monkeypatch.setattr(vocabulary, "VOCABULARIES", {"mine": ("v.tiktoken", hashlib.sha256(content).hexdigest(), 1)})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mine"}))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"!": 0, "more": 1}}}))
    monkeypatch.setattr(sys, "argv", ["vocabulary.py", str(tmp_path), str(tmp_path / "made")])
    assert vocabulary.main() == 0
    assert (tmp_path / "made" / "v.tiktoken").read_bytes() == content
    assert base64.b64decode(content.split()[0]) == b"!"
    (tmp_path / "tokenizer.json").unlink()
    assert vocabulary.main() == 0
    (tmp_path / "made" / "v.tiktoken").write_bytes(b"half")
    assert vocabulary.main() == 1
