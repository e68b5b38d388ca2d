# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: registry_login
short_description: The configuration with which a client of Docker logs in at registries
version_added: 0.1.0
description:
  - The content of a C(config.json). Keep it out of logs, because whoever has it has the passwords.
options:
  _input:
    description: Per registry a mapping of C(username) and C(password).
    type: dict
    required: true
author:
  - The baremetal.llm authors (@baremetal-llm)
"""

EXAMPLES = r"""
- name: Images | Write the logins
  ansible.builtin.copy:
    content: "{{ bundle_registry_credentials | baremetal.llm.registry_login }}"
    dest: /run/logins/config.json
    mode: "0600"
  no_log: true
"""

RETURN = r"""
_value:
  description: The content, as JSON.
  type: str
"""

import json
from collections.abc import Callable, Mapping

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.registry import login


def registry_login(credentials: Mapping[str, Mapping[str, str]]) -> str:
    """The filter; see the documentation above."""
    return json.dumps(login(credentials)) + "\n"


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {"registry_login": registry_login}
