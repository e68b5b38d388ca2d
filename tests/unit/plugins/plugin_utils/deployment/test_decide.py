"""One decision for all deployments: what is planned, what is left out, and what cannot start. No secret is written down."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.decide import (
    DecisionInput,
    Readers,
    decide,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names_of_all
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.secrets import without_secrets
from hypothesis import given
from hypothesis import strategies as st

from tests.support.connectivity import good
from tests.support.deployments import host, refused
from tests.support.examples import examples

FAST, SLOW = "10.0.0.0/24", "192.168.0.0/24"
DATA = Path(__file__).resolve().parents[5] / "tests/data/models"
CONFIG = json.loads((DATA / "Qwen__Qwen2-0.5B.json").read_text(encoding="utf-8"))
IMAGE: dict[str, Any] = {
    "path": "images.tar",
    "images": [{"reference": "vllm/vllm-openai:v0.8.5-ray", "base": {"reference": "vllm/vllm-openai:v0.8.5"}}],
}
MODEL = {"path": "models/lab--tiny/config.json", "model": "lab/tiny"}
PAIR: dict[str, Any] = {"pair": {"hosts": ["gpu1", "gpu2"], "head": "gpu1"}}


def hosts(count: int = 2, **more: Any) -> dict[str, dict[str, Any]]:
    return {
        f"gpu{n}": host(n, **{"vllm_max_model_len": 2048, "llm_bundle_dir": "/bundle", **more})
        for n in range(1, count + 1)
    }


def connected(variables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same after a connectivity check that found nothing wrong."""
    for name, found in good(FAST, SLOW, hosts=len(variables)).items():
        variables[name]["llm_connectivity"] = found
    return variables


class Bundle:
    """What is read on the controller, and what was asked for."""

    def __init__(self, ray: str = "") -> None:
        self.read: list[str] = []
        self.ray = ray

    def records(self, bundle: str) -> list[dict[str, Any]]:
        self.read.append(bundle)
        return [MODEL, {**IMAGE, "images": [{**IMAGE["images"][0], "ray_version": self.ray}]}]

    def config(self, path: str) -> dict[str, Any]:
        self.read.append(path)
        return dict(CONFIG)


