#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: monitoring_decide
short_description: Decide what is asked for metrics, by whom, and what raises an alert
version_added: 0.1.0
author:
  - The baremetal.llm authors (@baremetal-llm)
description:
  - From the inventory, and from the plans of the deployments if there are any in C(llm_decision), the files of the role
    P(baremetal.llm.monitoring#role), the targets by job, rules, pages of figures and the configuration of Prometheus, Alertmanager and
    blackbox_exporter.
  - Runs on the controller and touches no host. Needs what M(baremetal.llm.inventory_check) found, in C(llm_inventory) of C(localhost).
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.looks
  - baremetal.llm.attributes.controller
"""

EXAMPLES = r"""
- name: Monitoring | Decide what is asked and by whom
  baremetal.llm.monitoring_decide:
  register: _monitoring_decided
  run_once: true
"""

RETURN = r"""
files:
  description: >-
    What belongs into C(monitoring_dir), each with C(path), C(content) and C(check), the kind of file. A file comes before the one that
    names it.
  returned: success
  type: list
  elements: dict
exporters:
  description: By host where its node_exporter listens, as C(ADDRESS:PORT).
  returned: success
  type: dict
collectors:
  description: Addresses of the hosts that collect.
  returned: success
  type: list
  elements: str
figures:
  description: >-
    Metrics by host that only the controller knows. Of a head what the last start was predicted to take, and took; of hosts that watch when the
    bundle was made.
  returned: success
  type: dict
gpus:
  description: >-
    By GPU host C(exporter), V(dcgm) or V(textfile), and C(why) it is that one. Of the former also C(listen), C(container) and C(counters), the file that
    says what is measured.
  returned: success
  type: dict
shipping:
  description: By host its file for Vector; empty where logs go nowhere else.
  returned: success
  type: dict
grafana:
  description: >-
    Grafana's C(container), C(digest) of what it reads when it starts, and C(password_file), where the controller keeps the password of its
    administrator; empty where no image is named.
  returned: success
  type: dict
receivers:
  description: Where each receiver of alerts listens, with C(name), C(host) and C(port).
  returned: success
  type: list
  elements: dict
hosts:
  description: >-
    By host C(asked), digests of what is asked for there, C(work), why there is something to do, and C(needed), what is to be run. They are about
    C(monitoring_exporters), and on hosts that watch about C(monitoring), the names of the two records. Nothing is to be run where they hold.
  returned: success
  type: dict
"""
