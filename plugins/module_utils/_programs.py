# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a module asks the programs of its host."""

from __future__ import annotations

from typing import Protocol


class Module(Protocol):
    """What an AnsibleModule offers."""

    def get_bin_path(self, arg: str) -> str | None: ...

    def run_command(
        self, args: list[str], check_rc: bool = False, *, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]: ...


class Programs:
    """Runs programs for an AnsibleModule. One that hangs, as nvidia-smi does with a dead card, is ended."""

    def __init__(self, module: Module, timeout_seconds: int = 60) -> None:
        self.module = module
        self.timeout_seconds = timeout_seconds

    def path(self, name: str) -> str:
        """Where a program is; empty where it is not installed."""
        return str(self.module.get_bin_path(name) or "")

    def run(self, command: list[str], must_succeed: bool = False) -> tuple[int, str, str]:
        """A command's exit status, output and complaint."""
        # timeout(1) is part of coreutils; run_command has no limit of its own.
        limit = self.path("timeout")
        prefix = [limit, "-k", "5", str(self.timeout_seconds)] if limit else []
        status, out, err = self.module.run_command(
            [*prefix, *command], check_rc=must_succeed, environ_update={"LC_ALL": "C", "LANG": "C"}
        )
        if prefix and status in (124, 137):
            err = "no answer within {0} seconds".format(self.timeout_seconds)
        return status, out, err

    def answer(self, name: str, *arguments: str) -> str:
        """What a program prints; nothing if it is not installed, fails, or takes too long."""
        path = self.path(name)
        status, out, _err = self.run([path, *arguments]) if path else (1, "", "")
        return out if status == 0 else ""