def answer(variables: dict[str, Any], deployments: Any = None, playing: Any = None, **more: Any) -> dict[str, Any]:
    bundle = Bundle()
    return decide(
        DecisionInput(deployments or PAIR, variables, list(variables) if playing is None else playing, **more),
        Readers(bundle.records, bundle.config),
    )


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*map(str, value), *(text for item in value.values() for text in strings(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [str(value)]


# -- what is decided --------------------------------------------------------------------------------------------------
def test_all_that_roles_read_is_there_before_the_network_is_verified() -> None:
    decided = answer(hosts())
    assert (refused(decided), decided["networks"]) == ("", {})
    assert list(decided["plans"]) == ["pair"]
    for name, sections in decided["hosts"].items():
        assert (sections["deployment"], sections["head"]) == ("pair", "gpu1")
        assert sections["is_head"] is (name == "gpu1")
        assert sections["image"] == "vllm/vllm-openai:v0.8.5-ray"
        assert {"network", "ray", "vllm"} <= set(sections)
        assert sections["interface"] == "eth1"


def test_what_was_verified_is_used() -> None:
    variables = connected(hosts())
    for found in variables.values():
        found["ansible_facts"]["llm_network_state"] = {"network": SLOW}
    decided = answer(variables)
    assert decided["networks"]["pair"]["network"] == SLOW
    assert decided["hosts"]["gpu2"]["interface"] == "eth0"
    command = decided["hosts"]["gpu2"]["ray"]["container"]["command"]
    assert "--address=192.168.0.1:6379" in command
    assert "--node-ip-address=192.168.0.2" in command
    # The variables of the hosts stay as they are.
    assert variables["gpu1"]["llm_interface"]["interface"] == "eth1"


def test_before_a_host_was_looked_at_there_is_a_plan_and_nothing_else() -> None:
    variables = {name: {**found, "ansible_facts": {}, "llm_interface": None} for name, found in hosts().items()}
    for found in variables.values():
        found["llm_gpus"] = host(1)["ansible_facts"]["llm_gpus_found"]
    for playing in ([], ["gpu1", "gpu2"]):
        decided = answer(variables, playing=playing)
        assert decided["plans"]["pair"]["ok"]
        assert (decided["hosts"], decided["networks"]) == ({}, {})
        # Its report shows the command lines.
        assert list(decided["plans"]["pair"]["launch"]) == ["gpu1"]


def test_the_plan_shows_the_command_lines() -> None:
    decided = answer(hosts())
    assert list(decided["plans"]["pair"]["launch"]) == ["gpu1"]
    assert (
        decided["plans"]["pair"]["launch"]["gpu1"]["argv"] == (decided["hosts"]["gpu1"]["vllm"]["container"]["command"])
    )


@pytest.mark.parametrize(
    ("variables", "read"),
    [
        ({}, ["/bundle", "/bundle/models/lab--tiny/config.json"]),
        ({"vllm_model_config": "/inventory/tiny.json"}, ["/bundle", "/inventory/tiny.json"]),
        ({"llm_bundle_dir": None, "vllm_model_config": "/inventory/tiny.json"}, ["/inventory/tiny.json"]),
    ],
)
def test_what_is_read_on_the_controller(variables: dict[str, Any], read: list[str]) -> None:
    bundle = Bundle()
    found = {name: {**each, **variables} for name, each in hosts().items()}
    decided = decide(DecisionInput(PAIR, found, list(found)), Readers(bundle.records, bundle.config))
    assert bundle.read == read
    assert decided["plans"]["pair"]["model"] == CONFIG


def test_what_past_starts_measured_is_told_to_the_planner() -> None:
    first = answer(hosts())["plans"]["pair"]
    truth = {"kv_cache_gib": first["predicted"]["ranks"][0]["kv_cache_gib"] - 1}
    observed = {
        "gpu": "Tesla V100-PCIE-16GB",
        "model": CONFIG,
        "vllm_version": "0.8.5",
        "prediction": first["predicted"],
        "truth": truth,
    }
    assert first["past"]["observations"] == 0
    assert answer(hosts(), observations=[observed])["plans"]["pair"]["past"]["observations"] == 1


def test_a_user_of_the_containers_who_is_not_root_with_a_port_for_root_is_refused() -> None:
    assert "llm_container_uid: 5, vllm_port: 443" in refused(answer(hosts(llm_container_uid=5, vllm_port=443)))
    decided = answer(hosts(vllm_port=443))
    assert refused(decided) == ""
    assert {section["ray"]["container"]["user"] for section in decided["hosts"].values()} == {"0:0"}


# -- what is left out -------------------------------------------------------------------------------------------------
TWO: dict[str, Any] = {**PAIR, "other": {"hosts": ["gpu3"], "head": "gpu3"}}


def test_a_deployment_outside_of_the_run_is_left_out() -> None:
    decided = answer(hosts(3), TWO, playing=["gpu3"])
    assert list(decided["plans"]) == ["other"]
    assert list(decided["hosts"]) == ["gpu3"]
    assert set(answer(hosts(3), TWO, playing=[])["plans"]) == {"pair", "other"}, "nobody asked for a part"


def test_hosts_outside_of_the_run_are_planned_and_nothing_is_done_there() -> None:
    decided = answer(hosts(), playing=["gpu2"])
    assert list(decided["hosts"]) == ["gpu2"]
    assert [node["host"] for node in decided["plans"]["pair"]["nodes"]] == ["gpu1", "gpu2"]
    mine = decided["hosts"]["gpu2"]
    assert mine["ray"]["planned_gpus"] == {"gpu1": 1, "gpu2": 1}
    assert mine["network"]["check"]["members"] == ["gpu2"]
    assert "--address=10.0.0.1:6379" in mine["ray"]["container"]["command"]


def test_a_host_with_ranks_that_nobody_knows_is_named_and_leaves_no_command_lines() -> None:
    variables = hosts()
    variables["gpu1"]["llm_interface"] = None
    mine = answer(variables, playing=["gpu2"])["hosts"]["gpu2"]
    assert (mine["planned"], mine["unknown"]) == (["gpu1", "gpu2"], ["gpu1"])
    assert not {"ray", "vllm"} & set(mine)
    assert answer(hosts(), playing=["gpu2"])["hosts"]["gpu2"]["unknown"] == []


def test_a_host_without_ranks_may_be_unknown() -> None:
    variables = hosts(vllm_tensor_parallel_size=1, vllm_pipeline_parallel_size=1)
    variables["gpu2"]["llm_interface"] = None
    mine = answer(variables, playing=["gpu1"])["hosts"]["gpu1"]
    assert (mine["planned"], mine["unknown"]) == (["gpu1"], [])
    assert mine["vllm"]["needed"]


# -- plans ------------------------------------------------------------------------------------------------------------
def test_a_plan_is_made_once() -> None:
    first = answer(hosts())["plans"]
    kept = {"pair": {**first["pair"], "mark": "of an earlier decision"}}
    changed = hosts(vllm_dtype="bfloat16")  # would be refused
    decided = answer(changed, plans=kept)
    assert refused(decided) == ""
    assert decided["plans"]["pair"]["mark"] == "of an earlier decision"
    assert decided["plans"]["pair"]["settings"] == first["pair"]["settings"]


def test_an_earlier_plan_is_not_changed() -> None:
    first = answer(hosts())["plans"]["pair"]
    kept = {key: value for key, value in first.items() if key != "launch"}
    assert "launch" in answer(hosts(), plans={"pair": kept})["plans"]["pair"]
    assert "launch" not in kept


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ("The deployment {0} cannot start as it is set", "set dtype=half", "group_vars/{0}.yml")),
        ("zh", ("部署 {0} 按当前设置无法启动", "设置 dtype=half", "group_vars/{0}.yml")),
    ],
)
def test_every_plan_that_cannot_start_is_named(language: str, parts: tuple[str, ...]) -> None:
    deployments = {**TWO, "good": {"hosts": ["gpu4"], "head": "gpu4"}}
    variables = hosts(4, vllm_dtype="bfloat16")
    variables["gpu4"]["vllm_dtype"] = "half"
    decided = answer(variables, deployments, language=language)
    for name in ("pair", "other"):
        for part in (*parts, "dtype_not_supported"):
            assert part.format(name) in refused(decided)
        assert not decided["plans"][name]["ok"]
    assert "group_vars/good.yml" not in refused(decided)
    # What can start is decided all the same.
    assert list(decided["hosts"]) == ["gpu4"]


