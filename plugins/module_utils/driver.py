# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NVIDIA driver drives which GPU. Pure: versions in, refusals out."""

from __future__ import annotations

import re
from typing import Any, Iterable

# (compute capability below, last branch that drives it). "The release 580 series will be the last to support GPUs based on the
# Maxwell, Pascal, and Volta architectures"; 470 was it for Kepler, 390 for Fermi.
# https://forums.developer.nvidia.com/t/unix-graphics-feature-deprecation-schedule/60588
LAST_BRANCHES: tuple[tuple[tuple[int, int], int], ...] = (((3, 0), 390), ((5, 0), 470), ((7, 5), 580))
# The open kernel modules need the GPU system processor, which Turing was the first to have.
# https://github.com/NVIDIA/open-gpu-kernel-modules#compatible-gpus
OPEN_SINCE = (7, 5)

_VERSION = re.compile(r"(\d{3})(\.\d+){1,2}")

_TEXTS: dict[str, dict[str, str]] = {
    "version_malformed": {
        "en": "nvidia_driver_version {version} is no version of a driver. Allowed: as in 570.195.03.",
        "zh": "nvidia_driver_version {version} 不是驱动版本号。允许的写法：例如 570.195.03。",
    },
    "branch_too_new": {
        "en": "The driver {version} (nvidia_driver_version) does not drive a GPU of compute capability {capability}, which this host "
        "has. R{last} is the last branch that does. Allowed: {last}.x or older; put such a driver into the bundle.",
        "zh": "驱动 {version}（nvidia_driver_version）不支持本主机上计算能力为 {capability} 的 GPU，R{last} 是最后一个支持它的分支。"
        "允许：{last}.x 或更旧的版本；请将这样的驱动放入离线包。",
    },
    "open_module": {
        "en": "nvidia_driver_kernel_module is open, but this host has a GPU of compute capability {capability}: the open kernel "
        "modules drive 7.5 (Turing) and newer. Allowed: proprietary.",
        "zh": "nvidia_driver_kernel_module 为 open，但本主机的 GPU 计算能力为 {capability}：开放内核模块只支持 7.5（Turing）及更新的 GPU。"
        "允许：proprietary。",
    },
}


def driver_problems(
    version: str, capabilities: Iterable[str], kernel_module: str = "proprietary", lang: str = "en"
) -> list[str]:
    """Why this driver cannot be installed on a host with GPUs of these compute capabilities; empty if it can."""
    found = _VERSION.fullmatch(version)
    if not found:
        return [_text("version_malformed", lang, version=version or '""')]
    problems = []
    for capability in sorted(set(capabilities)):
        number = _number(capability)
        last = next((branch for below, branch in LAST_BRANCHES if number < below), None)
        if last is not None and int(found.group(1)) > last:
            problems.append(_text("branch_too_new", lang, version=version, capability=capability, last=last))
        if kernel_module == "open" and number < OPEN_SINCE:
            problems.append(_text("open_module", lang, capability=capability))
    return problems


def _number(capability: str) -> tuple[int, int]:
    major, _dot, minor = str(capability).partition(".")
    return int(major), int(minor or 0)


def _text(code: str, lang: str, **values: Any) -> str:
    texts = _TEXTS[code]
    return texts.get(lang, texts["en"]).format(**values)
