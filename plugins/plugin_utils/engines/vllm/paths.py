# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths of vLLM's API a gateway lets through: those that compute and name their model in a JSON body or in a field of a form, by release."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# The first release that has a path. Routes of vllm/entrypoints/openai/api_server.py, read from 29 wheels, 0.2.7 to 0.11.0, of which 0.6.4.post1 has no
# /v1/score, 0.6.6 no /v1/rerank and 0.9.2 no /v1/responses; and of vllm/entrypoints in the source packages of 0.7.2, 0.7.3, 0.9.1, 0.9.2, 0.11.0, 0.11.1,
# 0.16.0, 0.17.0 and 0.33.0. What stops, changes or measures a server (/pause, /sleep, /metrics, /start_profile, /docs) or names no model (/invocations) is
# not here.
SINCE = {
    "/v1/chat/completions": "0.1.2",
    "/v1/completions": "0.1.2",
    "/v1/embeddings": "0.4.3",
    "/v1/score": "0.6.6",
    "/v1/rerank": "0.7.1",
    "/v1/responses": "0.10.0",
    "/v1/messages": "0.11.1",
    "/v1/messages/count_tokens": "0.17.0",
    "/v1/audio/transcriptions": "0.7.3",
    "/v1/audio/translations": "0.9.2",
}


def paths_of(releases: Iterable[str]) -> list[str]:
    """The paths that every one of these releases of vLLM has: of replicas the oldest counts."""
    oldest = min((release_key(release) for release in releases), default=())
    return [path for path, since in SINCE.items() if release_key(since) <= oldest]
