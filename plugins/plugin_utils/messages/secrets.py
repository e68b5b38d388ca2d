# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports and errors name secrets and do not show them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# Whatever is called so holds a secret: variables, misspelled ones included, settings, names in an environment, options of a command line.
_SECRET = re.compile(r"(^|[._-])key$|(token|secret|passw(or)?d|passphrase|credentials?|apikey)$", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether what is called so holds a secret."""
    return bool(_SECRET.search(name))


def without_secrets(value: Any, name: str = "") -> Any:
    """A copy in which the name of a secret stands where its value was."""
    if is_secret(name) and value and not isinstance(value, bool):
        return f"<{name}>"
    if isinstance(value, Mapping):
        return {str(key): without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _words_without_secrets(value)
    return _text_without_secrets(value) if isinstance(value, str) else value


def _words_without_secrets(words: Sequence[Any]) -> list[Any]:
    """The words of a command line, perhaps: an option has all words up to the next one."""
    found, option = [], ""
    for word in words:
        is_option = isinstance(word, str) and word.startswith("-")
        option = word.lstrip("-") if is_option else option
        found.append(without_secrets(word, "" if is_option else option))
    return found


def _text_without_secrets(text: str) -> str:
    """What a mapping comes to on a command line is JSON."""
    option, equals, said = text.partition("=")
    if equals and said and option.startswith("--") and is_secret(option):
        return f"{option}=<{option.lstrip('-')}>"
    try:
        read = json.loads(text) if text.startswith("{") else None
    except ValueError:
        return text
    cleaned = without_secrets(read)
    return text if cleaned == read else json.dumps(cleaned)
