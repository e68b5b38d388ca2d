# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nobody says among vLLM's options, because something else says it or nothing would answer then."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import OptionRules
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.options import OPTIONS

OPTION_RULES = OptionRules(
    never_ready=frozenset(
        (
            *("ssl_certfile", "ssl_keyfile", "ssl_ca_certs", "ssl_cert_reqs", "ssl_ciphers", "enable_ssl_refresh"),
            *("root_path", "uds", "headless", "grpc"),
        )
    ),
    # Where options are read, and how several hosts meet.
    of_the_plan=frozenset(("config", "nnodes", "node_rank", "master_addr")),
    known=frozenset(OPTIONS),
    settings={"lora_modules": "lora_adapters"},
)
