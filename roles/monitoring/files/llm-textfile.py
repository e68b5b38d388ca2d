# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what nvidia-smi, the kernel's log and the probe say as metrics, into files that node_exporter serves. systemd runs it as soon as the
probe has looked, and every few seconds where it does not.

GPUs have the names and labels of NVIDIA's DCGM exporter (etc/default-counters.csv of NVIDIA/dcgm-exporter), so that rules and dashboards fit
both. What a card does not report is left out. nvidia-smi costs most of a run, so it is asked less often than the probe's state is read.

A start of Python and its imports cost the most of all other runs: so no argparse here, and what few runs need is imported where it is used.
"""

import getopt
import json
import os
import re
import sys
import time

GPU_FILE, MODELS_FILE, PROBE_FILE = "llm-gpu.prom", "llm-models.prom", "llm-probe.prom"
# How old the figures of the GPUs and of the models may become.
SELDOM_SECONDS = 55
# As docs/guides/monitoring.md names it.
BACKUP = "metrics*.tar.gz"
# Each with a value, and the value where it is not given.
OPTIONS = {
    # Where node_exporter looks for files.
    "folder": "",
    # The probe's file.
    "state": "/run/llm-probe/state.json",
    # The folder of the models.
    "models": "/opt/llm/models",
    # The file of llm-journal-gate.
    "journals": "",
    # The folder of backups.
    "backup": "",
    # What measures the GPUs: nvidia-smi, or dcgm for NVIDIA's exporter.
    "gpus": "nvidia-smi",
}
NVIDIA_SMI_SECONDS = 20
JOURNAL_SECONDS = 5
# As the driver logs it, and journalctl shows it: 1700000000.123456 gpu01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=...
# https://docs.nvidia.com/deploy/xid-errors/
XID = re.compile(r"^(\d+\.\d+) .*NVRM: Xid \(PCI:([0-9a-fA-F:.]+)[^)]*\): (\d+)")

# Metric, what it is, and where nvidia-smi -q -x says it: the newest driver's element first, then those of older ones.
GPU_METRICS = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)", "utilization/gpu_util"),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %)", "utilization/memory_util"),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)", "fb_memory_usage/used"),
    ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB)", "fb_memory_usage/free"),
    (
        "DCGM_FI_DEV_POWER_USAGE",
        "Power draw (in W)",
        "gpu_power_readings/instant_power_draw|gpu_power_readings/power_draw|power_readings/power_draw",
    ),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)", "temperature/gpu_temp"),
    ("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C)", "temperature/memory_temp"),
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz)", "clocks/sm_clock"),
    ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz)", "clocks/mem_clock"),
    ("DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe generation in use", "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
    ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe lanes in use", "pci/pci_gpu_link_info/link_widths/current_link_width"),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "PCIe generation at most", "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
    ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "PCIe lanes at most", "pci/pci_gpu_link_info/link_widths/max_link_width"),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "PCIe retries", "pci/replay_counter"),
    (
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "Uncorrectable memory errors since the driver was loaded",
        "ecc_errors/volatile/dram_uncorrectable|ecc_errors/volatile/double_bit/total",
    ),
    (
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "Corrected memory errors since the driver was loaded",
        "ecc_errors/volatile/dram_correctable|ecc_errors/volatile/single_bit/total",
    ),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped for errors", "remapped_rows/remapped_row_unc"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed", "remapped_rows/remapped_row_failure"),
    (
        "DCGM_FI_DEV_RETIRED_DBE",
        "Pages retired for double bit errors",
        "retired_pages/double_bit_retirement/retired_count",
    ),
)
# Reasons for lower clocks that are a sign of trouble. A power cap is somebody's setting.
TROUBLE = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
WORDS = {"yes": 1.0, "no": 0.0}

# What the probe's state says, by its key.
PROBE_METRICS = (
    ("llm_probe_failures", "Failed looks in a row", "failures"),
    ("llm_probe_silence_seconds", "How long nothing was generated", "silence"),
    ("llm_probe_starts", "Starts without a token", "starts"),
    ("llm_probe_restarts", "Restarts by the probe without a token since", "restarts"),
    ("llm_probe_loading_seconds", "How long the server has been loading", "loading"),
    ("llm_probe_start_seconds", "What the last start took", "start_seconds"),
    ("llm_probe_start_expected_seconds", "What a start should take at most by weights and disk", "start_expected"),
)
# What llama.cpp counts, as the probe read it: its own page asks for the key, which Prometheus does not have.
LLAMA = "llamacpp:"
LLAMA_METRICS = (
    ("requests_processing", "Requests that are computed"),
    ("requests_deferred", "Requests that wait"),
    ("prompt_tokens_total", "Tokens of prompts"),
    ("prompt_tokens_cached_total", "Tokens of prompts that were in the cache"),
    ("tokens_predicted_total", "Tokens that were generated"),
)


def number(text):
    """The figure at the beginning of a text such as 35 C or 16x; None where there is none."""
    text = (text or "").strip().lower()
    if text in WORDS:
        return WORDS[text]
    found = re.match(r"-?\d+(?:\.\d+)?", text)
    return float(found.group()) if found else None


def first(node, paths):
    """The first figure that a card gives under one of these paths."""
    found = (number(node.findtext(path)) for path in paths.split("|"))
    return next((value for value in found if value is not None), None)


def escaped(text):
    return str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Page:
    """Metrics in Prometheus's text format, those of a name together."""

    def __init__(self):
        self.metrics = {}

    def add(self, name, text, value, **labels):
        if value is not None:
            inner = ",".join('{0}="{1}"'.format(key, escaped(each)) for key, each in labels.items())
            line = "{0}{1} {2!r}".format(name, "{" + inner + "}" if inner else "", float(value))
            self.metrics.setdefault(name, (text, []))[1].append(line)

    def __str__(self):
        lines = []
        for name, (text, samples) in self.metrics.items():
            lines += ["# HELP {0} {1}".format(name, text), "# TYPE {0} gauge".format(name), *samples]
        return "\n".join(lines) + "\n"


