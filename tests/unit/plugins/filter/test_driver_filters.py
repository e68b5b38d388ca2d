# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of the role nvidia_driver: thin."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.filter.bundle_select import FilterModule as BundleSelect
from ansible_collections.baremetal.llm.plugins.filter.driver_plan import FilterModule as DriverPlan

RECORDS = [
    {"kind": "driver", "method": "packages", "release": "12", "path": "driver/a.deb"},
    {"kind": "driver", "method": "runfile", "path": "driver/b.run"},
    {"kind": "os_packages", "release": 12, "path": "os_packages/c.deb"},
]


def test_records_are_picked_as_the_copying_picks_them() -> None:
    select = BundleSelect().filters()["bundle_select"]
    assert [record["path"] for record in select(RECORDS, "driver")] == ["driver/a.deb", "driver/b.run"]
    assert [record["path"] for record in select(RECORDS, "driver", {"release": 12})] == ["driver/a.deb"]
    assert [record["path"] for record in select(RECORDS, "os_packages", {"release": "12"})] == ["os_packages/c.deb"]


def test_a_plan_in_another_language() -> None:
    plan = DriverPlan().filters()["driver_plan"]
    host = {"packages": {}, "broken": [], "runfile": False, "unowned": False, "kernel": "6.1", "headers": True}
    host.update({"module": False, "programs": {"gcc": True, "make": True}, "secure_boot": True})
    gpus = {"driver": {"loaded": None, "installed": None, "kernel_module": None, "mismatch": False}, "nvswitches": 0}
    wish = {"method": "runfile", "version": "570.195.03", "distribution": "Debian", "os_family": "Debian"}
    assert "mokutil" in plan(host, gpus, wish)["problems"][0]
    assert "安全启动" in plan(host, gpus, wish, "zh")["problems"][0]
