# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines by their names, for code on hosts, which does not reach the folder of engines. The default engine is the first one."""

from __future__ import annotations

ENGINES = ("vllm", "llama_cpp", "lmdeploy", "sglang", "ollama", "triton")
# What the probe of a deployment calls the server in its state, whichever engine that is.
PROBED = "llm-" + ENGINES[0]
