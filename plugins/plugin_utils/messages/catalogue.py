# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every text that this collection says to people, by code and language: en.yml and zh.yml beside this file.

A problem is refused with four things: what is wrong, the value, where to set it, and what is allowed. So a problem
code has two entries in the catalogue: ``<code>`` says what, ``<code>_allowed`` says what is allowed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError

LANGUAGES = ("en", "zh")

_NAMES_SHOWN = 8
_VALUE_SHOWN, _SHOWN_LEVELS, _SHOWN_BITS = 200, 10, 1000


class _Texts(dict[str, dict[str, str]]):
    """The texts by language, each read when the first of them is said: the planner is imported faster than YAML is."""

    def __missing__(self, lang: str) -> dict[str, str]:
        import yaml

        content = Path(__file__).with_name(f"{lang}.yml").read_bytes()
        # A few milliseconds with the parser in C, ten times as long without it.
        self[lang] = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return self[lang]


TEXTS = _Texts()


def language(value: object) -> str:
    """The language to speak: the value if it is one of ours, else English."""
    return value if isinstance(value, str) and value in LANGUAGES else "en"


def language_of(environment: Mapping[str, str]) -> str:
    """The language of a person, by the variables of the environment from which every program takes it."""
    said = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "")
    return "zh" if said.startswith("zh") else "en"


def own_language(value: object = "") -> str:
    """The language to speak where nobody may have chosen one: the value, or that of whoever runs Ansible."""
    return language(value) if value else language_of(os.environ)


def message(code: str, lang: str = "en", **values: object) -> str:
    """The text of a code in a language, its placeholders filled in. A value may be a message itself, or a list of messages."""
    return TEXTS[language(lang)][code].format(**{name: spoken(value, lang) for name, value in values.items()})


class Text:
    """A message that is said later, where its language is known."""

    def __init__(self, code: str, **values: object) -> None:
        self.code = code
        self.values = values

    def say(self, lang: str = "en") -> str:
        return message(self.code, lang, **self.values)


def _said(value: object, lang: str) -> str | None:
    """The text of a message without one: an error, a text to be said later, or what modules return of one. None for any other value."""
    if isinstance(value, (CodedError, Text)):
        return message(value.code, lang, **value.values)
    if isinstance(value, Mapping) and set(value) == {"code", "values"}:
        return message(value["code"], lang, **value["values"])
    return None


def spoken(value: object, lang: str = "en") -> object:
    """A value of a message; what is a message itself as its text."""
    parts = [_said(one, lang) for one in value] if isinstance(value, (list, tuple)) else [_said(value, lang)]
    texts = [text for text in parts if text is not None]
    return "\n".join(texts) if texts and len(texts) == len(parts) else value


def names(items: Sequence[object], lang: str = "en", limit: int = _NAMES_SHOWN) -> str:
    """A list of names as people write it, cut where it would fill the screen."""
    texts = [str(item) for item in items]
    if not texts:
        return message("nothing_there", lang)
    if len(texts) <= limit:
        return ", ".join(texts)
    return message("and_more", lang, names=", ".join(texts[:limit]), count=len(texts) - limit)


def shown(value: object, lang: str = "en") -> str:
    """A value as it would stand in an inventory, in one line; of a large one its beginning, whatever it holds further on."""
    return _shown(value, lang, _SHOWN_LEVELS)


def _joined(texts: Iterable[str]) -> str:
    """As many of them as are shown."""
    found: list[str] = []
    length = 0
    for text in texts:
        found.append(text)
        length += len(text)
        if length > _VALUE_SHOWN:
            break
    return ", ".join(found)


def _shown(value: object, lang: str, levels: int) -> str:
    if value is None or value == "":
        return message("nothing", lang)
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str):
        text = f'"{value}"'
    elif isinstance(value, (Mapping, list, tuple)) and not levels:
        text = "..."
    elif isinstance(value, Mapping):
        text = "{" + _joined(f"{key}: {_shown(item, lang, levels - 1)}" for key, item in value.items()) + "}"
    elif isinstance(value, (list, tuple)):
        text = "[" + _joined(_shown(item, lang, levels - 1) for item in value) + "]"
    elif isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        text = "..."  # Python writes no number of more than 4300 digits
    else:
        text = str(value)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_SHOWN else text[: _VALUE_SHOWN - 3] + "..."


def problem(code: str, lang: str = "en", value: str = "", where: str = "", **values: object) -> dict[str, str]:
    """An error: its code and the four things that it has to say. ``value`` and ``where`` are texts already."""
    return {
        "code": code,
        "what": message(code, lang, **values),
        "value": value or message("nothing", lang),
        "where": where or message("where_inventory", lang),
        "allowed": message(code + "_allowed", lang, **values),
    }


def render(problems: Sequence[Mapping[str, str]], lang: str = "en", header: str | None = None) -> str:
    """All problems as one text of several lines, for a terminal."""
    if header is None:
        code = "problems_header_one" if len(problems) == 1 else "problems_header"
        header = message(code, lang, count=len(problems))
    labels = [(key, message("label_" + key, lang)) for key in ("value", "where", "allowed")]
    width = max(len(label) for _key, label in labels)
    lines: list[str] = [header]
    for number, entry in enumerate(problems, start=1):
        mark = f"{number}. "
        indent = " " * len(mark)
        lines += ["", mark + entry["what"].replace("\n", "\n" + indent)]
        for key, label in labels:
            pad = "　" if language(lang) == "zh" else " "
            # What is wrong may say already what is allowed.
            if entry[key]:
                lines.append(indent + label + pad * (width - len(label)) + (" " if pad == " " else "") + entry[key])
    return "\n".join(lines)


def error_text(code: str, lang: str = "en", value: str = "", where: str = "", **values: object) -> str:
    """The text of one problem, without a number."""
    return render([problem(code, lang, value, where, **values)], lang, "").strip().replace("1. ", "", 1)


class Refused(CodedError):
    """Why something cannot be done, as a code of the catalogue: whoever catches it knows in which language to say so."""

    def __str__(self) -> str:
        return reason(self)


def reason(error: Exception, lang: str = "en") -> str:
    """The text of an error, in the language if the catalogue has it. What others raise is as they wrote it."""
    return message(error.code, lang, **error.values) if isinstance(error, CodedError) else str(error)
