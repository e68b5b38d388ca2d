# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM release numbers: order, lookup in tables that change by release, and which releases exist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.releases import RELEASES, UNEXAMINED
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError

T = TypeVar("T")


_PATTERN = re.compile(
    r"^v?(?P<release>\d+(?:\.\d+)*)(?P<pre>(?:a|b|rc)\d+)?(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?(?:\+.*)?$"
)


class Release(NamedTuple):
    """A release as asked for, and the examined one whose facts stand for it."""

    asked: str
    examined: str
    key: tuple[int, ...]
    warnings: tuple[Text, ...]
    # Newer than every release of which this collection knows facts: those of the newest stand for it.
    is_newer: bool = False


_CACHE: dict[str, tuple[int, ...]] = {}


def release_key(version: str) -> tuple[int, ...]:
    """A tuple that orders releases; pre-releases and development builds count as the release that they lead to."""
    known = _CACHE.get(version)
    if known is None:
        known = _CACHE[version] = _parse(version)
    return known


def _parse(version: str) -> tuple[int, ...]:
    found = _PATTERN.match(version.strip())
    if not found:
        raise InputError("vllm_version", "input_release", found=version)
    numbers = [int(x) for x in found.group("release").split(".")][:4]
    numbers += [0] * (4 - len(numbers))
    return (*numbers, int(found.group("post") or 0))


_KEYS = {version: release_key(version) for version in RELEASES}
_ORDERED = sorted(RELEASES, key=lambda v: _KEYS[v])
NEWEST = _ORDERED[-1]
_UNEXAMINED_KEYS = {release_key(version): version for version in UNEXAMINED}
_RESOLVED: dict[str, Release] = {}


def required_release(version: object, field: str = "vllm_version", accept_newer: bool = False) -> Release:
    """The release that somebody asks for. One that is newer than all that are known has to be accepted, else it is an InputError."""
    release = resolve_release(version, field)
    if release.is_newer and not accept_newer:
        raise InputError(field, "input_release_newer", version=release.asked, newest=NEWEST)
    return release


def resolve_release(version: object, field: str = "vllm_version") -> Release:
    """Find the release, of which it was checked whether it may be newer than all that are known. Raise InputError when it does not exist."""
    text = str(version).strip() if version is not None else ""
    if text in _RESOLVED:
        return _RESOLVED[text]
    try:
        key = release_key(text)
    except InputError as error:
        raise InputError(field, error.why.code, **error.why.values) from None
    built = bool(re.search(r"(a|b|rc)\d|\.dev|\+", text))
    exact = [v for v in _ORDERED if _KEYS[v] == key]
    warnings: list[Text] = []
    is_newer = False
    if exact:
        examined = exact[0]
    else:
        older = [v for v in _ORDERED if _KEYS[v] < key]
        newer = [v for v in _ORDERED if _KEYS[v] > key]
        same_line = [v for v in _ORDERED if _KEYS[v][:2] == key[:2]]
        known = key in _UNEXAMINED_KEYS
        is_newer = not newer and not built
        if not known and not is_newer and not (built and (same_line or (older and newer))):
            near = (older[-2:] + newer[:1]) or [NEWEST]
            raise InputError(field, "input_release_unknown", version=text, near=", ".join(near))
        # A post-release of the same number is the nearest, then the release before.
        same = [v for v in newer if _KEYS[v][:4] == key[:4]]
        examined = same[0] if same else older[-1] if older else newer[0]
        if same_line and examined not in same_line:
            examined = same_line[0]
        code = "start_release_newer" if is_newer else "start_release_not_examined"
        warnings.append(Text(code, version=text, examined=examined))
    if built and not warnings:
        warnings.append(Text("start_release_built", version=text, examined=examined))
    result = Release(text, examined, key, tuple(warnings), is_newer)
    _RESOLVED[text] = result
    return result


def at(table: Sequence[tuple[str, T]], key: tuple[int, ...]) -> T:
    """The value of a table of [first release, value] rows that holds in a release."""
    value = table[0][1]
    for since, candidate in table:
        if release_key(since) > key:
            break
        value = candidate
    return value


def within(key: tuple[int, ...], since: str | None, last: str | None) -> bool:
    """Whether a release lies in [since, last]."""
    if since is not None and key < release_key(since):
        return False
    return last is None or key <= release_key(last)


def releases() -> list[str]:
    """All examined releases, oldest first."""
    return list(_ORDERED)