@pytest.mark.parametrize(
    ("language", "words"), [("en", "newer than all releases"), ("zh", "比本合集已知的所有版本都新")]
)
def test_a_release_that_nobody_knows_is_a_problem_of_its_deployment(language: str, words: str) -> None:
    decided = answer(hosts(4, vllm_version="0.99.0"), {"good": {"hosts": ["gpu4"], "head": "gpu4"}}, language=language)
    assert words in refused(decided)
    assert 'vllm_version: "0.99.0"' in refused(decided)
    assert "request." not in refused(decided)
    assert "group_vars/good.yml" in refused(decided)


def test_what_serves_an_older_card_is_said() -> None:
    p40 = {"name": "Tesla P40", "memory_mib": 23040, "compute_capability": "6.1"}
    variables = hosts(1)
    variables["gpu1"]["ansible_facts"]["llm_gpus_found"] = [p40]
    decided = answer(variables, {"good": {"hosts": ["gpu1"], "head": "gpu1"}})
    assert "llm_engine llama_cpp" in refused(decided)
    assert "more GPUs" not in refused(decided)


# Qwen2.5-7B fills a V100 of 16 GiB: it starts, with less to spare than the prediction may be off.
NARROW: dict[str, Any] = {
    "vllm_max_model_len": 4096,
    "vllm_gpu_memory_utilization": 0.98,
    "vllm_max_num_seqs": 8,
    "vllm_enforce_eager": True,
}


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        (
            "en",
            (
                "The deployment alone may not start",
                "a plan that leaves more (max_model_len 2048), or vllm_accept_narrow: true",
            ),
        ),
        ("zh", ("部署 alone 可能无法启动", "余量更大的方案（max_model_len 2048），或设 vllm_accept_narrow: true")),
    ],
)
@pytest.mark.parametrize("accepted", [False, "no", True, "yes"])
def test_a_narrow_plan_has_to_be_asked_for(accepted: Any, language: str, parts: tuple[str, ...]) -> None:
    variables = {"gpu1": host(1, llm_bundle_dir="/bundle", vllm_accept_narrow=accepted, **NARROW)}
    bundle = Bundle()
    config = json.loads((DATA / "Qwen__Qwen2.5-7B-Instruct.json").read_text(encoding="utf-8"))
    decided = decide(
        DecisionInput({"alone": {"hosts": ["gpu1"], "head": "gpu1"}}, variables, ["gpu1"], language=language),
        Readers(bundle.records, lambda _path: config),
    )
    assert decided["plans"]["alone"]["verdict"] == "starts_narrowly"
    if accepted in (True, "yes"):
        assert refused(decided) == ""
    else:
        for part in (*parts, "group_vars/alone.yml"):
            assert part in refused(decided)