def gpu_page(xml, by_dcgm=False):
    """What nvidia-smi -q -x says; an empty text stands for a driver that does not answer. ``by_dcgm``: without what NVIDIA's exporter measures."""
    from xml.etree import ElementTree

    page = Page()
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        root = None
    page.add("llm_nvidia_smi_up", "Whether nvidia-smi answers", root is not None)
    if root is None:
        return page
    cards = root.findall("gpu")
    page.add("llm_gpus", "GPUs that the driver knows", len(cards))
    page.add("llm_nvidia_driver_info", "Version of the driver", 1, version=root.findtext("driver_version"))
    for index, card in enumerate(cards):
        labels = {
            "gpu": index,
            "UUID": card.findtext("uuid"),
            "pci_bus_id": card.get("id"),
            "device": "nvidia{0}".format(card.findtext("minor_number")),
            "modelName": card.findtext("product_name"),
        }
        for name, text, paths in () if by_dcgm else GPU_METRICS:
            page.add(name, text, first(card, paths), **labels)
        # Until R535 they were called throttle reasons.
        reasons = {
            re.sub("^clocks_(event|throttle)_reason_", "", node.tag): (node.text or "").strip()
            for parent in ("clocks_event_reasons", "clocks_throttle_reasons")
            for node in card.findall(parent + "/*")
        }
        if reasons:
            throttled = any(reasons.get(name) == "Active" for name in TROUBLE)
            page.add("llm_gpu_throttled", "Whether heat or power lowers the clocks", throttled, **labels)
    return page


def add_xids(page, lines):
    """The last error of each kind that the driver logged about a card since the boot."""
    last = {}
    for line in lines:
        found = XID.search(line)
        if found:
            last[found.group(2).lower(), found.group(3)] = float(found.group(1))
    for (card, xid), at in sorted(last.items()):
        page.add("llm_gpu_xid_timestamp_seconds", "When the driver last logged this Xid", at, pci_bus_id=card, xid=xid)


def models_page(state):
    """What each model of the host was when it arrived, and how many of its files are no longer so, by what the role models noted."""
    import hashlib

    page, models = Page(), {}
    for path, known in sorted(state.items()):
        if isinstance(known, dict):
            models.setdefault(path.split("/")[0], []).append((path, known.get("sha256"), known.get("stamp")))
    for model, files in models.items():
        content = "\n".join("{0} {1}".format(path, checksum) for path, checksum, _stamp in files)
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        page.add("llm_model_info", "Digest of the model's files", 1, model=model, digest=digest)
        bad = sum(stamp is None for _path, _checksum, stamp in files)
        page.add("llm_model_damaged_files", "Files that are not as they arrived", bad, model=model)
    return page


def add_journals(page, senders):
    """When the hosts that send their journals last did, by what llm-journal-gate noted."""
    for name, at in sorted(senders.items()):
        page.add("llm_journal_received_timestamp_seconds", "When the journal of a host last came", at, sender=name)


def add_backup(page, folder):
    """When the newest backup in a folder was written; of a folder without one since when it waits for one, which other files do not change."""
    import fnmatch

    try:
        with os.scandir(folder) as entries:
            files = [(entry.name, entry.stat().st_mtime) for entry in entries if entry.is_file()]
        backups = [written for name, written in files if fnmatch.fnmatch(name, BACKUP)]
        newest = max(backups) if backups else min([os.path.getmtime(folder)] + [written for dummy, written in files])
    except OSError:
        newest = 0
    page.add("llm_backup_written_timestamp_seconds", "When the last backup was written", newest)


