# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tasks run, on which hosts and for how long, for people who have seen nothing for a while. Pure."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import human_seconds
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names


class Progress:
    """The tasks that have begun and not ended, by host. Two threads use this, each for one dictionary operation at a time."""

    def __init__(self, every: float, lang: str = "en") -> None:
        self.every, self.lang = every, lang
        self.tasks: dict[str, tuple[str, float]] = {}
        self.heard = 0.0

    def began(self, host: str, task: str, now: float) -> None:
        self.tasks[host] = (task, now)
        self.heard = now

    def said(self, now: float) -> None:
        """A line of something that goes on: an item of a loop, another try."""
        self.heard = now

    def ended(self, host: str, now: float) -> None:
        self.tasks.pop(host, None)
        self.heard = now

    def lines(self, now: float) -> list[str]:
        """One for each task, if nothing was heard for so long."""
        running = dict(self.tasks)
        if not running or now - self.heard < self.every:
            return []
        self.heard = now
        hosts: dict[str, list[str]] = {}
        since: dict[str, float] = {}
        for host, (task, began) in running.items():
            hosts.setdefault(task, []).append(host)
            since[task] = min(began, since.get(task, began))
        return [
            message(
                "progress_task",
                self.lang,
                task=task,
                time=human_seconds(now - since[task]),
                hosts=names(hosts[task], self.lang),
            )
            for task in hosts
        ]