def test_a_host_that_nobody_has_seen_is_named() -> None:
    """With --limit the others are looked at as well, and one of them may be down."""
    variables = hosts(3)
    del variables["gpu2"]["ansible_facts"]
    deployments = {"pair": {"hosts": ["gpu1", "gpu2"], "head": "gpu1"}, "alone": {"hosts": ["gpu3"], "head": "gpu3"}}
    bundle = Bundle()
    sources = Readers(bundle.records, bundle.config)
    decided = decide(DecisionInput(deployments, variables, ["gpu1", "gpu3"]), sources)
    assert "The GPUs of gpu2 are not known" in refused(decided)
    assert "deployment pair" in refused(decided)
    assert list(decided["plans"]) == ["alone"]
    variables["gpu2"]["llm_gpus"] = [{"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}]
    assert refused(decide(DecisionInput(deployments, variables, ["gpu3"]), sources)) == ""


def test_the_head_gets_ranks_where_any_plan_gives_it_some() -> None:
    variables = {
        f"gpu{n}": host(n, 1 if n == 1 else 2, vllm_max_model_len=2048, llm_bundle_dir="/bundle") for n in (1, 2, 3)
    }
    deployments = {"pair": {"hosts": list(variables), "head": "gpu1"}}
    decided = answer(variables, deployments)
    assert not refused(decided)
    assert decided["plans"]["pair"]["nodes"][0]["host"] == "gpu1"
    # Of two GPUs for each stage, the head has one.
    for each in variables.values():
        each["vllm_tensor_parallel_size"] = 2
    error = refused(answer(variables, deployments))
    for part in ("gives its head gpu1 no GPU", "vllm_tensor_parallel_size: 2", "group_vars/pair.yml", "gpu2, gpu3"):
        assert part in error


# -- secrets ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"HF_TOKEN": "hidden", "NCCL_DEBUG": "INFO"}, {"HF_TOKEN": "<HF_TOKEN>", "NCCL_DEBUG": "INFO"}),
        ({"api_key": "hidden", "max_model_len": 2048}, {"api_key": "<api_key>", "max_model_len": 2048}),
        ({"extra": '{"access_key": "hidden"}'}, {"extra": '{"access_key": "<access_key>"}'}),
        ({"a": [{"aws_secret_access_key": "hidden"}]}, {"a": [{"aws_secret_access_key": "<aws_secret_access_key>"}]}),
        ({"password": 1234}, {"password": "<password>"}),
        ({"api_key": ["hidden", "hidden too"]}, {"api_key": "<api_key>"}),
        ({"credentials": {"user": "hidden"}}, {"credentials": "<credentials>"}),
        (["--api-key", "hidden", "--port", "1"], ["--api-key", "<api-key>", "--port", "1"]),
        (["--api-key", "hidden", "hidden too"], ["--api-key", "<api-key>", "<api-key>"]),
        (["--api-key=hidden", "--port=1"], ["--api-key=<api-key>", "--port=1"]),
        (["--extra", '{"a": {"access_key": "hidden"}}'], ["--extra", '{"a": {"access_key": "<access_key>"}}']),
        (["--extra", '{"b":1}', "{broken"], ["--extra", '{"b":1}', "{broken"]),
        ({"OPENAI_API_KEYS": "hidden"}, {"OPENAI_API_KEYS": "<OPENAI_API_KEYS>"}),
        ({"proxy": "http://me:hidden@proxy:1"}, {"proxy": "http://***@proxy:1"}),
        ({"command": "HF_TOKEN=hidden vllm --api-key hidden --port 1"}, {"command": "HF_TOKEN=<HF_TOKEN> vllm --api-key <api-key> --port 1"}),
        # Where a secret lies, whether there is one, and an option without a value are no secrets.
        ({"RAY_AUTH_TOKEN_PATH": "/x"}, {"RAY_AUTH_TOKEN_PATH": "/x"}),
        ({"ray_token": "", "hf_token": None, "trust_token": True}, {"ray_token": "", "hf_token": None, "trust_token": True}),
        (["--hf-token", "--headless"], ["--hf-token", "--headless"]),
        ({"kv_cache_tokens": 7, "monkey": "x", "key_file": "/x"}, {"kv_cache_tokens": 7, "monkey": "x", "key_file": "/x"}),
        (("a", 1, None), ["a", 1, None]),
    ],
)  # fmt: skip
def test_the_name_of_a_secret_stands_in_its_place(value: Any, shown: Any) -> None:
    assert without_secrets(value) == shown


