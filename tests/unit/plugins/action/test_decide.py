"""The action plugins decide, network_connectivity and report as Ansible would run them, without a playbook."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible.utils.display import Display
from ansible_collections.baremetal.llm.plugins.action import decide, network_connectivity, record, report
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.changes import code_digest, digest, with_secrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.network import addresses

from tests.support.connectivity import good
from tests.support.deployments import facts

FAST, SLOW = "10.0.0.0/24", "192.168.0.0/24"
CONFIG = Path(__file__).resolve().parents[4] / "tests/data/models/Qwen__Qwen2-0.5B.json"
Variables = dict[str, dict[str, Any]]


class HostVars(dict[str, dict[str, Any]]):
    """The variables of all hosts, as Ansible hands them to a task."""

    def raw_get(self, name: str) -> dict[str, Any]:
        return self[name]


@pytest.fixture
def variables(tmp_path: Path) -> Variables:
    """A deployment of gpu1 and gpu2; defaults are those of the roles."""
    said = {
        "llm_report_dir": str(tmp_path / "reports"),
        "llm_secrets_dir": str(tmp_path / "secrets"),
        "vllm_model": "lab/tiny",
        "vllm_version": "0.8.5",
        "vllm_model_config": str(CONFIG),
        "vllm_max_model_len": trust_as_template("{{ 1024 * 2 }}"),
        "vllm_environment": {"HF_TOKEN": "s3cret"},
    }
    hosts: Variables = {
        f"gpu{n}": {**said, "llm_interface": {"interface": "eth1", "address": f"10.0.0.{n}"}, "ansible_facts": facts(n)}
        for n in (1, 2)
    }
    deployments = {"pair": {"hosts": ["gpu1", "gpu2"], "head": "gpu1"}}
    return {**hosts, "localhost": {**said, "llm_inventory": {"deployments": deployments}}}


def run(
    plugin: Any,
    variables: Variables,
    host: str = "localhost",
    arguments: Mapping[str, Any] | None = None,
    playing: tuple[str, ...] = ("localhost", "gpu1", "gpu2"),
    module: Callable[..., dict[str, Any]] | None = None,
    check_mode: bool = False,
) -> dict[str, Any]:
    """The result of an action; ``module`` stands for what it would run on the host."""
    task = Task()
    task.args = dict(arguments or {})
    task.check_mode = check_mode
    action = plugin.ActionModule(
        task, SimpleNamespace(_shell=SimpleNamespace(tmpdir="")), None, DataLoader(), Templar(DataLoader())
    )
    action._load_name = plugin.__name__.rpartition(".")[2]
    if module:
        action._execute_module = module
    task_vars = {
        **variables[host],
        "inventory_hostname": host,
        "hostvars": HostVars(variables),
        "ansible_play_hosts": list(playing),
        "ansible_play_hosts_all": list(playing),
        "ansible_forks": 5,
        "groups": {"all": list(variables), **groups_of(variables)},
    }
    result: dict[str, Any] = action.run(task_vars=task_vars)
    assert not result.get("changed")
    return result


def groups_of(variables: Variables) -> dict[str, list[str]]:
    """The gateway, and the page on it where it has an administrator."""
    gate = variables.get("gate")
    pages = {"llm_web_ui": ["gate"]} if gate and "web_ui_admin_email" in gate else {}
    return {"llm_gateway": ["gate"], **pages} if gate else {}


def refusal(variables: Variables, capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    """What a person sees of a run that is refused. The problems are printed once, and stand in no result."""
    capsys.readouterr()
    with pytest.raises(AnsibleActionFail) as error:
        decided(variables, **more)
    said = capsys.readouterr().out
    assert "\n" not in str(error.value)
    return said


def decided(variables: Variables, **more: Any) -> dict[str, Any]:
    found = run(decide, variables, **more)
    # A fact would stay in a cache, with the secrets of an environment, and the next run would plan by it.
    assert "ansible_facts" not in found
    return found


def written(variables: Variables) -> dict[str, Any]:
    text = Path(variables["localhost"]["llm_report_dir"], "decision.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


# -- decide -----------------------------------------------------------------------------------------------------------
def test_all_hosts_are_decided_for_at_once_and_it_is_written_down(variables: Variables) -> None:
    found = decided(variables)
    assert set(found["hosts"]) == {"gpu1", "gpu2"}
    assert found["plans"]["pair"]["settings"]["max_model_len"] == 2048
    # Defaults of the roles, and templates among them.
    assert "/opt/llm/models:/opt/llm/models:ro" in found["hosts"]["gpu2"]["ray"]["container"]["volumes"]
    assert found["hosts"]["gpu1"]["vllm"]["environment_file"]["names"] == ["HF_TOKEN"]
    assert "s3cret" not in json.dumps(found), "-v shows what it returns"
    assert written(variables)["hosts"].keys() == found["hosts"].keys()
    assert "s3cret" not in json.dumps(written(variables))
    token = found["hosts"]["gpu1"]["network"]["check"]["token"]
    assert token not in json.dumps(written(variables))
    assert sorted(os.listdir(variables["localhost"]["llm_report_dir"])) == ["decision.json", "plan.html", "plan.json"]
    assert (Path(variables["localhost"]["llm_report_dir"]) / "decision.json").stat().st_mode & 0o777 == 0o600


def test_a_secret_is_hidden_wherever_its_value_stands(variables: Variables) -> None:
    """A name that says nothing, and a setting that took the value of another variable."""
    for each in ("gpu1", "gpu2"):
        variables[each]["vllm_api_key"] = "of-the-vault-0123456789"
        variables[each]["vllm_served_model_name"] = "x-of-the-vault-0123456789"
    found = decided(variables)
    assert "of-the-vault" in json.dumps(found)
    folder = Path(variables["localhost"]["llm_report_dir"])
    assert not [path.name for path in folder.iterdir() if "of-the-vault" in path.read_text()]


def test_in_check_mode_nothing_is_written(variables: Variables) -> None:
    assert decided(variables, check_mode=True)["plans"]
    assert not Path(variables["localhost"]["llm_report_dir"]).exists()


def kept(variables: Variables) -> dict[str, str]:
    """The secrets on the controller."""
    folder = Path(variables["localhost"]["llm_secrets_dir"])
    return {path.name: path.read_text().strip() for path in folder.iterdir()} if folder.exists() else {}


def held_by_hosts(variables: Variables, standing: str, **values: str) -> None:
    """What gather and the reading after it leave: the token on both hosts, the key on the head."""
    for host, files in (("gpu1", ("ray_token", "vllm_api_key")), ("gpu2", ("ray_token",))):
        variables[host]["ansible_facts"]["llm_secrets"] = dict.fromkeys(files, standing)
        content = {file: base64.b64encode(values.get(file, f"held {file}").encode()).decode() for file in files}
        results = [{"item": file, "content": text} for file, text in content.items()] if standing == "unknown" else []
        variables[host]["__preflight_secrets"] = {"results": results}


def test_secrets_that_nobody_has_are_made_once_in_a_run(variables: Variables) -> None:
    variables["localhost"]["llm_rotate_secrets"] = "all"
    first = decided(variables)
    made = kept(variables)
    assert set(made) == {"pair_ray_token", "pair_api_key"}
    assert {(each["kind"], each["how"]) for each in first["secrets"]} == {
        ("ray_token", "rotated"),
        ("api_key", "rotated"),
    }
    assert not [value for value in made.values() if value in json.dumps(first)]
    for each in variables.values():
        each["llm_decision"] = first
    assert decided(variables)["secrets"] == first["secrets"]
    assert kept(variables) == made


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_second_controller_adopts_and_has_nothing_to_do(variables: Variables, check_mode: bool) -> None:
    first = decided(variables)
    asked = {host: first["hosts"][host]["asked"] for host in ("gpu1", "gpu2")}
    of_first = {name.removeprefix("pair_"): value for name, value in kept(variables).items()}
    for path in Path(variables["localhost"]["llm_secrets_dir"]).iterdir():
        path.unlink()
    held_by_hosts(variables, "unknown", ray_token=of_first["ray_token"], vllm_api_key=of_first["api_key"])
    digests = {name: digest(value) for name, value in of_first.items()}
    for host in ("gpu1", "gpu2"):
        made_from = with_secrets(asked[host], digests)
        variables[host]["ansible_facts"]["llm_records"] = {
            role: {"digest": made_from[role], "collection": code_digest(), "differs": []} for role in ("ray", "vllm")
        }
    second = decided(variables, check_mode=check_mode)
    reasons = [reason for found in second["work"]["serve"].values() for reason in found]
    assert not [reason for reason in reasons if reason["role"] in ("ray", "vllm")]
    assert {each["how"] for each in second["secrets"]} == {"adopted"}
    expected = {f"pair_{name}": value for name, value in of_first.items()}
    assert kept(variables) == ({} if check_mode else expected)


def test_a_record_has_the_digests_that_the_decision_compared(variables: Variables) -> None:
    first = decided(variables)
    asked = {host: found["asked"] for host, found in first["hosts"].items()}
    assert {each["collection"] for each in asked.values()} == {code_digest()}
    handed: list[dict[str, Any]] = []

    def module(module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        handed.append(module_args)
        return {"changed": False, "recorded": True}

    first["hosts"]["gpu2"]["asked"]["collection"] = "that of the decision"
    for each in variables.values():
        each["llm_decision"] = first
    run(record, variables, "gpu2", {"role": "network", "records_dir": "/records"}, module=module)
    (arguments,) = handed
    assert (arguments["made_from"], arguments["collection"]) == (asked["gpu2"]["network"], "that of the decision")
    unknown = {"role": "docker", "records_dir": "/records"}
    assert run(record, variables, "gpu2", unknown, module=module)["recorded"] is False, "nobody asked for it"
    assert len(handed) == 1


def test_differences_are_refused_together_and_change_nothing(
    variables: Variables, capsys: pytest.CaptureFixture[str]
) -> None:
    decided(variables)
    before = kept(variables)
    held_by_hosts(variables, "differs")
    text = refusal(variables, capsys)
    for part in ("1. ", "2. ", "gpu1:/opt/llm/secrets/vllm_api_key", "gpu2:/opt/llm/secrets/ray_token", "pair_api_key"):
        assert part in text
    assert not [value for value in before.values() if value in text]
    assert kept(variables) == before
    variables["localhost"]["llm_rotate_secrets"] = "api_key"
    assert "vllm_api_key" not in refusal(variables, capsys), "only the token is refused now"
    assert kept(variables) == before


def test_a_secret_that_is_not_asked_for_is_not_made(variables: Variables) -> None:
    for host in ("gpu1", "gpu2"):
        variables[host] |= {"ray_token_enabled": False, "vllm_api_key": "s3t" * 6}
    assert decided(variables)["secrets"] == []
    assert kept(variables) == {}


# -- the gateway ------------------------------------------------------------------------------------------------------
@pytest.fixture
def gated(variables: Variables) -> Variables:
    """The same with a gateway that is no host of a deployment, and that was looked at."""
    said = {name: variables["localhost"][name] for name in ("llm_report_dir", "llm_secrets_dir")}
    variables["gate"] = {**said, "gateway_keys": [{"name": "alice"}], "ansible_host": "192.0.2.9"}
    variables["gate"]["ansible_facts"] = {"llm_records": {}}
    return variables


def test_a_gateway_is_decided_for_with_the_addresses_of_the_heads(gated: Variables) -> None:
    found = decided(gated)
    section = found["gateways"]["gate"]
    (model,) = section["models"]
    assert [each["address"] for each in model["replicas"]] == ["10.0.0.1"]
    assert section["needed"]
    assert [each["code"] for each in section["work"]] == ["work_no_record"]
    names = {"gateway_key_alice", "gateway_own_key", "gateway_replica_key", "gateway_ca.crt", "gateway_ca.key"}
    assert names | {"gateway_gate.crt", "gateway_gate.key"} <= set(kept(gated))
    for name in ("gateway_key_alice", "gateway_own_key", "gateway_replica_key", "gateway_ca.key", "gateway_gate.key"):
        assert kept(gated)[name] not in json.dumps(found)
        assert Path(gated["gate"]["llm_secrets_dir"], name).stat().st_mode & 0o077 == 0
    assert "gate" not in found["hosts"]


def test_a_gateway_whose_record_holds_has_nothing_to_do(gated: Variables) -> None:
    asked = decided(gated)["gateways"]["gate"]["asked"]["gateway"]
    record = {"digest": asked, "collection": decide.code_digest(), "differs": []}
    gated["gate"]["ansible_facts"] = {"llm_records": {"gateway": record}}
    assert not decided(gated)["gateways"]["gate"]["needed"]
    gated["gate"]["gateway_keys"] = [{"name": "alice"}, {"name": "bob"}]
    assert [each["code"] for each in decided(gated)["gateways"]["gate"]["work"]] == ["work_other_settings"]
    gated["gate"]["gateway_keys"] = [{"name": "alice"}]
    # As --extra-vars brings it: a text.
    for said, needed in ((True, True), ("false", False), ("true", True)):
        gated["localhost"]["llm_full_check"] = said
        assert decided(gated)["gateways"]["gate"]["needed"] is needed


def test_the_page_has_secrets_of_its_own_and_a_record_beside_the_gateway_s(gated: Variables) -> None:
    gated["gate"]["web_ui_admin_email"] = "admin@example.org"
    found = decided(gated)
    section = found["gateways"]["gate"]
    assert section["web_ui"]["needed"]
    for name in ("gateway_web_ui_key", "web_ui_session_key", "web_ui_admin_password"):
        assert kept(gated)[name] not in json.dumps(found)
        assert Path(gated["gate"]["llm_secrets_dir"], name).stat().st_mode & 0o077 == 0
    code = {"collection": decide.code_digest(), "differs": []}
    records = {role: {"digest": section["asked"][role], **code} for role in ("gateway", "web_ui")}
    gated["gate"]["ansible_facts"] = {"llm_records": records}
    section = decided(gated)["gateways"]["gate"]
    assert (section["needed"], section["web_ui"]["needed"]) == (False, False)
    # The gateway stays as it is where only the page changes.
    gated["gate"]["web_ui_memory_gib"] = 3
    section = decided(gated)["gateways"]["gate"]
    assert (section["needed"], section["web_ui"]["needed"]) == (False, True)
    assert [each["code"] for each in section["web_ui"]["work"]] == ["work_other_settings"]
    gated["gate"]["web_ui_port"] = 9443
    assert decided(gated)["gateways"]["gate"]["needed"]


def test_another_image_of_the_page_in_the_bundle_is_something_to_do(gated: Variables, tmp_path: Path) -> None:
    gated["gate"] |= {
        "web_ui_admin_email": "admin@example.org",
        "web_ui_image": "lab/page:1",
        "llm_bundle_dir": str(tmp_path),
    }
    found = []
    for number in (1, 2):
        image = {"reference": "lab/page:1", "id": f"sha256:{number}"}
        file = {"path": "images.tar", "kind": "image", "size": 1, "sha256": "0" * 64, "images": [image]}
        (tmp_path / "manifest.yml").write_text(json.dumps({"schema": 1, "files": [file]}))
        os.utime(tmp_path / "manifest.yml", (number, number))
        found.append(decided(gated)["gateways"]["gate"]["asked"])
    assert found[0]["web_ui"] != found[1]["web_ui"]
    assert found[0]["gateway"] == found[1]["gateway"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_second_controller_makes_no_new_keys_of_a_gateway(
    gated: Variables, check_mode: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host holds only digests of them, so that nobody can adopt them; clients would be locked out."""
    gated["gate"]["ansible_facts"] = {"llm_records": {"gateway": {"digest": "x", "collection": "x", "differs": []}}}
    text = refusal(gated, capsys, check_mode=check_mode)
    for part in (
        "Another machine has set up the gateway on gate",
        "gateway_key_alice, gateway_ca.crt, gateway_ca.key",
    ):
        assert part in text
    assert not [name for name in kept(gated) if name.startswith("gateway")]
    # What the inventory says is the same on both machines; and it may be meant.
    gated["gate"]["gateway_keys"] = [{"name": "alice", "key": "k" * 40}]
    assert "gateway_ca" in refusal(gated, capsys, check_mode=check_mode)
    gated["localhost"]["llm_rotate_secrets"] = "gateway"
    assert decided(gated, check_mode=check_mode)["gateways"]


