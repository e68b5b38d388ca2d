# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: notification
short_description: A line each minute while a task goes on
version_added: 0.1.0
description:
  - Ansible prints nothing between the beginning of a task and its end. Where a task takes long (an image is loaded, a driver is built, weights are
    copied), this says once a minute which task runs, for how long, and on which hosts.
  - This plugin only prints. Nothing else about a run differs with it.
requirements:
  - enable it in C(callbacks_enabled)
options:
  every_seconds:
    description: After how long without a result or the beginning of a task a line is printed.
    type: float
    default: 60
    ini:
      - section: callback_llm_progress
        key: every_seconds
    env:
      - name: LLM_PROGRESS_EVERY_SECONDS
  language:
    description: The language of the line. Left out, it is that of whoever runs Ansible, by E(LC_ALL), E(LC_MESSAGES) and E(LANG).
    type: str
    choices: [en, zh]
    ini:
      - section: callback_llm_progress
        key: language
    env:
      - name: LLM_PROGRESS_LANGUAGE
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

import threading
import time
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import own_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.progress import Progress

# How many times in such an interval the tasks are looked at: a line is late by one of these parts at most.
LOOKS = 12


class CallbackModule(CallbackBase):  # type: ignore[misc,unused-ignore]
    """Notes when each task begins and ends, and prints from a thread of its own, because that of Ansible waits meanwhile."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "baremetal.llm.progress"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: object) -> None:
        self.running = Progress(float(self.get_option("every_seconds")), own_language(self.get_option("language")))
        self.over = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while not self.over.wait(self.running.every / LOOKS):
            for line in self.running.lines(time.monotonic()):
                self._display.display(line)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self.running.began(host.get_name(), task.get_name(), time.monotonic())

    def v2_runner_item_on_ok(self, result: object) -> None:
        self.running.said(time.monotonic())

    v2_runner_item_on_failed = v2_runner_item_on_skipped = v2_runner_item_on_ok
    v2_runner_retry = v2_runner_on_async_poll = v2_runner_item_on_ok

    def v2_runner_on_ok(self, result: Any) -> None:
        host = getattr(result, "host", None) or result._host  # its name before ansible-core 2.19
        self.running.ended(host.get_name(), time.monotonic())

    v2_runner_on_skipped = v2_runner_on_unreachable = v2_runner_on_ok

    # Ansible passes whether the task goes on after a failure by this name; the task has ended either way.
    def v2_runner_on_failed(self, result: object, ignore_errors: bool = False) -> None:
        self.v2_runner_on_ok(result)

    def v2_playbook_on_stats(self, stats: object) -> None:
        self.over.set()
