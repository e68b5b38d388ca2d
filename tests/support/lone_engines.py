"""A site that serves one model on one host, with an engine whose server is one container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import DecisionInput, Readers, decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory

from tests.support.deployments import ROLES, host

HOST = "gpu1"


class LoneSite:
    """``said`` are the variables of the deployment, ``bundle`` is the folder of the bundle and ``records`` what its manifest has.

    ``read`` returns a file of JSON by its path, and ``gpus`` are those of the host, two V100 with 16 GiB where nothing is said.
    """

    def __init__(
        self,
        engine: str,
        deployment: str,
        said: Mapping[str, Any],
        records: list[dict[str, Any]] | None = None,
        read: Callable[[str], dict[str, Any]] = lambda path: {},
        bundle: str = "/bundle",
        gpus: list[dict[str, Any]] | None = None,
    ) -> None:
        self.engine, self.name = engine, deployment
        self.records, self.read = list(records or []), read
        self.defaults = yaml.safe_load((ROLES / engine / "defaults/main.yml").read_text(encoding="utf-8"))
        self.said = {"llm_engine": engine, **said}
        self.deployments = {deployment: {"hosts": [HOST], "head": HOST}}
        self.variables = {name: value for name, value in host(1, 2).items() if not name.startswith("vllm_")}
        self.variables |= {**self.defaults, **self.said, "llm_bundle_dir": bundle}
        self.gpus = gpus

    def checked(self, *hosts: str, **said: Any) -> dict[str, Any]:
        """The check of the inventory; a variable without a value is not there."""
        hosts = hosts or (HOST,)
        groups = {
            "llm_deployments": {"hosts": list(hosts), "children": [self.name]},
            self.name: {"hosts": list(hosts), "children": []},
        }
        mine = {"llm_offline": False, **self.said, **said}
        variables = {name: value for name, value in mine.items() if value is not None}
        return check_inventory(dict.fromkeys(hosts, variables), groups, known_variables())

    def decided(
        self,
        language: str = "en",
        gpus: list[dict[str, Any]] | None = None,
        config: dict[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """The decision, with other GPUs, another config.json or other variables."""
        mine = {**self.variables, **more}
        if gpus or self.gpus:
            mine["ansible_facts"] = {**mine["ansible_facts"], "llm_gpus_found": gpus or self.gpus}
        question = DecisionInput(self.deployments, {HOST: mine}, [HOST], language=language)
        read = self.read if config is None else lambda path: config
        return decide(question, Readers(lambda bundle: self.records, read))

    def plan(self, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.decided(**more)["plans"][self.name]
        return found

    def refused(self, **more: Any) -> str:
        """Why it is not planned."""
        [problem] = self.decided(**more)["problems"]
        return str(problem["what"])

    def section(self, **more: Any) -> dict[str, Any]:
        """What the roles read on the host."""
        found: dict[str, Any] = self.decided(**more)["hosts"][HOST]
        return found

    def server(self, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.section(**more)[self.engine]
        return found
