# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports and errors name secrets and do not show them."""

from __future__ import annotations

import difflib
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json

# Whatever is called so holds a secret: variables, misspelled ones included, settings, names in an environment, options of a command line.
# Of several secrets only names in an environment: the collection has keys and tokens of its own that are none.
_SECRET = re.compile(
    r"(^|[._-])key$|(token|secret|passw(or)?d|passphrase|credentials?|apikey)$|(?-i:_(KEYS|SECRETS|PASSWORDS))$",
    re.IGNORECASE,
)
# The same within texts: NAME=value, an option with its value behind a blank, and what stands before the host in a URL.
_ASSIGNED = re.compile(r"(?P<name>[\w.-]+)(?P<between>=)(?P<value>\S+)")
_OPTION = re.compile(r"(?P<name>--?[A-Za-z][\w.-]*)(?P<between>\s+)(?P<value>[^\s-]\S*)")
_OF_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# Words in the names of variables that nobody knows, and how near to one of them a misspelled word is.
_WORDS = ("token", "secret", "password", "passwd", "passphrase", "credential", "apikey", "auth", "hmac")
_NEAR = 0.8
# Letters of a secret, at least.
LEAST = 8


# Beginnings of the names under which the programs that are started read settings that people may see.
_OPEN = (
    *(
        "CUDA_",
        "FLASHINFER_",
        "GLOO_",
        "HF_HUB_",
        "LLM_",
        "NCCL_",
        "NVIDIA_",
        "OMP_",
        "RAY_",
        "TORCH_",
        "TORCHINDUCTOR_",
    ),
    *("TRITON_", "UCX_", "VLLM_"),
)


def is_open(name: str, value: object) -> bool:
    """Whether people may see what a variable of an environment holds: what its name does not say for certain is taken for a secret."""
    return name.startswith(_OPEN) and not may_be_secret(name) and not _OF_URL.search(str(value))


def is_secret(name: str) -> bool:
    """Whether what is called so holds a secret."""
    return bool(_SECRET.search(name))


def may_be_secret(name: str) -> bool:
    """Whether what is called so may hold secrets: for names that nobody knows, and for values of a form that nobody expects."""
    words = [word for word in re.split(r"[^a-z]+", name.lower()) if word]
    return any(
        sorted(word.removesuffix("s")) == sorted("key") or difflib.get_close_matches(word, _WORDS, n=1, cutoff=_NEAR)
        for word in words
    )


def secret_values(value: object, name: str = "") -> Iterator[str]:
    """The texts in the variables of an inventory, or in one of them, that its name or that of a part says to be secret.

    Of a mapping that is an environment all that nobody is to see. What is shorter than LEAST letters would be found everywhere.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            closed = name.endswith("_environment") and not is_open(str(key), item)
            yield from secret_values(str(item), "secret") if closed else secret_values(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from secret_values(item, name)
    elif isinstance(value, str) and len(value) >= LEAST:
        # Where a secret lies is none.
        if is_secret(name) and not value.startswith(("/", "~", ".")):
            yield value
        yield from (found for found in _OF_URL.findall(value) if len(found) >= LEAST)


def without_values(text: str, values: Iterable[str]) -> str:
    """A text, JSON or a page perhaps, in which <hidden> stands where one of these was. A longer one may begin with a shorter one."""
    for value in sorted(set(values), key=len, reverse=True):
        for written in (value, json.dumps(value, ensure_ascii=False)[1:-1], html.escape(value)):
            text = text.replace(written, "<hidden>")
    return text


def without_secrets(value: object, name: str = "") -> object:
    """A copy in which the name of a secret stands where its value was."""
    if is_secret(name) and value and not isinstance(value, bool):
        return f"<{name}>"
    if isinstance(value, Mapping):
        return {str(key): without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _words_without_secrets(value)
    return _text_without_secrets(value) if isinstance(value, str) else value


def _words_without_secrets(words: Sequence[object]) -> list[object]:
    """The words of a command line, perhaps: an option has all words up to the next one."""
    found, option = [], ""
    for word in words:
        is_option = isinstance(word, str) and word.startswith("-")
        option = str(word).lstrip("-") if is_option else option
        found.append(without_secrets(word, "" if is_option else option))
    return found


def _text_without_secrets(text: str) -> str:
    """What a mapping comes to on a command line is JSON."""
    try:
        read = read_json(text) if text.startswith("{") else None
    except ValueError:
        read = None
    if read is not None:
        cleaned = without_secrets(read)
        return text if cleaned == read else json.dumps(cleaned)
    option, equals, said = text.partition("=")
    if equals and said and option.startswith("--") and is_secret(option):
        return f"{option}=<{option.lstrip('-')}>"
    text = _OF_URL.sub("***", text)
    return _OPTION.sub(_named, _ASSIGNED.sub(_named, text))


def _named(found: re.Match[str]) -> str:
    name = found["name"]
    return f"{name}{found['between']}<{name.lstrip('-')}>" if is_secret(name) else found[0]
