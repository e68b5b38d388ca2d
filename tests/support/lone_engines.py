"""A site that serves one model on one host, with an engine whose server is one container."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import UNUSED, asked_by_decision
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import DecisionInput, Readers, decide
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import (
    known_variables,
    role_options,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.check import check_inventory

from tests.support.deployments import ROLES, host
from tests.support.each import check_each
from tests.support.gguf_models import Shape, write_model
from tests.unit.plugins.plugin_utils.gateway.test_decide import asked as asked_of_gateways

HOST = "gpu1"
# By what is tried the variables, and a part of what is said then.
Cases = Mapping[str, tuple[dict[str, Any], str]]
TINY = Shape(layers=2, hidden=256, heads=4, head=64, inner=512, vocabulary=320, context=2048)


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

    def checks_values(self, wrong: Cases) -> None:
        """Each of these values is refused before a host is touched, by a text with its variable; and so are two hosts."""

        def check(case: tuple[dict[str, Any], str]) -> None:
            said, variable = case
            problems = self.checked(**said)["problems"]
            assert len(problems) == 1
            assert variable in json.dumps(problems)

        check_each(wrong, check)
        assert [each["code"] for each in self.checked("gpu1", "gpu2")["problems"]] == ["engine_of_one_host"]

    def refuses(self, cases: Cases) -> None:
        """Nothing is planned with any of these, and the problem has these words."""

        def check(case: tuple[dict[str, Any], str]) -> None:
            said, words = case
            assert words in self.refused(**said)

        check_each(cases, check)

    def roles_with_work(self) -> set[str]:
        """The roles whose records have a digest of what they are asked for; those of others have nothing to do."""
        asked = asked_by_decision(self.section(), self.variables, role_options())
        return {role for role, digest in asked.items() if digest != UNUSED}

    def behind_a_gateway(self, check: str, **more: Any) -> list[str]:
        """The paths that a gateway lets through; ``check`` is the one by which it looks whether the server answers."""
        more = {f"{self.engine}_served_model_name": self.name, f"{self.engine}_port": 8080, **more}
        sections, problems = asked_of_gateways({"a": {**self.said, **self.defaults, **more}})
        assert problems == []
        (model,) = sections["gate"]["models"]
        assert (model["name"], model["check"], model["kind"]) == (self.name, check, "token")
        assert [replica["port"] for replica in model["replicas"]] == [8080]
        found: list[str] = sections["gate"]["paths"]
        return found


class GgufSite(LoneSite):
    """A bundle in a folder of the test with GGUF files of one model."""

    def __init__(self, engine: str, said: Mapping[str, Any], folder: Path) -> None:
        super().__init__(engine, "small", said, bundle=str(folder))
        self.bundle = folder

    def add(self, name: str, shape: Shape = TINY, model: str = "lab/tiny") -> GgufSite:
        """Write a file, whose SHA-256 in the manifest is that of nothing."""
        path = f"models/{model.replace('/', '--')}/{name}"
        write_model(self.bundle / path, shape)
        size = (self.bundle / path).stat().st_size
        self.records.append({"path": path, "kind": "model", "model": model, "sha256": "5" * 64, "size": size})
        return self