def test_nothing_is_made_before_a_gateway_was_looked_at(gated: Variables, capsys: pytest.CaptureFixture[str]) -> None:
    """site.yml decides for the first time before it looks at the gateways: what was made then would hide that another machine has set them up."""
    del gated["gate"]["ansible_facts"]
    assert decided(gated)["gateways"]["gate"]["needed"]
    assert not [name for name in kept(gated) if name.startswith("gateway")]
    gated["gate"]["ansible_facts"] = {"llm_records": {"gateway": {"digest": "x", "collection": "x", "differs": []}}}
    assert "Another machine has set up the gateway on gate" in refusal(gated, capsys)


def test_a_gateway_in_check_mode_keeps_no_secret(gated: Variables) -> None:
    assert decided(gated, check_mode=True)["gateways"]["gate"]["needed"]
    assert kept(gated) == {}


def test_a_gateway_that_is_refused_ends_the_run(gated: Variables, capsys: pytest.CaptureFixture[str]) -> None:
    gated["gate"]["gateway_keys"] = [{"name": "alice", "key": "short"}]
    assert "alice is too short" in refusal(gated, capsys)


def test_before_the_heads_are_known_there_is_no_gateway(gated: Variables) -> None:
    for host in ("gpu1", "gpu2"):
        del gated[host]["llm_interface"]
    assert decided(gated)["gateways"] == {}


