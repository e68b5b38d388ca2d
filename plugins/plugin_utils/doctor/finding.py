# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor knows, and what a check says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import SCHEMA, KnownSeries, Looks

GIB = 1 << 30
# The findings that say that a host could not be looked at, by its state.
NO_ANSWER = {"silent": "host_silent", "garbage": "host_garbage"}


@dataclass(frozen=True)
class Finding:
    """One thing: the check that found it, its code, how bad it is, where, what it is, what shows it, and what to change or to call."""

    check: str
    code: str
    grade: str
    hosts: tuple[str, ...]
    what: str
    evidence: str = ""
    remedy: str = ""
    # Whether a host could not be looked at.
    blind: bool = False


Findings = Iterator[Finding]


@dataclass(frozen=True)
class Question:
    """What is known. ``preflight`` are the findings of preflight, ``used`` by host the interface that it agreed on, ``looks`` and ``series`` what is
    known of earlier times, ``former`` hosts that were there then, ``now`` the controller's clock."""

    hosts: Sequence[Looked]
    preflight: Sequence[Mapping[str, Any]] = ()
    used: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    looks: Looks = field(default_factory=lambda: Looks(schema=SCHEMA, looks=[]))
    series: KnownSeries | None = None
    former: Mapping[str, str] = field(default_factory=dict)
    reserve_bytes: int = 2 * GIB
    now: float = 0.0
    lang: str = "en"

    @property
    def seen(self) -> list[Looked]:
        return [looked for looked in self.hosts if looked.answered]

    @property
    def serving(self) -> list[Looked]:
        """Hosts of deployments of which something is known."""
        return [looked for looked in self.seen if looked.asked.deployment]

    def finding(self, code: str, grade: str, hosts: Sequence[str], evidence: str = "", **values: object) -> Finding:
        """A finding whose texts are the messages ``doctor_CODE`` and ``doctor_CODE_remedy``."""
        said = {"host": names(hosts, self.lang), **values}
        what = message("doctor_" + code, self.lang, **said)
        remedy = message("doctor_" + code + "_remedy", self.lang, **said)
        return Finding("", code, grade, tuple(hosts), what, evidence, remedy, code in NO_ANSWER.values())