def loaded(path):
    """The mapping in a JSON file; an empty one where there is none."""
    try:
        with open(path) as stream:
            content = json.load(stream)
    except (OSError, ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {}


def probe_page(states, now, page=None, **labels):
    """What the probe's state says. ``now``: seconds on the boot-time clock, as the state counts them. ``labels`` tell the deployments of a host."""
    page = page or Page()
    for container, state in sorted(states.items()):
        if not isinstance(state, dict) or "now" not in state:
            continue
        page.add(
            "llm_probe_age_seconds", "How long ago the probe looked", now - state["now"], container=container, **labels
        )
        kind = state.get("kind") or "unknown"
        page.add("llm_probe_state", "What the probe found", 1, container=container, state=kind, **labels)
        if state.get("image"):
            image = dict(labels, image=state["image"])
            page.add("llm_container_info", "Image of the container", 1, container=container, **image)
        for name, text, key in PROBE_METRICS:
            value = state.get(key)
            page.add(name, text, value if isinstance(value, (int, float)) else None, container=container, **labels)
        counters = state.get("counters")
        if isinstance(counters, dict) and "tokens_predicted_total" in counters:
            for name, text in LLAMA_METRICS:
                page.add(LLAMA + name, text, counters.get(name), **labels)
    return page


def probe_pages(path, now):
    """The same of the probes of all deployments of this host: where there are several, each has a folder with its name."""
    page = probe_page(loaded(path), now)
    folder, name = os.path.split(path)
    parent, prefix = os.path.dirname(folder), os.path.basename(folder) + "-"
    for other in sorted(os.listdir(parent)):
        if other.startswith(prefix):
            state = loaded(os.path.join(parent, other, name))
            probe_page(state, now, page, deployment=other[len(prefix) :])
    return page


def keep(folder, name, page):
    """Write so that node_exporter never reads half of it. The folder may be another user's, who does not know the name that it is written under."""
    path = os.path.join(folder, name)
    incoming = "{0}.{1}.new".format(path, os.urandom(8).hex())
    with open(incoming, "x") as stream:
        stream.write(str(page))
        os.fchmod(stream.fileno(), 0o644)
    os.replace(incoming, path)


def answer(seconds, *command):
    """What a program says; None where there is none of this name, empty where it fails."""
    import subprocess

    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False)
    except FileNotFoundError:
        return None
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def gpu_figures(by_dcgm):
    """What the driver says now, and what it has logged."""
    xml = answer(NVIDIA_SMI_SECONDS, "nvidia-smi", "-q", "-x")
    if xml is None:
        return Page()
    page = gpu_page(xml, by_dcgm)
    # journalctl fails where no line fits.
    said = answer(JOURNAL_SECONDS, "journalctl", "-k", "-b", "-q", "-o", "short-unix", "--grep", "NVRM: Xid")
    add_xids(page, (said or "").splitlines())
    return page


def is_older(path, seconds):
    try:
        age = time.time() - os.path.getmtime(path)
    except OSError:
        return True
    # A clock that was set back.
    return not 0 <= age < seconds


def given(arguments):
    """The options of this run."""
    pairs, rest = getopt.getopt(arguments, "", [name + "=" for name in OPTIONS])
    options = dict(OPTIONS, **{name[2:]: value for name, value in pairs})
    if rest or not options["folder"] or options["gpus"] not in ("nvidia-smi", "dcgm"):
        sys.exit("usage: llm-textfile.py --folder FOLDER [--gpus nvidia-smi|dcgm] and more, see OPTIONS in " + __file__)
    return options


def main():
    options = given(sys.argv[1:])
    folder = options["folder"]
    page = probe_pages(options["state"], time.clock_gettime(time.CLOCK_BOOTTIME))
    add_journals(page, loaded(options["journals"]))
    if options["backup"]:
        add_backup(page, options["backup"])
    page.add("llm_textfile_written_timestamp_seconds", "When these figures were written", time.time())
    keep(folder, PROBE_FILE, page)
    if is_older(os.path.join(folder, MODELS_FILE), SELDOM_SECONDS):
        keep(folder, MODELS_FILE, models_page(loaded(os.path.join(options["models"], ".bundle-state.json"))))
    # Last: a driver that hangs must not keep back what others say.
    if is_older(os.path.join(folder, GPU_FILE), SELDOM_SECONDS):
        keep(folder, GPU_FILE, gpu_figures(options["gpus"] == "dcgm"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
