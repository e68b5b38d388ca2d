"""The settings of the container toolkit, and the libraries that programs get."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.baremetal.llm.plugins.module_utils import _toolkit as toolkit

from tests.support.host_reports import Recorded, plant

# As the package brings the file, with two lines of others.
CONFIG = """#accept-nvidia-visible-devices-as-volume-mounts = false
accept-nvidia-visible-devices-envvar-when-unprivileged = false
disable-require = false

[nvidia-container-cli]
root = "/run/nvidia/driver"
ldconfig = "@/sbin/ldconfig.real"
#path = "/usr/bin/nvidia-container-cli"

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
"""
# ldconfig -p, as in NVIDIA/nvidia-container-toolkit#1679.
CACHE = """1284 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6,AArch64) => /usr/local/cuda-13.0/compat/libcuda.so.1
\tlibcuda.so.1 (libc6,AArch64) => /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1
\tlibnvidia-ml.so.1 (libc6) => /usr/lib/i386-linux-gnu/libnvidia-ml.so.1
\tlibnvidia-ml.so.1 (libc6,x86-64, OS ABI: Linux 2.3.99) => /usr/lib64/libnvidia-ml.so.1
\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12
"""


def test_settings_outside_of_comments(tmp_path: Path) -> None:
    assert toolkit.toolkit_settings(str(tmp_path)) == {}
    plant(tmp_path, {toolkit.CONFIG: CONFIG})
    assert toolkit.toolkit_settings(str(tmp_path)) == {
        "accept-nvidia-visible-devices-envvar-when-unprivileged": "false",
        "disable-require": "false",
        "nvidia-container-cli.root": "/run/nvidia/driver",
        "nvidia-container-cli.ldconfig": "@/sbin/ldconfig.real",
        "nvidia-container-runtime.modes.cdi.annotation-prefixes": '["cdi.k8s.io/"]',
    }


def test_a_program_of_the_host_that_the_settings_name(tmp_path: Path) -> None:
    def missing(said: str) -> str:
        return toolkit.ldconfig_missing({"nvidia-container-cli.ldconfig": said}, str(tmp_path))

    plant(tmp_path, {"sbin/ldconfig": ""})
    assert missing("@/sbin/ldconfig.real") == "/sbin/ldconfig.real"
    assert missing("@/sbin/ldconfig") == ""
    # One of the container, and the program's own choice.
    assert missing("/sbin/ldconfig.real") == ""
    assert toolkit.ldconfig_missing({}, str(tmp_path)) == ""


def test_libraries_that_the_loader_finds_first(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "usr/local/cuda-13.0/compat/libcuda.so.1": "=> libcuda.so.580.65.06",
            "usr/lib64/libnvidia-ml.so.1": "no link",
        },
    )
    assert toolkit.driver_libraries(Recorded({"ldconfig": CACHE}), str(tmp_path)) == [
        {"name": "libcuda.so.1", "path": "/usr/local/cuda-13.0/compat/libcuda.so.1", "version": "580.65.06"},
        {"name": "libnvidia-ml.so.1", "path": "/usr/lib64/libnvidia-ml.so.1", "version": ""},
    ]
    assert toolkit.driver_libraries(Recorded({}), str(tmp_path)) == []
