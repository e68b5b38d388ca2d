"""What a plan says beside the plan itself: no host is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.playbooks import playbook

# Playbooks in processes.
pytestmark = pytest.mark.slow

IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), ""),
        (("-e", f"monitoring_dcgm_image={IMAGE}"), f"nvidia-smi, since the bundle does not hold {IMAGE}"),
        (("-e", f"monitoring_dcgm_image={IMAGE}", "-e", "llm_offline=false"), f"NVIDIA's DCGM exporter ({IMAGE})"),
    ],
    ids=["no image", "not in the bundle", "from a registry"],
)
def test_a_plan_says_what_will_measure_the_gpus(tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    (tmp_path / "watch.yml").write_text("llm_monitoring: {hosts: {gpu01: }}\n")
    inventories = ("-i", "inventories/offline_v100", "-i", str(tmp_path / "watch.yml"))
    done = playbook("playbooks/plan.yml", *inventories, "-e", f"llm_report_dir={tmp_path}", *more)
    assert done.returncode == 0, done.stdout
    found = [line for line in done.stdout.splitlines() if line.startswith("GPU figures of ")]
    assert found == ([f"GPU figures of gpu01, gpu02, gpu03: {said}"] if said else [])
    if said:
        assert found[0] in (tmp_path / "report.txt").read_text()
