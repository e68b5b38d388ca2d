# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module gather tells of a host: the facts whose names begin with llm_."""

from __future__ import annotations

from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._discover import Disk, Models
from ansible_collections.baremetal.llm.plugins.module_utils._disks import DiskNeeds
from ansible_collections.baremetal.llm.plugins.module_utils._engine import Engine
from ansible_collections.baremetal.llm.plugins.module_utils._evidence import Differs, Firewalld
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import HostGpus, RoleFacts
from ansible_collections.baremetal.llm.plugins.module_utils._host import HostFacts
from ansible_collections.baremetal.llm.plugins.module_utils._journal import Run
from ansible_collections.baremetal.llm.plugins.module_utils._live import Live, Xid
from ansible_collections.baremetal.llm.plugins.module_utils._lock import Lock
from ansible_collections.baremetal.llm.plugins.module_utils._nics import Interface, Port
from ansible_collections.baremetal.llm.plugins.module_utils._pci import Seat
from ansible_collections.baremetal.llm.plugins.module_utils._picture import Picture


class Cards(HostGpus):
    """The GPUs, where each sits on the bus, and what the driver has logged of them since the boot."""

    bus: list[Seat]
    # None where there is no card, or no journal to be read.
    xids: list[Xid] | None
    # What else it said, where it does not drive all cards.
    kernel_log: list[str]


class HostPicture(HostFacts, Picture):
    """What runs on a host, and what is installed there."""


class Ufw(TypedDict):
    """Whether ufw is switched on, and what becomes of a packet that no rule is about."""

    enabled: bool
    default_input: str


class Firewalls(TypedDict):
    """The firewalls that may run."""

    firewalld: Firewalld
    ufw: Ufw


class Discovered(Models):
    """What is asked of a host that no inventory describes yet."""

    versions: dict[str, str]
    # Those of the addresses that were asked for.
    reached: list[str]
    disks: list[Disk]


class Facts(RoleFacts, total=False):
    """All of them; what begins with llm_discovered is there where it was asked for."""

    llm_gpu: Cards
    llm_memory_mib: int
    llm_host: HostPicture
    llm_disks: list[DiskNeeds]
    llm_firewall: Firewalls
    # What earlier runs decided about the network.
    llm_network_state: dict[str, object]
    # None where no engine answers.
    llm_container_engine: Engine | None
    # Those of the collection that run an engine or Ray, without their .service.
    llm_server_units: list[str]
    # What the probe says of the server: kind, said, starts, causes.
    llm_probe: dict[str, object]
    llm_nics_found: list[Interface]
    llm_rdma_found: list[Port]
    # first and last
    llm_dynamic_ports: dict[str, int]
    llm_ssh_ports: list[int]
    llm_foreign_ports: list[int]
    llm_discovered: Discovered
    llm_live: Live
    # version and ray, or error
    llm_environment: dict[str, str]
    # python and glibc, or error
    llm_base_python: dict[str, str]
    llm_lock: Lock
    llm_journal: list[Run]
    # By role.
    llm_records: dict[str, Differs]
    # Containers and units.
    llm_recorded: list[str]
    # states, returned, begun and pins (_served.py)
    llm_served: dict[str, object]
    # The Python environments that were made here.
    llm_made_environments: list[str]
