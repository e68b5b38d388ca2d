# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HAProxy in front of Ollama, which asks nobody for a key and lets whoever reaches it fetch, change and remove models.

Ollama listens on 127.0.0.1 alone. HAProxy has the port of the API, asks for a key, and lets through what computes. It knows the keys by their SHA-256, from
a file that roles/ollama/files/llm_ollama_door.py writes, and that HAProxy reads again when a key has changed.
"""

from __future__ import annotations

import json

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Member
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import SmallFile, Unit
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import is_open
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import LOOPBACK

PROGRAM, HAPROXY, USER = "llm_ollama_door.py", "/usr/sbin/haproxy", "haproxy"
# What computes and names its model in a body or in a field of a form: server/routes.go of every examined release. Pictures (/v1/images) are not served.
PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses"),
    "/v1/audio/transcriptions",
)
# Seconds: until the headers of a request are there, in which a client may neither send nor read, and until an answer begins or goes on. A model may have to
# be read first.
_HEADERS, _CLIENT, _ANSWER = 10, 60, 3600
_CONNECTIONS = 2000


def run_dir(member: Member) -> str:
    """The folder of the unit, in which the digests of the keys lie."""
    return f"/run/{member.names['server']}"


def door_file(member: Member, inner: int) -> SmallFile:
    """HAProxy's configuration; ``inner`` is Ollama's port."""
    port, keys = int(member.setting("port")), "" if is_open(member.variables) else f"{run_dir(member)}/keys"
    return {"path": f"{member.folder}/scripts/ollama-door.cfg", "content": door_text(port, inner, keys, USER)}


def door_text(port: int, inner: int, keys: str, user: str) -> str:
    """The same, of ports. Without ``keys``, the file of their digests, nobody is asked for one, and only the host itself is let in."""
    unknown = _error(401, "unknown_key", "No key, or one that does not count.")
    asks = [
        "acl bearer req.fhdr(authorization),word(1,' '),lower -m str bearer",
        f"acl known req.fhdr(authorization),word(2,' '),sha2(256),hex -m str -f {keys}",
        # Anthropic's clients say their key so. Of two headers both have to hold one that counts.
        "acl api_key req.fhdr(x-api-key) -m found",
        f"acl known_api_key req.fhdr(x-api-key),sha2(256),hex -m str -f {keys}",
        "acl alone req.fhdr_cnt(authorization) eq 0",
        f"http-request return {unknown} if api_key !known_api_key",
        f"http-request return {unknown} unless bearer known || alone api_key",
    ]
    lines = [
        "# Made by baremetal.llm: changes are overwritten.",
        "global",
        "    log stdout format raw local0 info",
        f"    maxconn {_CONNECTIONS}",
        f"    hard-stop-after {_ANSWER}s",
        *([f"    user {user}", f"    group {user}"] if user else []),
        "defaults",
        "    mode http",
        "    log global",
        "    option httplog",
        "    option dontlognull",
        "    option dontlog-normal",
        "    option http-no-delay",
        # Who goes away while the model computes no longer waits for an answer.
        "    option abortonclose",
        "    timeout connect 5s",
        "    timeout check 5s",
        f"    timeout http-request {_HEADERS}s",
        f"    timeout client {_CLIENT}s",
        f"    timeout server {_ANSWER}s",
        f"    timeout queue {_ANSWER}s",
        "frontend api",
        f"    bind {LOOPBACK if not keys else '*'}:{port}",
        # After another key, connections that wait for a request end behind its answer.
        "    option idle-close-on-response",
        "    monitor-uri /health",
        "    monitor fail if { nbsrv(ollama) lt 1 }",
        *(f"    {line}" for line in (asks if keys else [])),
        f"    acl computes path {' '.join(PATHS)}",
        "    acl lists path /v1/models",
        "    acl lists path_beg /v1/models/",
        f"    http-request return {_error(404, 'unknown_path', 'There is nothing here.')} unless computes || lists",
        f"    http-request return {_error(405, 'bad_method', 'Only POST computes.')} if computes !METH_POST",
        f"    http-request return {_error(405, 'bad_method', 'Only GET lists models.')} if lists !METH_GET",
        # Ollama answers only who asks for its own host, and no browser from elsewhere (allowedHostsMiddleware in server/routes.go).
        "    http-request set-header Host localhost",
        "    http-request del-header Origin",
        "    http-request del-header Authorization",
        "    http-request del-header X-Api-Key",
        "    default_backend ollama",
        "backend ollama",
        "    option httpchk",
        # Nobody is let through before the model is there: llm_ollama_door.py says why.
        "    http-check send meth GET uri /api/ps hdr Host localhost",
        "    http-check expect string '{\"models\":[{'",
        f"    server ollama {LOOPBACK}:{inner} check inter 1s fall 2 rise 1",
    ]
    return "\n".join(lines) + "\n"


def _error(status: int, code: str, text: str) -> str:
    """An answer as clients of OpenAI's API expect it, as words of HAProxy's configuration."""
    body = json.dumps({"error": {"message": text, "type": "invalid_request_error", "code": code}})
    return f"status {status} content-type application/json string '{body}'"


def door_unit(member: Member, inner: int) -> Unit:
    """The unit that runs HAProxy, with the name of the container behind it, so that both go when the deployment gets another engine."""
    name, scripts = member.names["server"], f"{member.folder}/scripts"
    command = ["/usr/bin/env", "python3", f"{scripts}/{PROGRAM}", HAPROXY, door_file(member, inner)["path"]]
    command += [str(inner), member.served_model_name]
    command += [] if is_open(member.variables) else [f"{run_dir(member)}/keys", member.key_file]
    lines = [
        "# Made by baremetal.llm: changes are overwritten.",
        "[Unit]",
        f"Description=Keys in front of Ollama, {member.deployment.name}".replace("%", "%%"),
        "After=network-online.target",
        "Wants=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"ExecStart={' '.join(command)}",
        f"RuntimeDirectory={name}",
        "RuntimeDirectoryMode=0700",
        "KillMode=mixed",
        "TimeoutStopSec=15",
        "Restart=always",
        "RestartSec=1",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    path = f"/etc/systemd/system/{name}.service"
    text = "\n".join(lines) + "\n"
    return {
        "name": f"{name}.service",
        "path": path,
        "text": text,
        "environment_file": "",
        "environment": {},
        "closed": [],
    }
