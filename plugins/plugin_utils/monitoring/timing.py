# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often and how long Prometheus and Alertmanager ask and wait: a message is sent within a minute, which a test adds up."""

from __future__ import annotations

# How often servers and gateways are asked whether they answer, and the alerts are evaluated. One request to a server costs little.
QUICK_SECONDS = 5
# A host or a server that has not answered by then is taken for silent.
TIMEOUT_SECONDS = 5
# How long Alertmanager waits for more alerts of a group before it tells of the first one, and of those that follow or end.
GROUP_WAIT_SECONDS = 5
GROUP_INTERVAL_SECONDS = 10
