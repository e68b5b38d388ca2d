# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/diagnose.yml, as people call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.playbooks import playbook

pytestmark = pytest.mark.slow
LOG = """INFO starting
(Worker_TP0 pid=1) ERROR 08-16 18:47:21 [core.py:456] RuntimeError: FlashAttention only supports Ampere GPUs or newer.
RuntimeError: Engine core initialization failed. See root cause above.
"""


@pytest.mark.parametrize(
    ("lang", "said"),
    [
        (
            "en",
            (
                "FlashAttention needs a GPU of compute capability 8.0",
                "in the log: (Worker_TP0",
                "VLLM_ATTENTION_BACKEND",
            ),
        ),
        ("zh", ("FlashAttention 需要 compute capability 8.0", "日志：(Worker_TP0", "VLLM_ATTENTION_BACKEND")),
    ],
)
def test_a_saved_log_is_explained(tmp_path: Path, lang: str, said: tuple[str, ...]) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(LOG, encoding="utf-8")
    run = playbook("playbooks/diagnose.yml", "-i", "localhost,", "-e", f"llm_log={log}", "-e", f"llm_language={lang}")
    assert run.returncode == 0, run.stdout + run.stderr
    for part in said:
        assert part in run.stdout
    assert "changed=0" in run.stdout


@pytest.mark.parametrize(("value", "said"), [("", "is not set (-e llm_log=FILE)"), ("/no/such.log", "No such file")])
def test_a_file_that_is_not_there_is_refused(value: str, said: str) -> None:
    run = playbook("playbooks/diagnose.yml", "-i", "localhost,", "-e", f"llm_log={value}")
    assert run.returncode != 0
    assert said in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
