# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's simulated hardware: the programs run as processes, with LAB_ROOT in place of a host's file system."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.sim.hardware import GPU_MODELS, hardware, pci_tree
from lab.sim.runfile import build_runfile, runfile_bytes
from lab.sim.toolkit import PROGRAMS, build_toolkit, toolkit_bytes
from tests.support import lab_smi
from tests.support.each import check_each

# Installers and programs of the lab in processes.
pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[2] / "data" / "nvidia_smi"
V100 = "Tesla V100-PCIE-16GB"
VERSION = "570.195.03"


def run(
    root: Path, *command: str | Path, status: int = 0, text: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of the simulated host and check its exit status."""
    variables = {**os.environ, "LAB_ROOT": str(root), "TZ": "UTC", **environment}
    words = [str(word) for word in command]
    if not words[0].startswith("/bin/"):
        words.insert(0, sys.executable)
    result = subprocess.run(words, env=variables, capture_output=True, text=True, input=text, check=False)
    assert result.returncode == status, result.stdout + result.stderr
    return result


def make_host(root: Path, model: str = V100, count: int = 2) -> Path:
    (root / "etc/lab").mkdir(parents=True)
    (root / "etc/lab/hardware.json").write_text(json.dumps(hardware("node3", model, count)))
    return root


@pytest.fixture(scope="module")
def runfiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runfiles")
    for version in (VERSION, "580.159.04", "590.48.01"):
        build_runfile(version, folder)
    return folder


def install(
    root: Path, runfiles: Path, version: str, *options: str, status: int = 0
) -> subprocess.CompletedProcess[str]:
    return run(root, "/bin/sh", runfiles / f"NVIDIA-Linux-x86_64-{version}.run", *options, status=status)


def smi(root: Path, *arguments: str, status: int = 0) -> str:
    """What the host's own nvidia-smi prints."""
    return lab_smi.answer(root, *arguments, status=status, program=root / "usr/bin/nvidia-smi")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, runfiles: Path) -> Path:
    """Hosts with an installed and loaded driver, to be copied: installing takes longer than most tests."""
    folder = tmp_path_factory.mktemp("hosts")
    install(make_host(folder / "v100"), runfiles, VERSION, "--silent")
    install(make_host(folder / "h200", "NVIDIA H200", 2), runfiles, "580.159.04", "--silent")
    buses = [gpu["bus_id"] for gpu in hardware("node3", "NVIDIA H200", 2)["gpus"]]
    (folder / "h200/proc/driver/nvidia/.lab-state.json").write_text(json.dumps({"persistence": buses}))
    return folder


@pytest.fixture
def host(tmp_path: Path, prepared: Path) -> Path:
    """A host with two V100 and a loaded driver."""
    return Path(shutil.copytree(prepared / "v100", tmp_path / "host", symlinks=True))


@pytest.fixture
def h200(tmp_path: Path, prepared: Path) -> Path:
    """A host like the one of the captures."""
    return Path(shutil.copytree(prepared / "h200", tmp_path / "h200", symlinks=True))


# -- hardware ----------------------------------------------------------------------------------------------------------


def test_a_host_that_is_built_again_has_the_same_gpus() -> None:
    assert hardware("node1", V100, 2) == hardware("node1", V100, 2)
    uuids = {gpu["uuid"] for name in ("node1", "node2") for gpu in hardware(name, V100, 2)["gpus"]}
    assert len(uuids) == 4
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids)


