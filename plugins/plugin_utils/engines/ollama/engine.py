# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ollama, as the rest of the collection sees it."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.door import PATHS
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.inputs import (
    NAME,
    RELEASE_FORM,
    SETTINGS,
    TITLE,
    inputs,
    plan,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.server import (
    CACHES,
    INNER_PORT,
    environment,
    launch,
    sections,
)

# What the log says when a part of a start begins: Serve() in server/routes.go and llm/llama_server.go of v0.32.15. The model is read when the probe asks.
_PHASES = (
    ("server", r'msg="server config"'),
    ("api", r'msg="Listening on'),
    ("weights", r'msg="starting llama-server"'),
)

ENGINE = Engine(
    name=NAME,
    title=TITLE,
    example_release="0.32.15",
    release_form=RELEASE_FORM,
    # It holds the code for CUDA 12, which serves GPUs since Maxwell, and that for CUDA 13.
    image=lambda release: f"ollama/ollama:{release}",
    inputs=inputs,
    plan=plan,
    plan_warnings=lambda *asked: table().warnings(*asked),
    launch=launch,
    sections=sections,
    settings=SETTINGS,
    shared=SETTINGS,
    context="context_length",
    reads_config=False,
    environment=environment,
    # llama-server, which Ollama starts, reads options there, too (docs of llama.cpp, common/arg.cpp).
    owned_variables={"OLLAMA_*": "ollama_options", "LLAMA_ARG_*": "ollama_options", "LLAMA_API_KEY": "ollama_api_key"},
    caches=CACHES,
    start_phases=_PHASES,
    paths=lambda releases: list(PATHS),
    is_local=is_open,
    packages=("haproxy",),
    own_ports=((INNER_PORT, 11434),),
    alike_settings={"context_length": "gateway_differs_length", "file": "gateway_differs_answers"},
)