def test_a_plan_is_made_once_in_a_run(variables: Variables) -> None:
    first = decided(variables)
    for each in variables.values():
        each |= {"llm_decision": first, "vllm_model_config": "/no/such/config.json"}
    later = decided(variables, host="gpu1", playing=("gpu1", "gpu2"))
    assert later["plans"]["pair"]["settings"] == first["plans"]["pair"]["settings"]


def test_what_past_starts_measured_is_read(variables: Variables, tmp_path: Path) -> None:
    predicted = decided(variables)["plans"]["pair"]["predicted"]
    observed = {
        "gpu": "Tesla V100-PCIE-16GB",
        "model": json.loads(CONFIG.read_text(encoding="utf-8")),
        "vllm_version": "0.8.5",
        "prediction": predicted,
        "truth": {"kv_cache_gib": predicted["ranks"][0]["kv_cache_gib"] - 1},
    }
    (tmp_path / "reports/observations").mkdir()
    (tmp_path / "reports/observations/pair-0.8.5.json").write_text(json.dumps(observed))
    assert decided(variables)["plans"]["pair"]["past"]["observations"] == 1


@pytest.mark.parametrize(("lang", "part"), [("en", "cannot start as it is set"), ("zh", "按当前设置无法启动")])
def test_a_plan_that_cannot_start_ends_the_run_and_can_be_read(
    variables: Variables, lang: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in variables.values():
        each |= {"vllm_dtype": "bfloat16", "llm_language": lang}
    assert part in refusal(variables, capsys)
    assert not written(variables)["plans"]["pair"]["ok"]
    # The page is there for a refused plan, too, and says it first.
    page = (Path(variables["localhost"]["llm_report_dir"]) / "plan.html").read_text()
    assert part in page


def went_back(variables: Variables, reason: str) -> Variables:
    """The same deployment, which left what the inventory asks for."""
    version = run(decide, variables)["hosts"]["gpu1"]["version"]
    note = {"version": version, "image": "image:2", "at": "2026-01-01T00:00:00Z", "reason": reason}
    for host in ("gpu1", "gpu2"):
        variables[host]["ansible_facts"]["llm_served"] = {"states": [], "returned": note, "begun": None}
    return variables


def test_what_did_not_serve_is_refused_but_to_an_upgrade(
    variables: Variables, capsys: pytest.CaptureFixture[str]
) -> None:
    went_back(variables, "no token")
    with pytest.raises(AnsibleActionFail):
        run(decide, variables)
    assert "pair went back from what the inventory asks for at 2026-01-01T00:00:00Z" in capsys.readouterr().out
    # One of its hosts is named, and the deployment is upgraded as a whole.
    variables["localhost"]["llm_upgrade_hosts"] = ["gpu2"]
    assert run(decide, variables)["turns"] == {"sizes": [2], "hosts": "gpu1:gpu2", "canaries": ["pair"]}


def test_what_a_person_left_is_named_and_another_setting_is_another_version(
    variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda self, text, **more: warned.append(text))
    run(decide, went_back(variables, ""))
    assert len(warned) == 1
    assert "pair was taken back from image:2" in warned[0]
    for host in variables.values():
        host["vllm_max_num_seqs"] = 16
    run(decide, variables)
    assert len(warned) == 1


def test_an_upgrade_of_others_leaves_a_deployment_alone(variables: Variables) -> None:
    variables["localhost"]["llm_upgrade_hosts"] = ["elsewhere"]
    found = run(decide, variables)
    assert found["turns"]["hosts"] == ""
    assert found["left_out"]["serve"].endswith(":!gpu1:!gpu2")


def test_a_config_that_is_not_there_is_named(variables: Variables, capsys: pytest.CaptureFixture[str]) -> None:
    variables["gpu1"]["vllm_model_config"] = "/no/such/config.json"
    assert "/no/such/config.json" in refusal(variables, capsys)


def test_reports_that_cannot_be_written(variables: Variables, tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file")
    with pytest.raises(AnsibleActionFail, match="llm_report_dir"):
        decided(variables)


def test_a_name_that_means_nothing_has_no_address() -> None:
    assert addresses.resolved("no-such-host.invalid") == []
    assert addresses.resolved("." * 300) == []
    assert addresses.resolved("192.0.2.1") == ["192.0.2.1"]


# -- network_connectivity ---------------------------------------------------------------------------------------------
def step(variables: Variables, host: str, state: str, **returned: Any) -> dict[str, Any]:
    """What one step tells the module on a host; what is registered is among the variables of the host then."""
    passed: dict[str, Any] = {}

    def module(module_args: dict[str, Any], **dummy: Any) -> dict[str, Any]:
        passed.update(module_args)
        return {"changed": False, **returned}

    result = run(network_connectivity, variables, host, {"state": state}, module=module)
    variables[host]["llm_connectivity"] = result
    return passed


def test_the_three_steps(variables: Variables) -> None:
    decision = decided(variables)
    for host in ("gpu1", "gpu2"):
        earlier = {"port": 1, "held": {}, "heard": {"an earlier": "check"}}
        variables[host] |= {"llm_decision": decision, "llm_connectivity": earlier}
    check = decision["hosts"]["gpu1"]["network"]["check"]
    for number, host in enumerate(("gpu1", "gpu2"), start=1):
        passed = step(variables, host, "listening", port=40000 + number, held={}, taken=[])
        assert passed == {
            "state": "listening",
            "name": "",
            "host": host,
            "token": check["token"],
            "addresses": {FAST: f"10.0.0.{number}", SLOW: f"192.168.0.{number}"},
            "ports": decision["hosts"][host]["network"]["check"]["ports"],
            "lifetime_seconds": 600,
        }
        # What was heard in an earlier check says nothing about this one.
        assert "heard" not in variables[host]["llm_connectivity"]
    results = good(FAST, SLOW, hosts=2)
    passed = step(variables, "gpu1", "connected", reached=results["gpu1"]["reached"])
    (peer,) = passed.pop("peers")
    assert (peer["host"], peer["port"], peer["addresses"][SLOW]) == ("gpu2", 40002, "192.168.0.2")
    assert passed == {
        "state": "connected",
        "name": "",
        "host": "gpu1",
        "token": check["token"],
        "addresses": check["addresses"],
        "mtus": {FAST: 1500, SLOW: 1500},
    }
    step(variables, "gpu2", "connected", reached=results["gpu2"]["reached"])
    for host in ("gpu1", "gpu2"):
        assert step(variables, host, "stopped", heard=results[host]["heard"]) == {"state": "stopped", "name": ""}
        assert set(variables[host]["llm_connectivity"]) >= {"port", "held", "taken", "reached", "heard"}
    assert decided(variables, host="gpu1", playing=("gpu1", "gpu2"))["networks"]["pair"]["network"] == FAST


# -- report -----------------------------------------------------------------------------------------------------------
def test_the_report_reads_what_the_stages_left(variables: Variables, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr(Display, "display", lambda _display, text, *_more, **_named: printed.append(text))
    first = decided(variables)
    variables["localhost"] |= {
        "llm_decision": first,
        "llm_stages": [{"name": "decide", "started": 10.0}, {"name": "report", "started": 12.0}],
    }
    before = run(report, variables)["lines"]
    # The plays after the first have no localhost, so a later decision is known to the hosts alone.
    for host, found in good(FAST, SLOW, hosts=2).items():
        variables[host]["llm_connectivity"] = found
    later = decided(variables, playing=("gpu1", "gpu2"))
    for host in ("gpu1", "gpu2"):
        variables[host]["llm_decision"] = later
    serving = {
        "url": "http://10.0.0.1:8000",
        "model": "lab/tiny",
        "prompt": "Hello",
        "answer": " world",
        "tokens": 1,
        "ranks": ["gpu1", "gpu2"],
    }
    variables["gpu1"]["llm_serving"] = serving
    after = run(report, variables)["lines"]
    assert "\n".join(after) in printed[-1]
    assert "http://10.0.0.1:8000" not in "\n".join(before)
    assert "http://10.0.0.1:8000" in "\n".join(after)
    assert FAST not in "\n".join(before)
    assert FAST in "\n".join(after)
