# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the containers see what the host lends them."""

from __future__ import annotations

SCRIPTS, SECRETS, RAY_TOKEN = "/llm", "/run/secrets", "/run/secrets/ray_token"
# Beginning with the program's name, the variables that the inventory sets for it and whose values nobody is to see.
ENVIRONMENT = ".environment"
CACHE = "/var/cache/llm"
# The last word of the probe, which the server hands on to gateways.
PROBE = "/run/llm-probe"
# The small files that a server reads, in the folder of the scripts.
FILES = "files"
