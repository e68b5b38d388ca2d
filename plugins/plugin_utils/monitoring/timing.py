# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long it takes until somebody is told: each step between an event and the message about it, and the sum of the steps.

What has to be known within a minute is in WAYS, with the steps by which its figure reaches Prometheus. How long an alert waits itself is in
alerts.yml (``for``). A test adds all of it up with the defaults of the roles, and compares the numbers of the probe with its program.
"""

from __future__ import annotations

# Within so many seconds of an event a receiver is told of it, and within so many of its end that it is over.
GOAL_SECONDS = 60
# How often everything is asked, by default: monitoring_interval_seconds.
INTERVAL_SECONDS = 10
# How often servers and gateways are asked whether they answer, and the alerts are evaluated. One request to a server costs little.
QUICK_SECONDS = 5
# A host or a server that has not answered by then is taken for silent.
TIMEOUT_SECONDS = 5
# How long Alertmanager waits for more alerts of a group before it tells of the first one, and of those that follow or end.
GROUP_WAIT_SECONDS = 5
GROUP_INTERVAL_SECONDS = 10

# The probe of roles/vllm looks at the latest this long after its last look: its interval, the accuracy of its timer, its start.
PROBE_STARTS_SECONDS = 12
# Then it asks for a token and for counters that do not come, or twice for a token, since its own request may look like work. It asks Ray for lost
# ranks and restarts the server before it writes what it saw.
PROBE_ASKS_SECONDS, PROBE_JUDGES_SECONDS = 10, 10

SECONDS = {
    "probe_fails": PROBE_STARTS_SECONDS + PROBE_ASKS_SECONDS + PROBE_JUDGES_SECONDS,
    "probe_succeeds": PROBE_STARTS_SECONDS + 5,
    # llm-textfile.path: as soon as the probe has written.
    "textfile": 2,
    # What answers, answers within a second.
    "host": INTERVAL_SECONDS + 1,
    "server": QUICK_SECONDS + 1,
    "silent_host": INTERVAL_SECONDS + TIMEOUT_SECONDS,
    "silent_server": QUICK_SECONDS + TIMEOUT_SECONDS,
}

# By alert the steps of its beginning and those of its end.
WAYS = {
    "host_down": (("silent_host",), ("host",)),
    "deployment_not_ready": (("probe_fails", "server"), ("probe_succeeds", "server")),
    "generation_dead": (("probe_fails", "textfile", "host"), ("probe_succeeds", "textfile", "host")),
    "gateway_not_ready": (("silent_server",), ("server",)),
    "certificate_expiring": (("server",), ("server",)),
    "disk_filling": (("host",), ("host",)),
}


def told_after(alert: str, waits_seconds: int) -> int:
    """Seconds until a receiver is told, at most. ``waits_seconds`` is how long the alert waits from one evaluation to a later one."""
    evaluations = -(-waits_seconds // QUICK_SECONDS) * QUICK_SECONDS
    return sum(SECONDS[step] for step in WAYS[alert][0]) + QUICK_SECONDS + evaluations + GROUP_WAIT_SECONDS


def over_after(alert: str) -> int:
    """Seconds until a receiver is told that it is over, at most."""
    return sum(SECONDS[step] for step in WAYS[alert][1]) + QUICK_SECONDS + GROUP_INTERVAL_SECONDS
