# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is to the rest of the collection. docs/development/new-engine.md says how one is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Engine:
    """All that the rest asks of an engine.

    The variables of an engine begin with its name and are described in its role, ``roles/<name>``; find.py reads them. A *setting* is such a
    variable without that beginning.
    """

    # The folder, the role, the beginning of the variables: vllm.
    name: str
    # As people write it: vLLM.
    title: str
    # A release, as an example for whoever names none: 0.8.5.post1.
    example_release: str
    # What has to be the same on all hosts of a deployment, by setting, besides the model, the release, the port and the name in the API.
    shared: tuple[str, ...] = ()
    # Whether one model can lie on several hosts.
    spans_hosts: bool = False
    # What Prometheus is told of the engine's metrics, by the one name that rules, alerts and consoles use (docs/guides/monitoring.md): ``kind``
    # is gauge (with ``fold``, sum or max over the engines of a server), counter or histogram, ``names`` are the engine's own, each as ``name``,
    # with ``gauge`` for one of a counter that is a rate already.
    metrics: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
