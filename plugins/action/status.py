# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints and writes the state of the fleet; what it is, is in plugin_utils/status."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.fleet import Fleet
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import absentees
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.action import UNSET, DocumentedAction, TaskVars
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language, message
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.files import write_report
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.asked import (
    LOOKS,
    looked_of_run,
    read_looks,
    remembered,
    series_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import Looked, made_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.report import (
    StatusDocument,
    status_document,
    status_lines,
    status_page,
    verdict,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import (
    Looks,
    check_series,
    former_hosts,
    kept_looks,
)


class ActionModule(DocumentedAction):
    """Reads what the hosts of this run answered."""

    _requires_connection = False

    def run(self, tmp: object = None, task_vars: TaskVars = UNSET) -> dict[str, object]:
        result = super().run(tmp, task_vars)
        options = self.options()
        fleet, now = Fleet(self._loader, task_vars), time.time()
        controller = fleet["localhost"]
        lang, folder = language(controller["llm_language"]), str(controller["llm_report_dir"])

        absent = absentees(remembered(fleet, controller["llm_inventory"]))
        path, data = (os.path.join(folder, f"status.{kind}") for kind in ("html", "json"))

        def made(hosts: Sequence[Looked]) -> tuple[Looks, StatusDocument, str, str, list[str]]:
            looks, series = kept_looks(read_looks(folder), hosts, now), series_of(hosts)
            check_series(series)
            document = status_document(hosts, now, former_hosts(looks, list(fleet)), series, absent)
            lines = status_lines(document, lang, "" if self._task.check_mode else path)
            page, text = status_page(document, lang), json.dumps(document, indent=1, ensure_ascii=False)
            "\n".join([page, text, *lines]).encode()  # half of a letter of two cannot be written
            return looks, document, page, text, lines

        hosts = looked_of_run(fleet, fleet.groups, controller["llm_inventory"])
        looks, document, page, text, lines = made_of(hosts, made)
        if not self._task.check_mode:
            write_report(os.path.join(folder, LOOKS), json.dumps(looks) + "\n", lang)
            write_report(data, text + "\n", lang)
            write_report(path, page, lang)
        said = {
            "text": lines,
            "json": [text],
            "html": [verdict(document, lang), message("status_written", lang, path=path)],
        }
        Display().display("\n" + "\n".join(said[options["output"]]) + "\n")
        return {**result, "changed": False, "ok": document["ok"], "verdict": verdict(document, lang)}
