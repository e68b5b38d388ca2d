"""Which stages have something to do where: records against what is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import changes
from hypothesis import given
from hypothesis import strategies as st

ROLES = [role for stage in changes.STAGES for role in changes.roles_of(stage)]
CODE = "c0de"
DEPLOYMENTS = {"pair": ["gpu1", "gpu2"], "single": ["gpu3"]}
HOSTS = ["gpu1", "gpu2", "gpu3"]


def asked(**changed: str) -> dict[str, str]:
    return {changes.CODE: CODE, **{role: changed.get(role, "same") for role in ROLES}}


def records(**changed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {role: {"digest": "same", "collection": CODE, "differs": [], **changed.get(role, {})} for role in ROLES}


def to_do(of_gpu1: dict[str, dict[str, Any]], asked_of_gpu1: dict[str, str] | None = None) -> dict[str, list[str]]:
    """The hosts by stage, with these records on the first host and perfect ones on the others."""
    wanted = {host: asked() for host in HOSTS} | {"gpu1": asked_of_gpu1 or asked()}
    found = changes.to_do(DEPLOYMENTS, wanted, {host: records() for host in HOSTS} | {"gpu1": of_gpu1})
    return {stage: sorted(hosts) for stage, hosts in found.items() if hosts}


def test_records_that_hold_leave_nothing_to_do() -> None:
    assert to_do(records()) == {}


@pytest.mark.parametrize(
    ("role", "stages"),
    [
        (
            "nvidia_driver",
            {"prepare": ["gpu1"], "images": ["gpu1"], "network": ["gpu1", "gpu2"], "serve": ["gpu1", "gpu2"]},
        ),
        ("images", {"images": ["gpu1"], "serve": ["gpu1", "gpu2"]}),
        ("models", {"models": ["gpu1"], "serve": ["gpu1", "gpu2"]}),
        ("network", {"network": ["gpu1", "gpu2"], "serve": ["gpu1", "gpu2"]}),
        ("vllm", {"serve": ["gpu1", "gpu2"]}),
    ],
)
def test_what_differs_on_a_host_concerns_later_stages_and_its_deployment(
    role: str, stages: dict[str, list[str]]
) -> None:
    assert to_do(records(**{role: {"differs": ["paths /etc/x"]}})) == stages
    assert to_do(records(), asked(**{role: "other"})) == stages
    assert to_do(records(**{role: {"collection": "older"}})) == stages
    assert to_do({name: record for name, record in records().items() if name != role}) == stages


def test_a_lost_host_is_a_reason_for_its_deployment() -> None:
    wanted, there = {host: asked() for host in HOSTS}, {host: records() for host in HOSTS}
    found = changes.to_do({"pair": ["gpu1"], "single": ["gpu3"]}, wanted, there, {"pair": ["gpu2"]})
    reason = [{"role": "gpu2", "code": "work_lost", "what": ""}]
    assert {stage: hosts for stage, hosts in found.items() if hosts} == {
        "network": {"gpu1": reason},
        "serve": {"gpu1": reason},
    }


def test_the_reasons_are_named() -> None:
    found = changes.differs(asked(), records(docker={"differs": ["units docker.service"]}), "prepare")
    assert found == [{"role": "docker", "code": "work_differs", "what": "units docker.service"}]
    codes = [
        changes.differs(asked(ray="other"), records(), "serve"),
        changes.differs(asked(), records(ray={"collection": ""}), "serve"),
        changes.differs({}, records(), "images"),
    ]
    assert [entry["code"] for (entry,) in codes] == ["work_other_settings", "work_other_collection", "work_no_record"]


@given(st.dictionaries(st.sampled_from(ROLES), st.sampled_from(["gone", "other", "differs"]), max_size=3))
def test_no_stage_is_left_out_whose_role_has_anything_to_do(faults: dict[str, str]) -> None:
    mine = records()
    for role, fault in faults.items():
        if fault == "gone":
            del mine[role]
        else:
            mine[role] |= {"digest": "old"} if fault == "other" else {"differs": ["x y"]}
    found = to_do(mine)
    for stage, (_roles, after) in changes.STAGES.items():
        has_work = any(role in faults for role in changes.roles_of(stage)) or any(earlier in found for earlier in after)
        assert ("gpu1" in found.get(stage, [])) == has_work


FACTS = {"distribution": "Debian", "distribution_version": "12", "architecture": "x86_64", "kernel": "6.1"}
VARIABLES: dict[str, Any] = {"ansible_facts": FACTS, "llm_offline": True, "llm_host_dir": "/opt/llm", "vllm_model": "m"}
BUNDLE = [
    {"kind": "docker", "path": "docker/d.tgz", "sha256": "1"},
    {"kind": "model", "model": "m", "path": "models/m/config.json", "sha256": "2"},
    {"kind": "model", "model": "other", "path": "models/other/config.json", "sha256": "3"},
    {"kind": "image", "path": "images/i.tar", "sha256": "4", "images": [{"reference": "i", "id": "sha256:5"}]},
]
OPTIONS = {role: [f"{role}_version"] for role in ROLES}


def digests(variables: dict[str, Any] | None = None, bundle: list[dict[str, Any]] | None = None) -> dict[str, str]:
    return changes.asked_by_variables({**VARIABLES, **(variables or {})}, OPTIONS, bundle or BUNDLE, "i")


def changed_by(variables: dict[str, Any] | None = None, bundle: list[dict[str, Any]] | None = None) -> set[str]:
    before, after = digests(), digests(variables, bundle)
    return {role for role in before if before[role] != after[role]}


def test_a_variable_concerns_its_role() -> None:
    assert changed_by() == set()
    assert changed_by({"docker_version": "27.0"}) == {"docker"}
    assert changed_by({"llm_host_dir": "/data"}) == set(changes.BY_VARIABLES)
    assert changed_by({"ansible_facts": {**FACTS, "kernel": "6.2"}}) == set(changes.BY_VARIABLES)
    assert changed_by({"llm_bundle_dir": "/elsewhere", "llm_language": "zh"}) == set()


def test_what_the_bundle_holds_concerns_who_gets_it() -> None:
    def with_sha256(path: str) -> list[dict[str, Any]]:
        return [{**record, "sha256": "new"} if record["path"] == path else record for record in BUNDLE]

    assert changed_by(bundle=with_sha256("docker/d.tgz")) == {"docker"}
    assert changed_by(bundle=with_sha256("models/m/config.json")) == {"models"}
    assert changed_by(bundle=with_sha256("models/other/config.json")) == set()
    assert changed_by(bundle=with_sha256("images/i.tar")) == set(), "the image in it is the same"
    other = [
        {**record, "images": [{"reference": "i", "id": "sha256:6"}]} if "images" in record else record
        for record in BUNDLE
    ]
    assert changed_by(bundle=other) == {"images"}


def test_a_value_that_only_the_role_can_evaluate_counts_as_not_there() -> None:
    class Lazy(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            if name == "images_references":
                raise KeyError("_llm_image")
            return super().__getitem__(name)

    assert changes.variables_of({"vllm_benchmark_requests": 8}, ["vllm_benchmark_requests"]) == {}
    assert changes.variables_of(
        Lazy(images_references="{{ _llm_image }}", docker_version="1"), ["images_references", "docker_version"]
    ) == {
        "images_references": None,
        "docker_version": "1",
    }


def section(**changed: Any) -> dict[str, Any]:
    network = dict.fromkeys(changes.NETWORK_KEYS, "x") | {"is_new": True, "check": 1}
    vllm = {"needed": True, "collective": {"possible": True, "link_mbps": 10}}
    return {"deployment": "pair", "network": network, "ray": {"needed": False}, "vllm": vllm, **changed}


def decided(secrets: dict[str, str] | None = None, **changed: Any) -> dict[str, str]:
    return changes.with_secrets(changes.asked_by_decision(section(**changed), VARIABLES, OPTIONS), secrets or {})


def test_a_section_concerns_its_role_and_secrets_those_who_write_them() -> None:
    def differing(found: dict[str, str]) -> set[str]:
        return {role for role, value in decided().items() if found[role] != value}

    assert set(decided()) == {"network", *changes.serving_roles()}
    assert differing(decided(ray={"needed": True})) == {"ray"}
    assert differing(decided(network={**section()["network"], "rules": "y"})) == {"network"}
    assert differing(decided(network={**section()["network"], "is_new": False})) == set(), "how it came about"
    assert differing(decided(vllm={"needed": True, "collective": {"possible": True, "link_mbps": 40}})) == set(), (
        "only reported"
    )
    assert differing(decided(vllm={**section()["vllm"], "benchmark": {"problem": "too long"}})) == set(), (
        "only asked for"
    )
    assert differing(decided({"api_key": "other"})) == {"ray", "vllm"}


def test_hosts_are_left_out_of_the_pattern_of_a_play() -> None:
    found: dict[str, list[str]] = {stage: [] for stage in changes.STAGES} | {"serve": ["gpu1"]}
    whole = {"ansible_run_tags": ["all"], "ansible_skip_tags": []}
    assert changes.left_out(HOSTS, found, whole)["serve"] == ":!gpu2:!gpu3"
    assert changes.left_out(HOSTS, found, whole)["prepare"] == ":!gpu1:!gpu2:!gpu3"
    assert changes.left_out(HOSTS, found, {**whole, "ansible_skip_tags": ["molecule-notest", "notest"]})["serve"], (
        "nobody's tags"
    )
    assert changes.left_out(HOSTS, found, whole)["lock"] == ":!gpu2:!gpu3", "where nothing is done, nobody is kept away"
    assert changes.left_out(HOSTS, found, whole, changes.EARLY_STAGES)["lock"] == ":!gpu1:!gpu2:!gpu3"
    for walk in ({"llm_full_check": True}, {"ansible_run_tags": ["docker"]}, {"ansible_skip_tags": ["ray"]}):
        assert set(changes.left_out(HOSTS, found, {**whole, **walk}).values()) == {""}


def test_a_machine_is_prepared_under_one_of_its_names_in_every_run() -> None:
    """gpu3 is another name for the machine of gpu1."""
    found = {stage: ["gpu1", "gpu3"] for stage in changes.STAGES}
    whole = {"ansible_run_tags": ["all"], "ansible_skip_tags": []}
    for walk in ({}, {"llm_full_check": True}, {"ansible_run_tags": ["docker"]}):
        patterns = changes.left_out(HOSTS, found, {**whole, **walk}, aliases=["gpu3"])
        for stage in changes.STAGES:
            assert (":!gpu3" in patterns[stage]) == (stage in ("prepare", "images", "models")), (stage, walk)
        assert ":!gpu3" not in patterns[changes.LOCK]
    patterns = changes.left_out(HOSTS, found, whole, aliases=["gpu3"])
    assert changes.stage_hosts("prepare", patterns, "gpu3", ["gpu1", "gpu3"]) == "gpu1:gpu3:!gpu2:!gpu3"
    assert changes.stage_hosts("serve", patterns, "gpu3", ["gpu1", "gpu3"]) == "llm_deployments:!gpu2"


def test_every_name_of_a_machine_asks_for_the_same() -> None:
    machine = {"images": ["i", "j"], "models": ["org/model", "org/other"]}
    others = {**VARIABLES, "vllm_model": "org/other"}
    one, other = (
        changes.asked_by_variables(variables, OPTIONS, BUNDLE, image, machine)
        for variables, image in ((VARIABLES, "i"), (others, "j"))
    )
    assert one == other
    alone = changes.asked_by_variables(VARIABLES, OPTIONS, BUNDLE, "i", {"images": [], "models": []})
    assert alone == changes.asked_by_variables(VARIABLES, OPTIONS, BUNDLE, "i")


@pytest.mark.parametrize(
    ("stage", "left_out", "node", "pattern"),
    [
        ("serve", {}, "", "llm_deployments"),
        ("serve", {"serve": ":!gpu2", "prepare": ":!gpu3"}, "", "llm_deployments:!gpu2"),
        ("prepare", {"prepare": ":!gpu2"}, "gpu2", "gpu2:!gpu2"),
        ("models", {}, "gpu2", "gpu2"),
        ("network", {}, "gpu2", "llm_deployments"),
        ("serve", {}, "gpu2", "llm_deployments"),
        (changes.LOCK, {"lock": ":!gpu1"}, "gpu2", "llm_deployments:!gpu1"),
    ],
)
def test_the_pattern_of_a_stage(stage: str, left_out: dict[str, str], node: str, pattern: str) -> None:
    assert changes.stage_hosts(stage, left_out, node) == pattern


def test_the_digest_of_the_collection_is_that_of_its_roles_and_plugins(tmp_path: Path) -> None:
    for name in ("roles/a/tasks/main.yml", "plugins/b.py", "docs/c.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("before")
    found = changes.code_digest(tmp_path)
    (tmp_path / "docs/c.md").write_text("after")
    assert changes.code_digest(tmp_path) == found
    (tmp_path / "roles/a/tasks/main.yml").write_text("after")
    assert changes.code_digest(tmp_path) != found


def test_hosts_that_a_service_has_left() -> None:
    records: dict[str, dict[str, Any]] = {
        "h1": {"web_ui": {}},
        "h2": {"web_ui": {}},
        "h3": {"docker": {}},
        "h4": {"web_ui": {}},
    }
    members = ["h1", "h2", "h3", "h4", "h5"]
    assert changes.former_hosts("web_ui", members, ["h1"], records, {}) == "llm_deployments:!h1:!h3:!h5"
    names = {host: {"sharing": ["h2", "h4"]} for host in ("h2", "h4")}
    assert changes.former_hosts("web_ui", members, ["h1"], records, names) == "llm_deployments:!h1:!h3:!h4:!h5"
    assert changes.former_hosts("web_ui", ["h3"], [], records, {}) == "llm_deployments:!h3"


@pytest.mark.parametrize(
    ("service", "groups", "needed", "pattern"),
    [
        ("gateway", {"llm_gateway": ["g1", "g2"]}, {"g1": True, "g2": False}, "llm_gateway:!g2"),
        ("gateway", {"llm_gateway": ["g1", "g2"]}, {}, "llm_gateway:!g1:!g2"),
        (
            "monitoring",
            {"llm_deployments": ["h1", "h2"], "llm_monitoring": ["h2", "m1"]},
            {"h2": True, "m1": True},
            "llm_deployments:llm_monitoring:!h1",
        ),
        ("monitoring", {"llm_monitoring": ["m1"]}, {"m1": True}, "llm_monitoring"),
    ],
)
def test_the_pattern_of_a_service(
    service: str, groups: dict[str, list[str]], needed: dict[str, bool], pattern: str
) -> None:
    assert changes.service_hosts(service, groups, needed) == pattern


REPLICAS = {"a": ["a1", "a2"], "b": ["b1"], "c": ["c1"], "other": ["o1"]}
MODELS = {"a": "m", "b": "m", "c": "m", "other": "n"}


def batches(found: dict[str, Any]) -> list[list[str]]:
    hosts = iter(found["hosts"].split(":"))
    return [[next(hosts) for _ in range(size)] for size in found["sizes"]]


def test_replicas_that_serve_take_turns() -> None:
    found = changes.rolling(REPLICAS, MODELS, list(REPLICAS), "")
    assert batches(found) == [["a1", "a2", "o1"], ["b1"], ["c1"]]
    assert found["after"] == {"a1": [], "a2": [], "o1": [], "b1": ["a1", "a2"], "c1": ["a1", "a2", "b1"]}
    assert found["meanwhile"] == {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"], "other": []}


def test_what_does_not_serve_yet_comes_first() -> None:
    found = changes.rolling(REPLICAS, MODELS, ["a"], "")
    assert batches(found) == [["b1", "c1", "o1"], ["a1", "a2"]]
    assert found["after"]["a1"] == ["b1", "c1"]
    assert found["meanwhile"]["b"] == ["a"]


@pytest.mark.parametrize(
    ("standing", "left_out"),
    [([], ""), (["other", "a"], ":!b1:!c1"), (list(REPLICAS), ":!a1:!a2:!b1:!o1"), (["other"], "")],
)
def test_one_batch_is_enough_where_nobody_has_to_wait(standing: list[str], left_out: str) -> None:
    found = changes.rolling(REPLICAS, MODELS, standing, left_out)
    assert (found["sizes"], found["hosts"]) == ([], "")


def test_hosts_with_nothing_to_do_do_not_count() -> None:
    found = changes.rolling(REPLICAS, MODELS, list(REPLICAS), ":!b1:!o1")
    assert found["sizes"] == [2, 1]
    assert changes.stage_hosts("serve", {"serve": ":!b1:!o1"}, batches=found["hosts"]) == "a1:a2:o1:b1:c1:!b1:!o1"
    assert changes.stage_hosts("network", {}, batches=found["hosts"]) == "llm_deployments"


@given(st.integers(1, 40), st.data())
def test_of_replicas_that_serve_most_serve_on(count: int, data: st.DataObject) -> None:
    names = [f"r{number}" for number in range(count)]
    standing = data.draw(st.lists(st.sampled_from(names), unique=True))
    found = changes.rolling({name: [name] for name in names}, dict.fromkeys(names, "m"), standing, "")
    there = batches(found) or [names]
    assert sorted(name for batch in there for name in batch) == sorted(names)
    most = max(len(set(batch) & set(standing)) for batch in there)
    assert most <= -(-len(standing) // changes.MOST_BATCHES)
    assert set(there[0]) >= set(names) - set(standing)


def test_an_upgrade_changes_one_deployment_after_the_other_and_the_first_of_each_model_is_the_canary() -> None:
    deployments = {"a": ["h1", "h2"], "b": ["h3"], "c": ["h4"], "d": ["h5"]}
    models = {"a": "chat", "b": "chat", "c": "embed", "d": "chat"}
    found = changes.one_by_one(deployments, models, ["h3", "h1", "h2", "h4"])
    assert found == {"sizes": [2, 1, 1], "hosts": "h1:h2:h3:h4", "canaries": ["a", "c"]}
    # What an ended run has changed already is not in it: the next one is the canary.
    assert changes.one_by_one(deployments, models, ["h5"]) == {"sizes": [1], "hosts": "h5", "canaries": ["d"]}
    assert changes.one_by_one(deployments, models, []) == {"sizes": [], "hosts": "", "canaries": []}