@pytest.mark.parametrize(
    ("model", "count", "message"),
    [("Tesla V1000", 1, "unknown GPU model"), (V100, 17, "0 to 16"), (V100, -1, "0 to 16")],
)
def test_hardware_refuses_what_it_does_not_know(model: str, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hardware("node1", model, count)


def test_pci_tree_shows_the_cards_as_sysfs_does() -> None:
    tree = pci_tree(hardware("node1", V100, 1))
    base = "/sys/bus/pci/devices/0000:3b:00.0/"
    assert tree[base + "vendor"] == "0x10de\n"
    assert tree[base + "device"] == "0x1db4\n"
    assert tree[base + "class"] == "0x030200\n"
    assert pci_tree(hardware("node1", V100, 0)) == {}


def test_every_model_can_be_shown(host: Path) -> None:
    check_each({model: (host, model) for model in GPU_MODELS}, shows)


def shows(case: tuple[Path, str]) -> None:
    host, model = case
    (host / "etc/lab/hardware.json").write_text(json.dumps(hardware("node3", model, 1)))
    assert model in smi(host, "-L")
    details = ET.fromstring(smi(host, "-q", "-x"))
    assert details.findtext("gpu/product_name") == model
    total, reserved, free = (
        int((details.findtext(f"gpu/fb_memory_usage/{part}") or "").removesuffix(" MiB"))
        for part in ("total", "reserved", "free")
    )
    assert smi(host, "--query-gpu=memory.total", "--format=csv,noheader,nounits") == f"{total}\n"
    assert total == GPU_MODELS[model]["memory_mib"] == reserved + free


# -- nvidia-smi against the captures -----------------------------------------------------------------------------------


def form(text: str) -> str:
    """Return a text without what differs between two machines: identities, places, the clock, what a card measures."""
    text = re.sub(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}", "DATE", text)
    text = re.sub(r"GPU-[0-9a-f-]{36}", "UUID", text)
    text = re.sub(r"0000(0000)?:[0-9A-F]{2}:[0-9A-F]{2}\.0", "BUS", text)
    text = re.sub(r"(?<=[ >])\d+(\.\d+)?(?= ?(W|C|KB/s|MHz)\b)", "#", text)
    text = re.sub(r" *#W", " #W", text)
    text = re.sub(r"0-\d+\t", "CPUS\t", text)
    return re.sub(r"143156|143155", "FREE", text)


@pytest.mark.parametrize(("arguments", "capture"), [(("-L",), "L.txt"), (("topo", "-m"), "topo.txt")])
def test_output_has_the_form_of_the_capture(h200: Path, arguments: tuple[str, ...], capture: str) -> None:
    assert form(smi(h200, *arguments)) == form((CAPTURES / capture).read_text())


def test_who_reads_whose_memory_is_as_captured(h200: Path) -> None:
    captured = (CAPTURES / "p2p_two_h200.txt").read_text()
    assert smi(h200, "topo", "-p2p", "r") == captured + "  U    = Unknown\n"


FIELDS = "index,uuid,name,memory.total,compute_cap,driver_version,pci.bus_id,persistence_mode"


def test_query_has_the_form_of_the_capture(h200: Path) -> None:
    header, *rows = (line.split(", ") for line in (CAPTURES / "query.csv").read_text().splitlines())
    asked = [index for index, name in enumerate(header) if name.split(" ")[0] in FIELDS.split(",")]
    expected = "".join(", ".join(line[index] for index in asked) + "\n" for line in (header, *rows))
    assert form(smi(h200, f"--query-gpu={FIELDS}", "--format=csv")) == form(expected)


def shape(element: ET.Element) -> Any:
    """Return the names in an element, lists of clocks cut to their first."""
    children = list(element)
    if element.tag == "supported_mem_clock":
        children = children[:2]
    if element.tag == "supported_clocks":
        children = children[:1]
    return element.tag, [shape(child) for child in children]


def test_xml_has_the_structure_of_the_capture(h200: Path) -> None:
    text = smi(h200, "-q", "-x")
    expected = (CAPTURES / "smi.xml").read_text()
    assert text.splitlines()[:3] == expected.splitlines()[:3]
    assert shape(ET.fromstring(text)) == shape(ET.fromstring(expected))
    assert text.count("\t<gpu id=") == 2
    assert text.endswith("\t</gpu>\n\n</nvidia_smi_log>\n")


def answers() -> list[tuple[str, int, str]]:
    blocks = (CAPTURES / "answers.txt").read_text().split("--- ")[1:]
    result = []
    for block in blocks:
        arguments, status, output = block.split("\n", 2)
        result.append((arguments, int(status.removeprefix("rc=")), output))
    return result


MISTAKES = ("--query-gpu=index,bogus ", "--query-gpu=bogus,bogus2 ", "--query-gpu=index --format=xml")


@pytest.mark.parametrize(
    ("arguments", "status", "output"), [answer for answer in answers() if answer[0].startswith(MISTAKES)]
)
def test_mistakes_are_answered_as_by_the_real_program(h200: Path, arguments: str, status: int, output: str) -> None:
    assert smi(h200, *arguments.split(), status=status) == output


@pytest.mark.parametrize("question", ["", "--bogus", "-pm 1", "-q", "-L -i 0", "nvlink -s", "--query-gpu=index"])
def test_what_nobody_asks_is_refused_by_name(h200: Path, question: str) -> None:
    assert smi(h200, *question.split(), status=255).startswith(
        f"ERROR: the lab's nvidia-smi does not know '{question}'. "
    )


@pytest.mark.parametrize(("arguments", "status"), [(("-L",), 0), (("-q", "-x"), 0), (("--no-such",), 255)])
def test_as_a_program_it_says_the_same(h200: Path, arguments: tuple[str, ...], status: int) -> None:
    done = run(h200, h200 / "usr/bin/nvidia-smi", *arguments, status=status)
    assert done.stderr == ""
    assert form(done.stdout) == form(smi(h200, *arguments, status=status))


# -- nvidia-smi on a V100 ----------------------------------------------------------------------------------------------


def test_the_query_of_a_v100(host: Path) -> None:
    output = smi(host, "--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader")
    assert output.splitlines() == [f"{V100}, 16384 MiB, 7.0, {VERSION}"] * 2


def test_no_process_is_on_a_gpu(host: Path) -> None:
    question = "--query-compute-apps=pid,process_name,used_memory"
    assert smi(host, question, "--format=csv") == "pid, process_name, used_gpu_memory [MiB]\n"
    assert smi(host, question, "--format=csv,noheader,nounits") == ""


def test_v100_xml(host: Path) -> None:
    root = ET.fromstring(smi(host, "-q", "-x"))
    assert root.findtext("driver_version") == VERSION
    assert root.findtext("cuda_version") == "12.8"
    assert [gpu.findtext("fb_memory_usage/total") for gpu in root.findall("gpu")] == ["16384 MiB", "16384 MiB"]
    assert root.findtext("gpu/remapped_rows") == "N/A"
    assert root.findtext("gpu/ecc_errors/volatile/double_bit/total") == "0"
    assert root.findtext("gpu/mig_mode/current_mig") == "N/A"


def test_topology_of_cards_without_nvlink(host: Path) -> None:
    rows = [line.split("\t") for line in smi(host, "topo", "-m").splitlines()[1:3]]
    assert [row[:3] for row in rows] == [["GPU0", " X ", "PHB"], ["GPU1", "PHB", " X "]]


def test_what_a_field_says_can_be_overridden(host: Path) -> None:
    path = host / "etc/lab/hardware.json"
    content = json.loads(path.read_text())
    content["gpus"][0]["fields"] = {"temperature.gpu": 91, "ecc.errors.uncorrected.volatile.total": 3}
    path.write_text(json.dumps(content))
    hot, cool = ET.fromstring(smi(host, "-q", "-x")).findall("gpu")
    assert (hot.findtext("temperature/gpu_temp"), cool.findtext("temperature/gpu_temp")) == ("91 C", "35 C")
    assert hot.findtext("ecc_errors/volatile/double_bit/total") == "3"
    assert cool.findtext("ecc_errors/volatile/double_bit/total") == "0"
    content["gpus"][0]["fields"] = {"temprature.gpu": 91}
    path.write_text(json.dumps(content))
    assert "temprature.gpu" in smi(host, "-q", "-x", status=2)


def test_persistence_mode(host: Path) -> None:
    bus = hardware("node3", V100, 2)["gpus"][0]["bus_id"]
    (host / "proc/driver/nvidia/.lab-state.json").write_text(json.dumps({"persistence": [bus]}))
    assert smi(host, "--query-gpu=persistence_mode", "--format=csv,noheader") == "Enabled\nDisabled\n"


def test_a_card_that_fell_off_the_bus_is_not_shown(host: Path) -> None:
    shutil.rmtree(host / "proc/driver/nvidia/gpus/0000:3b:00.0")
    assert smi(host, "--query-gpu=index,pci.bus_id", "--format=csv,noheader") == "0, 00000000:5E:00.0\n"


# -- the installer -----------------------------------------------------------------------------------------------------


def test_the_same_version_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = build_runfile(VERSION, tmp_path / "a.run"), build_runfile(VERSION, tmp_path / "b.run")
    assert first.read_bytes() == second.read_bytes() == runfile_bytes(VERSION)
    assert os.access(first, os.X_OK)
    assert toolkit_bytes("1.17.8") == toolkit_bytes("1.17.8")


@pytest.mark.parametrize("version", ["570", "570.195.03.1", "v570.1", "57.1", "570.195/../x"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="no driver version"):
        runfile_bytes(version)


def test_command_line(tmp_path: Path) -> None:
    for module, version in (("lab.sim.runfile", VERSION), ("lab.sim.toolkit", "1.17.8")):
        result = subprocess.run(
            [sys.executable, "-m", module, version, str(tmp_path)], capture_output=True, text=True, check=True
        )
        assert Path(result.stdout.strip()).is_file()
        wrong = subprocess.run(
            [sys.executable, "-m", module, "x", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert (wrong.returncode, "'x' is no" in wrong.stderr) == (2, True)


def test_archive_options(tmp_path: Path, runfiles: Path) -> None:
    path = runfiles / f"NVIDIA-Linux-x86_64-{VERSION}.run"
    assert run(tmp_path, "/bin/sh", path, "--check").stdout == "Verifying archive integrity... OK\n"
    assert f"Driver for Linux-x86_64 {VERSION}" in run(tmp_path, "/bin/sh", path, "--info").stdout
    assert f"version {VERSION}" in run(tmp_path, "/bin/sh", path, "--version").stdout
    assert "./nvidia-smi" in run(tmp_path, "/bin/sh", path, "--list").stdout.replace("nvidia-smi", "./nvidia-smi")
    run(tmp_path, "/bin/sh", path, "--extract-only", "--target", tmp_path / "out")
    assert (tmp_path / "out/nvidia-installer").is_file()
    damaged = tmp_path / "damaged.run"
    damaged.write_bytes(path.read_bytes()[:-200])
    result = run(tmp_path, "/bin/sh", damaged, "--silent", status=2)
    assert "Error in SHA256 checksums" in result.stderr
    assert not (tmp_path / "usr").exists()


def test_install_leaves_what_the_real_one_leaves(host: Path) -> None:
    for name in ("nvidia-smi", "nvidia-persistenced", "nvidia-modprobe", "nvidia-uninstall", "nvidia-installer"):
        assert os.access(host / "usr/bin" / name, os.X_OK)
    library = host / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    assert os.readlink(library) == f"libnvidia-ml.so.{VERSION}"
    version = (host / "proc/driver/nvidia/version").read_text()
    assert version.startswith(f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {VERSION}  ")
    assert version.splitlines()[1].startswith("GCC version:  gcc version ")
    assert sorted(path.name for path in (host / "dev").iterdir()) == [
        "nvidia-uvm",
        "nvidia-uvm-tools",
        "nvidia0",
        "nvidia1",
        "nvidiactl",
    ]
    log = (host / "var/log/nvidia-installer.log").read_text()
    assert "nvidia-installer command line:\n    ./nvidia-installer\n    --silent\n" in log
    assert f"(version: {VERSION}) is now complete." in log


def test_open_module_says_so_as_captured(h200: Path) -> None:
    captured = (CAPTURES / "procversion.txt").read_text().split("580.159.04")[0]
    assert (h200 / "proc/driver/nvidia/version").read_text().split("580.159.04")[0] == captured
    bus = h200 / "proc/driver/nvidia/gpus/0000:3b:00.0/information"

    def labels(text: str) -> list[str]:
        return [line.split(":")[0] for line in text.splitlines()]

    assert labels(bus.read_text()) == labels((CAPTURES / "proc_information.txt").read_text())


def test_options_of_the_real_installer_are_taken(tmp_path: Path, runfiles: Path) -> None:
    root = make_host(tmp_path / "host")
    options = (
        "--ui=none --no-questions --accept-license --dkms --no-x-check --no-nouveau-check --no-drm --no-opengl-files"
    )
    options += " --kernel-module-type=proprietary --disable-nouveau --no-backup --rebuild-initramfs -j 2"
    log = tmp_path / "my.log"
    result = install(root, runfiles, VERSION, *options.split(), "--log-file-name", str(log))
    assert "is now complete" in result.stdout
    assert "is now complete" in log.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no-such-option"], 'unrecognized option: "--no-such-option"'),
        (["--silent", "--dkms=yes"], "does not take an argument"),
        (["--log-file-name"], "requires an argument"),
        (["--silent", "--kernel-module-type=closed"], "Invalid commandline"),
        (["--ui=gtk"], "not a valid argument"),
    ],
)
def test_a_wrong_option_installs_nothing(tmp_path: Path, runfiles: Path, options: list[str], message: str) -> None:
    root = make_host(tmp_path / "host")
    assert message in install(root, runfiles, VERSION, *options, status=1).stderr
    assert not (root / "usr").exists()


@pytest.mark.parametrize(
    ("version", "options"), [(VERSION, ["-m=kernel-open"]), (VERSION, ["-M", "open"]), ("590.48.01", [])]
)
def test_a_module_that_does_not_drive_the_card_is_not_installed(
    tmp_path: Path, runfiles: Path, version: str, options: list[str]
) -> None:
    root = make_host(tmp_path / "host")
    result = install(root, runfiles, version, "--silent", *options, status=1)
    assert "Unable to load the kernel module 'nvidia.ko'" in result.stderr
    assert not (root / "usr/bin/nvidia-smi").exists()
    assert "Kernel module load error" in (root / "var/log/nvidia-installer.log").read_text()


def test_upgrade_of_an_idle_driver_needs_no_reboot(host: Path, runfiles: Path) -> None:
    install(host, runfiles, "580.159.04", "--silent")
    assert "580.159.04" in smi(host, "--query-gpu=driver_version", "--format=csv,noheader")
    assert not (host / f"usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}").exists()


def test_upgrade_of_a_busy_driver_needs_a_reboot(host: Path, runfiles: Path) -> None:
    pid_file = host / "var/run/nvidia-persistenced/nvidia-persistenced.pid"
    pid_file.parent.mkdir(parents=True)
    pid_file.write_text(f"{os.getpid()}\n")  # something that runs
    install(host, runfiles, "580.159.04", "--silent", status=1)
    assert VERSION in smi(host, "--query-gpu=driver_version", "--format=csv,noheader")
    install(host, runfiles, "580.159.04", "--silent", "--allow-installation-with-running-driver")
    assert (
        smi(host, "-L", status=18)
        == "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n"
    )
    # The reboot: nothing is loaded, nothing runs, and the unit loads what is installed.
    shutil.rmtree(host / "proc")
    pid_file.unlink()
    run(host, host / "usr/lib/nvidia/lab-load-module")
    assert "580.159.04" in smi(host, "--query-gpu=driver_version", "--format=csv,noheader")


def test_persistence_daemon(host: Path) -> None:
    run(host, host / "usr/bin/nvidia-persistenced", "--verbose", "--user", "root")
    pid_file = host / "var/run/nvidia-persistenced/nvidia-persistenced.pid"
    pid = int(pid_file.read_text())
    try:
        assert "nvidia-persistenced" in run(host, host / "usr/lib/nvidia/lab-load-module", "--in-use").stdout
        assert "in use" in run(host, host / "usr/lib/nvidia/lab-load-module", "--unload", status=1).stderr
        run(host, host / "usr/bin/nvidia-persistenced", status=1)
    finally:
        os.kill(pid, 15)
    run(host, host / "usr/bin/nvidia-persistenced", "--no-such-option", status=1)


def test_without_a_driver(host: Path) -> None:
    shutil.rmtree(host / "proc")
    assert smi(host, "-L", status=9) == (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n"
    )
    (host / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").unlink()
    assert "couldn't find libnvidia-ml.so" in smi(host, "-L", status=12)


def test_a_host_without_gpus(tmp_path: Path, runfiles: Path) -> None:
    root = make_host(tmp_path / "host", count=0)
    install(root, runfiles, VERSION, "--silent", status=1)
    assert not (root / "proc").exists()


def test_uninstall(host: Path) -> None:
    assert "is complete" in run(host, host / "usr/bin/nvidia-uninstall").stdout
    left = [
        path
        for path in host.rglob("*")
        if "nvidia" in path.name and path.is_file() and not {"dev", "log"} & set(path.parts)
    ]
    assert left == []
    assert not (host / "proc/driver/nvidia").exists()


# -- the container toolkit ---------------------------------------------------------------------------------------------


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """The folder of the toolkit's programs."""
    path = build_toolkit("1.17.8", tmp_path)
    with tarfile.open(path) as archive:
        assert sorted(archive.getnames()) == [f"usr/bin/{name}" for name in PROGRAMS]
        archive.extractall(tmp_path / "toolkit")
    return tmp_path / "toolkit/usr/bin"


def test_toolkit_version(toolkit: Path, tmp_path: Path) -> None:
    assert run(tmp_path, toolkit / "nvidia-ctk", "--version").stdout.startswith(
        "NVIDIA Container Toolkit CLI version 1.17.8\n"
    )
    output = run(tmp_path, toolkit / "nvidia-container-runtime", "--version", LAB_RUNC="/bin/true").stdout
    assert output.startswith("NVIDIA Container Runtime version 1.17.8\n")


EMPTY = '{\n    "runtimes": {\n        "nvidia": {\n            "args": [],\n            "path": "nvidia-container-runtime"\n        }\n    }\n}'


def test_runtime_configure_makes_daemon_json(toolkit: Path, tmp_path: Path) -> None:
    result = run(tmp_path, toolkit / "nvidia-ctk", "runtime", "configure", "--runtime=docker")
    assert (tmp_path / "etc/docker/daemon.json").read_text() == EMPTY
    assert re.findall(r'level=info msg="(.*)"', result.stderr) == [
        "Config file does not exist; using empty config",
        "Wrote updated config to /etc/docker/daemon.json",
        "It is recommended that docker daemon be restarted.",
    ]


def test_runtime_configure_keeps_what_is_there(toolkit: Path, tmp_path: Path) -> None:
    path = tmp_path / "etc/docker/daemon.json"
    path.parent.mkdir(parents=True)
    before = {"log-driver": "local", "runtimes": {"kata": {"path": "kata-runtime"}}, "data-root": "/a&b", "dns": []}
    path.write_text(json.dumps(before))
    dry = run(tmp_path, toolkit / "nvidia-ctk", "runtime", "configure", "--dry-run").stdout
    assert json.loads(path.read_text()) == before
    run(tmp_path, toolkit / "nvidia-ctk", "runtime", "configure", "--set-as-default")
    after = json.loads(path.read_text())
    nvidia = {"args": [], "path": "nvidia-container-runtime"}
    assert after == {
        **before,
        "default-runtime": "nvidia",
        "runtimes": {"kata": {"path": "kata-runtime"}, "nvidia": nvidia},
    }
    assert json.loads(dry) == {key: value for key, value in after.items() if key != "default-runtime"}
    assert "/a\\u0026b" in path.read_text()  # as Go writes it
    once = path.read_bytes()
    run(tmp_path, toolkit / "nvidia-ctk", "runtime", "configure", "--runtime=docker")
    assert path.read_bytes() == once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--runtime=podman"], "unrecognized runtime 'podman'"),
        (["--no-such"], "flag provided but not defined: -no-such"),
    ],
)
def test_runtime_configure_refuses(toolkit: Path, tmp_path: Path, options: list[str], message: str) -> None:
    assert message in run(tmp_path, toolkit / "nvidia-ctk", "runtime", "configure", *options, status=1).stderr
    assert not (tmp_path / "etc").exists()


def test_runtime_configure_refuses_a_broken_file(toolkit: Path, tmp_path: Path) -> None:
    path = tmp_path / "etc/docker/daemon.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert (
        "unable to load config for runtime docker"
        in run(tmp_path, toolkit / "nvidia-ctk", "runtime", "configure", status=1).stderr
    )
    assert path.read_text() == "{"


def test_cdi(toolkit: Path, host: Path) -> None:
    output = run(host, toolkit / "nvidia-ctk", "cdi", "generate", "--format=yaml").stdout
    spec = yaml.safe_load(output)
    assert spec["kind"] == "nvidia.com/gpu"
    uuids = [gpu["uuid"] for gpu in hardware("node3", V100, 2)["gpus"]]
    assert [device["name"] for device in spec["devices"]] == ["0", "1", *uuids, "all"]
    shutil.rmtree(host / "proc")
    assert "Driver Not Loaded" in run(host, toolkit / "nvidia-ctk", "cdi", "generate", status=1).stderr


def bundle(folder: Path, *environment: str) -> Path:
    (folder / "rootfs").mkdir(parents=True)
    config = {
        "ociVersion": "1.0.2",
        "process": {"env": ["PATH=/usr/bin:/bin", *environment]},
        "root": {"path": "rootfs"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def runc(tmp_path: Path) -> str:
    """A runc that writes down its arguments and runs the prestart hooks of the bundle, as the real one does."""
    path = tmp_path / "runc"
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, subprocess, sys\n"
        "open(sys.argv[0] + '.log', 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "if 'create' in sys.argv:\n"
        "    folder = sys.argv[sys.argv.index('--bundle') + 1]\n"
        "    config = json.load(open(os.path.join(folder, 'config.json')))\n"
        "    for hook in config['hooks']['prestart']:\n"
        "        state = json.dumps({'pid': 1, 'bundle': folder, 'status': 'creating'})\n"
        "        done = subprocess.run(hook['args'], executable=hook['path'], input=state, text=True, env=dict(word.split('=', 1) for word in hook['env']))\n"
        "        sys.exit(done.returncode)\n"
    )
    path.chmod(0o755)
    return str(path)


def create(host: Path, toolkit: Path, runc: str, folder: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    words = ["--root", "/run/runc", "create", "--bundle", str(folder), "--pid-file", "/run/x.pid", "abc"]
    return run(host, toolkit / "nvidia-container-runtime", *words, status=status, LAB_RUNC=runc)


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [("all", [0, 1]), ("1", [1]), ("0,1", [0, 1]), (hardware("node3", V100, 2)["gpus"][1]["uuid"], [1])],
)
def test_a_container_sees_the_gpus_it_asks_for(
    host: Path, toolkit: Path, runc: str, wanted: str, indices: list[int]
) -> None:
    folder = bundle(host.parent / "bundle", f"NVIDIA_VISIBLE_DEVICES={wanted}")
    create(host, toolkit, runc, folder)
    uuids = [hardware("node3", V100, 2)["gpus"][index]["uuid"] for index in indices]
    expected = "".join(f"GPU {number}: {V100} (UUID: {uuid})\n" for number, uuid in enumerate(uuids))
    assert smi(folder / "rootfs", "-L") == expected
    devices = {path.name for path in (folder / "rootfs/dev").iterdir()}
    assert devices == {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", *(f"nvidia{index}" for index in indices)}
    log = [json.loads(line) for line in Path(runc + ".log").read_text().splitlines()]
    assert log == [["--root", "/run/runc", "create", "--bundle", str(folder), "--pid-file", "/run/x.pid", "abc"]]
    create(host, toolkit, runc, folder)  # the hook is added once
    assert len(json.loads((folder / "config.json").read_text())["hooks"]["prestart"]) == 1


@pytest.mark.parametrize("environment", [(), ("NVIDIA_VISIBLE_DEVICES=void",), ("NVIDIA_VISIBLE_DEVICES=",)])
def test_a_container_that_asks_for_no_gpu_gets_none(
    host: Path, toolkit: Path, runc: str, environment: tuple[str, ...]
) -> None:
    folder = bundle(host.parent / "bundle", *environment)
    shutil.rmtree(host / "proc")  # and needs no driver
    create(host, toolkit, runc, folder)
    assert list((folder / "rootfs").iterdir()) == []


def test_a_container_with_the_driver_but_no_gpu(host: Path, toolkit: Path, runc: str) -> None:
    folder = bundle(host.parent / "bundle", "NVIDIA_VISIBLE_DEVICES=none")
    create(host, toolkit, runc, folder)
    assert smi(folder / "rootfs", "-L", status=6) == "No devices were found\n"


def test_driver_capabilities(host: Path, toolkit: Path, runc: str) -> None:
    folder = bundle(host.parent / "bundle", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute")
    create(host, toolkit, runc, folder)
    assert not (folder / "rootfs/usr/bin/nvidia-smi").exists()
    assert (folder / "rootfs/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists()


@pytest.mark.parametrize(
    ("wanted", "broken", "message"),
    [
        ("all", "proc", "nvidia-container-cli: initialization error: nvml error: driver not loaded\n"),
        (
            "all",
            "usr/lib/x86_64-linux-gnu",
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
        ),
        ("7", "", "nvidia-container-cli: device error: 7: unknown device\n"),
    ],
)
def test_a_container_without_its_gpus_does_not_start(
    host: Path, toolkit: Path, runc: str, wanted: str, broken: str, message: str
) -> None:
    if broken:
        shutil.rmtree(host / broken)
    folder = bundle(host.parent / "bundle", f"NVIDIA_VISIBLE_DEVICES={wanted}")
    result = create(host, toolkit, runc, folder, status=1)
    assert result.stderr.startswith("Auto-detected mode as 'legacy'\n" + message)


def test_other_runtime_commands_pass_through(host: Path, toolkit: Path, runc: str) -> None:
    run(host, toolkit / "nvidia-container-runtime", "--root", "/run/runc", "kill", "abc", "9", LAB_RUNC=runc)
    assert json.loads(Path(runc + ".log").read_text()) == ["--root", "/run/runc", "kill", "abc", "9"]


def test_settings_last_as_long_as_the_driver(tmp_path: Path, runfiles: Path) -> None:
    root = make_host(tmp_path)
    install(root, runfiles, VERSION, "--silent")
    assert "was set to 150.00 W from 250.00 W" in smi(root, "--power-limit=150")
    assert "Enabled persistence mode" in smi(root, "--persistence-mode=1")
    assert "<current_power_limit>150.00 W</current_power_limit>" in smi(root, "-q", "-x")
    assert "between 100.00 W and 250.00 W" in smi(root, "--power-limit=900", status=2)
    assert smi(root, "nvlink", "-e").count("GPU ") == 2
