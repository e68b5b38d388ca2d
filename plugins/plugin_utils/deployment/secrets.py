# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of a deployment that are made once and kept on the controller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.work import digest

# The secrets of a deployment that lie in llm_secrets_dir, where no variable holds them.
SECRETS = ("ray_token", "api_key")


def secret_digests(variables: Mapping[str, Any], deployment: str) -> dict[str, str]:
    """A digest of each secret of a deployment that was made once and is kept on the controller."""
    folder = Path(str(variables["llm_secrets_dir"])).expanduser()
    files = {name: folder / f"{deployment}_{name}" for name in SECRETS}
    return {name: digest(file.read_text(encoding="utf-8")) for name, file in files.items() if file.is_file()}
