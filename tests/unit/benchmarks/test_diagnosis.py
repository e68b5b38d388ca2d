# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of the diagnosis: which texts it takes from a release, and how it tells them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from benchmarks.diagnosis import codes, error_texts, log_texts

SOURCE = """
def check(size, parts):
    assert size % parts == 0, f"{size} is not divisible by {parts}"
    if size > 8:
        raise ValueError(f"LoRA rank {size} is greater than "
                         f"max_lora_rank {parts}.")
    logger.warning("The size %d is odd; see %s", size, parts)
    logger.error("It failed for good")
    raise RuntimeError(text)
"""


def test_error_texts_of_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-0.wheel"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("vllm/config.py", "vllm/worker/cpu_worker.py", "vllm/entrypoints/llm.py", "other/config.py"):
            archive.writestr(name, SOURCE)
    assert list(error_texts(wheel)) == [
        ("configuration", "8 is not divisible by 8"),
        ("configuration", "LoRA rank 8 is greater than max_lora_rank 8."),
    ]


def test_a_text_is_told_by_a_signature_or_by_its_family() -> None:
    assert codes("LoRA rank 8 is greater than max_lora_rank 8.") == ["lora_rank"]
    assert codes("lora_id must be greater than 0.") == ["family of lora_unsupported"]
    assert codes("the flux capacitor is empty") == []


def test_what_a_release_logs_without_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-0.wheel"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/anywhere.py", SOURCE)
    assert log_texts(wheel) == {"The size 8 is odd; see 8"}
