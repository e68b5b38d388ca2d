# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of an engine that are data by release: which of them a release takes, why another one is refused, and the words of a command line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open, variable_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.counterparts import counterpart
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# Kinds of options: with one value, with several words, a switch, and a switch that has a --no- beside it.
Kind = Literal["values", "lists", "switches", "pairs"]
KINDS: tuple[Kind, ...] = ("values", "lists", "switches", "pairs")


class Releases(TypedDict):
    """The releases of an engine that were examined: the oldest and the newest."""

    oldest: str
    newest: str


class Image(TypedDict):
    """How the tag of the official image ends from a release on."""

    since: str
    suffix: str


class Images(TypedDict):
    suffixes: list[Image]


class OptionTable(NamedTuple):
    """The options of an engine. Names have underscores."""

    # The engine, and as people call it.
    name: str
    title: str
    # The releases that were examined: the oldest and the newest, which is empty where none counts as that.
    oldest: str
    newest: str
    # By kind and name the first release that takes an option, - for the oldest.
    first: Mapping[Kind, Mapping[str, str]]
    # By name the last release that takes it.
    until: Mapping[str, str]
    # Options that are variables of their own, or that the collection sets for every server, with the variable, or without one.
    own: Mapping[str, str]
    # Options that are taken in no release, with the code of the message that says why.
    never: Mapping[str, str]
    # What stands first on a command line; all others follow in alphabetical order.
    order: tuple[str, ...]

    def known_release(self, release: str) -> None:
        """InputError for a release that is older than those whose options were examined."""
        if release_key(release) < release_key(self.oldest):
            why = {"found": release, "oldest": self.oldest, "title": self.title}
            raise InputError(f"{self.name}_version", "engine_release", **why)

    def names(self) -> dict[str, str]:
        """All options that are taken in some release, with the first one."""
        return {name: first for kind in KINDS for name, first in self.first.get(kind, {}).items()}

    def refusal(self, name: str, release: str) -> Text | None:
        """Why an option is not taken; None for one that is."""
        if name in self.never:
            return self._text(self.never[name], name)
        known = {**self.names(), **dict.fromkeys(self.own, "-")}
        last = self.until.get(name, "")
        if name not in known:
            return self._unknown(name, sorted(known))
        if not since(release, known[name]):
            return self._text("engine_option_later", name, first=known[name], release=release)
        if last and release_key(release) > release_key(last):
            return self._text("engine_option_gone", name, last=last, release=release)
        return None

    def owned(self, options: Iterable[str]) -> Text | None:
        """Why the first of these options that has a variable of its own does not belong there; None where none has."""
        name = next((option for option in options if option in self.own), None)
        if name is None:
            return None
        code = "engine_option_own" if self.own[name] else "engine_option_set"
        return self._text(code, name, variable=self.own[name])

    def check(self, options: Iterable[str], release: str) -> None:
        """InputError for options that the release does not take, with all of them."""
        problems = [why for name in sorted(options) if (why := self.refusal(name, release)) is not None]
        if problems:
            raise InputError(f"{self.name}_options", "engine_options", problems=problems)

    def words(self, options: Mapping[str, object], release: str) -> list[str]:
        """Options as words, in a fixed order. InputError for those that the release does not take."""
        self.known_release(release)
        self.check(options, release)
        return [word for name in self.in_order(options) for word in self._words(name, options[name])]

    def in_order(self, options: Iterable[str]) -> list[str]:
        """As they stand on a command line."""
        return sorted(options, key=lambda one: (self.order.index(one) if one in self.order else len(self.order), one))

    def warnings(
        self,
        plan: Mapping[str, object],
        head: Mapping[str, object],
        _records: Sequence[Mapping[str, object]],
        language: str,
    ) -> list[str]:
        """What a plan says of a server without a key, and of a release that nobody here has seen (``plan_warnings`` of interface.py)."""
        found, release = [], str(plan[f"{self.name}_version"])
        if is_open(head):
            found.append(message("engine_without_key", language, variable=variable_of(head, "api_key_enabled")))
        if self.newest and release_key(release) > release_key(self.newest):
            found.append(message("engine_newer", language, title=self.title, release=release, newest=self.newest))
        return found

    def _text(self, code: str, name: str, **more: object) -> Text:
        return Text(code, name=name, engine=self.name, title=self.title, **more)

    def _unknown(self, name: str, known: list[str]) -> Text:
        other = counterpart(name, self.name)
        if other is not None:
            engine, instead = other
            code = "engine_option_foreign" if instead else "engine_option_nothing"
            return self._text(code, name, other=engine, instead=self.own.get(instead) or instead)
        # Those of Ollama are in capitals.
        spelled = {one.lower(): one for one in known}
        near = [spelled[one] for one in difflib.get_close_matches(name.lower(), spelled, 1, 0.6)]
        code = "engine_option_near" if near else "engine_option_unknown"
        return self._text(code, name, near="".join(near))

    def _words(self, name: str, value: object) -> list[str]:
        option = "--" + name.replace("_", "-")
        where = f"{self.name}_options.{name}"
        is_pair = name in self.first.get("pairs", {})
        if is_pair or name in self.first["switches"]:
            if not isinstance(value, bool):
                raise InputError(where, "engine_option_switch", found=value)
            return [option] if value else ["--no-" + option[2:]] if is_pair else []
        if value is None:
            return []
        if isinstance(value, bool):
            raise InputError(where, "engine_option_value", found=value)
        if isinstance(value, Mapping):
            return [option, json.dumps(value, separators=(",", ":"))]
        if isinstance(value, (list, tuple)):
            if name not in self.first["lists"]:
                raise InputError(where, "engine_option_value", found=value)
            return [option, *map(str, value)] if value else []
        # One word: a value may begin with a dash.
        return [f"{option}={value}"] if str(value).startswith("-") else [option, str(value)]


def since(release: str, first: str) -> bool:
    """Whether a release has what came with ``first``; - for the oldest one that was examined."""
    return first == "-" or release_key(release) >= release_key(first)