def test_what_is_given_stays_as_it_is() -> None:
    given_value = {"env": {"HF_TOKEN": "hidden"}, "argv": ["--api-key", "hidden"]}
    without_secrets(given_value)
    assert given_value == {"env": {"HF_TOKEN": "hidden"}, "argv": ["--api-key", "hidden"]}


# -- laws -------------------------------------------------------------------------------------------------------------
LETTERS = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
SECRET = LETTERS.map("s3cret{0}".format)


@st.composite
def inventories(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """One or two deployments of one to four hosts, and which of the hosts a run is about."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    deployments: dict[str, Any] = {}
    variables: dict[str, Any] = {}
    for number, count in enumerate(counts):
        said: dict[str, Any] = {
            "vllm_version": draw(st.sampled_from(["0.8.5.post1", "0.12.0", "0.17.1", "0.19.1"])),
            "vllm_executor": draw(st.sampled_from(["auto", "ray", "mp"])),
            "vllm_options": draw(st.sampled_from([{}, {"api_key": draw(SECRET)}, {"api_key": [draw(SECRET), draw(SECRET)]}])),
            "vllm_environment": {"HF_TOKEN": draw(SECRET)},
            "ray_environment": draw(st.sampled_from([{}, {"AWS_SECRET_ACCESS_KEY": draw(SECRET)}])),
            "vllm_api_key_enabled": draw(st.booleans()),
            "vllm_model_config": "/config.json",
            "vllm_max_model_len": 2048,
        }  # fmt: skip
        first = len(variables) + 1
        names = [f"gpu{n}" for n in range(first, first + count)]
        head = draw(st.sampled_from(names))
        for offset, name in enumerate(names):
            # No host has more GPUs than the head, which shall have ranks.
            variables[name] = host(first + offset, 3 if name == head else draw(st.integers(1, 3)), **said)
        deployments[f"d{number}"] = {"hosts": names, "head": head}
    if draw(st.booleans()):
        connected(variables)
    playing = draw(st.sampled_from([list(variables), list(variables)[1:] or list(variables)]))
    return deployments, variables, playing


@examples(60)
@given(inventories())
def test_a_decision_is_sound_and_has_no_secret_when_it_is_written(inventory: Any) -> None:
    deployments, variables, playing = inventory
    decided = answer(variables, deployments, playing)
    assert json.loads(json.dumps(decided)) == decided
    assert not [text for text in strings(without_secrets(decided)) if "s3cret" in text]
    assert bool(refused(decided)) == any(not plan["ok"] for plan in decided["plans"].values())
    for name, plan in decided["plans"].items():
        if not plan["ok"]:
            continue
        head = deployments[name]["head"]
        # Each planned host has one range of ranks, and together they are all of them.
        ranks = [rank for node in plan["nodes"] for rank in node["ranks"]]
        assert ranks == list(range(len(ranks)))
        planned = [node["host"] for node in plan["nodes"] if node["ranks"]]
        assert len(set(planned)) == len(planned)
        assert "--headless" not in plan["launch"][head]["argv"]
        for host_name, started in plan["launch"].items():
            assert ("--headless" in started["argv"]) is (host_name != head)
        members = [each for each in deployments[name]["hosts"] if each in playing]
        for each in members:
            sections = decided["hosts"][each]
            assert sections["is_head"] is (each == head)
            assert sections["vllm"]["needed"] is (each in plan["launch"])
            if plan["executor"] == "ray":
                assert sections["ray"]["needed"] is (each in planned)


# -- a Ray without a token --------------------------------------------------------------------------------------------
def with_ray(version: str, language: str = "en", **more: Any) -> dict[str, Any]:
    variables = hosts(vllm_executor="ray", **more)
    bundle = Bundle(version)
    return decide(DecisionInput(PAIR, variables, [], language=language), Readers(bundle.records, bundle.config))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("version", "known"), [("2.43.0", False), ("2.51.1", False), ("2.52.0", True), ("3.0.0", True)]
)
def test_a_ray_that_knows_no_token_is_told_and_needs_the_firewall(version: str, known: bool, language: str) -> None:
    decided = with_ray(version, language)
    warnings = [text for text in decided["plans"]["pair"]["predicted"]["warnings"] if version in text]
    assert len(warnings) == (0 if known else 1)
    assert refused(decided) == ""
    error = refused(with_ray(version, language, llm_firewall_enabled=False), language)
    assert bool(error) is not known
    if not known:
        for part in (version, "gpu1", "gpu2", "ray_token_enabled: false"):
            assert part in error
    # Somebody who knows that there is no token, and keeps others away in another way.
    assert refused(with_ray(version, llm_firewall_enabled=False, ray_token_enabled=False)) == ""


def test_of_a_ray_that_nobody_knows_nothing_is_said() -> None:
    decided = with_ray("", llm_firewall_enabled=False)
    assert refused(decided) == ""
    assert not [text for text in decided["plans"]["pair"]["predicted"]["warnings"] if "Ray" in text]


def test_without_ray_no_token_is_missed() -> None:
    variables = hosts(1, llm_firewall_enabled=False)
    bundle = Bundle("2.43.0")
    alone = {"alone": {"hosts": ["gpu1"], "head": "gpu1"}}
    assert refused(decide(DecisionInput(alone, variables, []), Readers(bundle.records, bundle.config))) == ""


# -- several deployments on one machine -------------------------------------------------------------------------------
def sharing(first: dict[str, Any], second: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Two deployments of one host each, which are one machine with two GPUs."""
    cards = [
        {**gpu, "index": n, "uuid": f"GPU-{n}"} for n, gpu in enumerate(host(1)["ansible_facts"]["llm_gpus_found"] * 2)
    ]
    variables = hosts(2)
    for variables_of, said in zip(variables.values(), (first, second), strict=True):
        facts = {**variables["gpu1"]["ansible_facts"], "llm_gpus_found": cards[:2], **more}
        variables_of |= {**said, "llm_interface": variables["gpu1"]["llm_interface"], "ansible_facts": facts}
    deployments = {"one": {"hosts": ["gpu1"], "head": "gpu1"}, "two": {"hosts": ["gpu2"], "head": "gpu2"}}
    names = names_of_all({name: each["hosts"] for name, each in deployments.items()}, lambda _host: "machine")
    return answer(variables, deployments, names=names)


def test_each_deployment_of_a_machine_has_its_own_gpus_names_and_folders() -> None:
    decided = sharing({"llm_gpu_indices": [1]}, {"llm_gpu_count": 1, "vllm_port": 8001})
    assert refused(decided) == ""
    one, two = decided["hosts"]["gpu1"], decided["hosts"]["gpu2"]
    assert [each["vllm"]["container"]["environment"]["NVIDIA_VISIBLE_DEVICES"] for each in (one, two)] == [
        "GPU-1",
        "GPU-0",
    ]
    assert [decided["plans"][name]["settings"]["tensor_parallel_size"] for name in ("one", "two")] == [1, 1]
    assert one["names"]["vllm"] == "llm-vllm-one"
    assert one["names"]["folder"] == "/opt/llm/deployments/one"
    probe = one["vllm"]["probe"]["command"]
    assert "--suffix=-one" in probe
    assert probe[probe.index("--state") + 1] == "/run/llm-probe-one/state.json"
    for text in strings([one["vllm"], one["tmp"], one["ray"]]):
        assert not text.startswith(("/opt/llm/scripts", "/opt/llm/secrets", "/opt/llm/tmp", "/opt/llm/probe"))
    mine, theirs = ({text.partition(":")[0] for text in each["vllm"]["container"]["volumes"]} for each in (one, two))
    assert mine & theirs == {"/opt/llm/models"}


def test_a_card_that_the_plan_leaves_out_is_not_seen() -> None:
    card = host(1)["ansible_facts"]["llm_gpus_found"][0]
    weak = {**card, "name": "Tesla M10", "memory_mib": 8192, "compute_capability": "5.0", "index": 0, "uuid": "GPU-0"}
    variables = hosts(1)
    facts = {**variables["gpu1"]["ansible_facts"], "llm_gpus_found": [weak, {**card, "index": 1, "uuid": "GPU-1"}]}
    variables["gpu1"]["ansible_facts"] = facts
    decided = answer(variables, {"alone": {"hosts": ["gpu1"], "head": "gpu1"}})
    assert refused(decided) == ""
    assert decided["hosts"]["gpu1"]["vllm"]["container"]["environment"]["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


def test_a_machine_with_one_deployment_has_the_names_that_it_always_had() -> None:
    section = answer(hosts())["hosts"]["gpu1"]
    assert (section["names"]["folder"], section["names"]["vllm"], section["former"]) == ("/opt/llm", "llm-vllm", [])
    assert section["vllm"]["container"]["environment"]["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert not any(word.startswith("--suffix") for word in section["vllm"]["probe"]["command"])
    assert section["ray"]["cluster"][:5] == ["timeout", "60", "docker", "exec", "llm-ray"]
    assert section["vllm"]["key_file"] == "/opt/llm/secrets/vllm_api_key"


def test_two_deployments_share_a_gpu_by_shares_that_leave_room_for_both() -> None:
    share = {"llm_gpu_indices": [0], "vllm_gpu_memory_utilization": 0.45}
    decided = sharing(share, share)
    assert refused(decided) == ""
    assert "free_memory_mib" not in decided["plans"]["one"]["settings"]
    assert not any("free" in word for word in strings(decided["plans"]["one"]["launch"]))
    # With all of it, nothing is left for what CUDA takes before vLLM looks how much is free.
    decided = sharing({**share, "vllm_gpu_memory_utilization": 0.55}, {**share, "vllm_version": "0.10.0"})
    assert "plan_refused" in {each["code"] for each in decided["problems"]}


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [
        ({"llm_gpu_indices": [0]}, {"llm_gpu_indices": ["GPU-0"]}, "gpu_claimed_twice"),
        ({"llm_gpu_indices": [2]}, {"llm_gpu_indices": [0]}, "gpu_not_there"),
        ({"llm_gpu_indices": [0]}, {"llm_gpu_count": 2}, "gpu_count_too_large"),
    ],
)
def test_what_a_machine_does_not_have_twice_is_refused(first: Any, second: Any, code: str) -> None:
    assert code in {each["code"] for each in sharing(first, second)["problems"]}


def test_another_firewall_is_not_shared() -> None:
    found = {"ufw": {"enabled": True, "default_input": "DROP"}, "firewalld": {"running": False}}
    decided = sharing({"llm_gpu_indices": [0]}, {"llm_gpu_indices": [1]}, llm_firewall=found)
    assert {each["code"] for each in decided["problems"]} == {"shared_firewall"}


def test_what_served_under_other_names_is_to_be_removed() -> None:
    engine = {"containers": [{"name": name, "ours": True} for name in ("llm-vllm", "llm-vllm-one")], "images": []}
    found = {"llm_container_engine": engine, "llm_recorded": ["llm-vllm"]}
    decided = sharing({"llm_gpu_indices": [0]}, {"llm_gpu_indices": [1]}, **found)
    assert [each["vllm"] for each in decided["hosts"]["gpu2"]["former"]] == ["llm-vllm"]


def test_a_container_of_others_under_our_name_is_refused() -> None:
    engine = {"containers": [{"name": "llm-vllm-one", "ours": False}], "images": []}
    decided = sharing({"llm_gpu_indices": [0]}, {"llm_gpu_indices": [1]}, llm_container_engine=engine)
    assert {each["code"] for each in decided["problems"]} == {"container_of_others"}


# -- environments that hosts make -------------------------------------------------------------------------------------
WHEELS = [
    {
        "kind": "python",
        "environment": "e",
        "vllm_version": "0.8.5",
        "environment_python": "3.10",
        "glibc": "2.31",
        "path": f"python/venvs/e/{name}",
        "size": 1,
        "sha256": "ab" * 32,
    }
    for name in ("requirements.txt", "uv-0.13.9-py3-none-any.whl")
]


def made(*more: dict[str, Any], **host_more: Any) -> dict[str, Any]:
    variables = hosts(1, vllm_runtime="venv", **host_more)
    bundle = Bundle()
    return decide(
        DecisionInput({"one": {"hosts": ["gpu1"], "head": "gpu1"}}, variables, ["gpu1"]),
        Readers(lambda path: [*bundle.records(path), *more], bundle.config),
    )


def test_a_host_makes_its_environment_and_serves_from_it() -> None:
    found = made(*WHEELS)
    assert found["problems"] == []
    section = found["hosts"]["gpu1"]
    python = section["environment"]["python"]
    assert section["environment"]["made"]
    assert python.startswith("/opt/llm/venvs/0.8.5-")
    assert section["user"]["program"] == python
    another = made(*WHEELS, vllm_base_python="/opt/python/bin/python3")["hosts"]["gpu1"]
    assert another["vllm"]["unit"]["environment"]["PATH"] != section["vllm"]["unit"]["environment"]["PATH"]


def test_an_environment_of_a_person_is_served_from() -> None:
    section = made(vllm_python="/opt/vllm/bin/python3")["hosts"]["gpu1"]
    assert section["environment"] == {"made": False, "python": "/opt/vllm/bin/python3"}
    assert section["user"]["program"] == "/opt/vllm/bin/python3"


def test_without_wheels_of_the_release_there_is_none() -> None:
    assert "holds no wheels of the vLLM release" in refused(made())
    assert "0.8.5" in refused(made(*WHEELS, vllm_version="0.8.4"))


def test_in_a_container_there_is_no_environment() -> None:
    assert [section["environment"] for section in answer(hosts())["hosts"].values()] == [{"made": False}] * 2


def reduced(**more: Any) -> dict[str, Any]:
    """What is decided for a pair whose second host does not take part."""
    absent = {
        "deployment": "pair",
        "turn": 1,
        "hosts": {"gpu2": {"since": "2026-11-28T03:12Z", "why": "left_out"}},
        "former": {},
    }
    found = answer(connected(hosts(1, **more)), {"pair": {"hosts": ["gpu1"], "head": "gpu1", "absent": absent}})
    if found["plans"]["pair"]["ok"]:
        assert found["hosts"]["gpu1"]["network"]["state"]["absent"] == absent
        assert found["hosts"]["gpu1"]["planned"] == ["gpu1"]
    return found


def test_without_a_host_the_model_is_spread_over_the_others() -> None:
    whole = answer(connected(hosts(vllm_tensor_parallel_size=1, vllm_pipeline_parallel_size=2)))
    assert whole["plans"]["pair"]["settings"]["pipeline_parallel_size"] == 2
    assert "absent" not in whole["hosts"]["gpu1"]["network"]["state"]
    left = reduced(vllm_tensor_parallel_size=1, vllm_pipeline_parallel_size=2)
    assert left["problems"] == []
    assert left["plans"]["pair"]["settings"].get("pipeline_parallel_size", 1) == 1


def test_without_a_host_the_context_may_be_shorter_and_what_cannot_start_is_refused() -> None:
    # What two cards hold, and one does not.
    settings = {"vllm_gpu_memory_utilization": 0.15, "vllm_max_num_seqs": 4, "vllm_max_model_len": 32768}
    left = reduced(**settings)
    length = left["plans"]["pair"]["settings"]["max_model_len"]
    assert left["plans"]["pair"]["ok"]
    assert 0 < length < 32768
    assert any(str(length) in reason and "32768" in reason for reason in left["plans"]["pair"]["reasons"])
    assert answer(connected(hosts(2, **settings)))["plans"]["pair"]["ok"]
    assert not answer(connected(hosts(1, **settings)), {"pair": {"hosts": ["gpu1"], "head": "gpu1"}})["plans"]["pair"][
        "ok"
    ]
    assert "dtype_not_supported" in refused(reduced(vllm_dtype="bfloat16"))
