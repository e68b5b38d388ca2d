"""What the gateways do, and what is refused before one of them is touched."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_names, engine_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.vllm.paths import SINCE, paths_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.decide import (
    FORMS,
    ITSELF,
    Gateways,
    Secrets,
    decide_gateways,
    quoted,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[5]
DEFAULTS: dict[str, Any] = yaml.safe_load((ROOT / "roles/gateway/defaults/main.yml").read_text(encoding="utf-8"))
LONG = "0123456789" * 4


def head(name: str = "qwen", **more: Any) -> dict[str, Any]:
    return {
        "vllm_model": "Qwen/Qwen2.5-7B-Instruct",
        "vllm_served_model_name": name,
        "vllm_version": "0.8.5.post1",
        "vllm_port": 8000,
        "vllm_probe_enabled": True,
        **more,
    }


def gateway(*keys: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**DEFAULTS, "gateway_keys": list(keys) or [{"name": "alice"}], **more}


def value_of(key: str) -> str:
    return f"{key}-{LONG}"


def asked(
    heads: Mapping[str, Mapping[str, Any]] | None = None,
    gate: Mapping[str, Any] | None = None,
    values: Mapping[str, str] | None = None,
    problems: Sequence[dict[str, str]] = (),
    known: bool = True,
    language: str = "en",
    plans: Mapping[str, Any] | None = None,
) -> tuple[dict[str, dict[str, Any]], list[dict[str, str]]]:
    """The decision about the gateway `gate`, in front of deployments whose heads are h1, h2, ..."""
    heads = heads or {"a": head(), "b": head(), "c": head("other")}
    names = {deployment: f"h{number}" for number, deployment in enumerate(heads, 1)}
    return decide_gateways(
        Gateways(
            ["gate"],
            {deployment: {"head": names[deployment], "hosts": [names[deployment]]} for deployment in heads},
            {**{names[deployment]: mine for deployment, mine in heads.items()}, "gate": gate or gateway()},
            plans or {},
            {name: f"10.0.0.{name[1:]}" for name in names.values()} if known else {},
            language,
        ),
        Secrets(
            key=lambda host, name: (values or {}).get(name, value_of(name)),
            replica_key=lambda: "R" * 40,
            own_key=lambda: "O" * 40,
            problems=lambda host: problems,
            certificate=lambda host, wanted: {"names": sorted(wanted), "root": "ca.crt", "days": 300},
        ),
    )


def answer(sections: Mapping[str, Any], name: str) -> Any:
    """What HAProxy makes of a quoted text."""
    return json.loads(re.sub(r"\\(.)", r"\1", sections["gate"]["answers"][name][1:-1]))


def codes(found: tuple[Any, list[dict[str, str]]]) -> list[str]:
    sections, problems = found
    assert not (sections and problems), "what is refused has no section"
    return [each["code"] for each in problems]


def test_deployments_of_one_name_are_replicas_of_one_model() -> None:
    sections, problems = asked()
    assert not problems
    models = sections["gate"]["models"]
    assert [(model["name"], [each["name"] for each in model["replicas"]]) for model in models] == [
        ("other", ["c"]),
        ("qwen", ["a", "b"]),
    ]
    assert models[1]["replicas"][1] == {"name": "b", "host": "h2", "address": "10.0.0.2", "port": 8000, "requests": 256}


def test_what_counts_tokens_is_told_of_every_replica_and_each_limit() -> None:
    gate = gateway({"name": "alice"}, {"name": "bob", "tokens_per_minute": 900})
    sections, _problems = asked(gate=gate)
    usage = sections["gate"]["usage"]
    assert usage["limits"] == {"alice": 0, "bob": 900}
    assert usage["replicas"] == [
        {"model": "other", "name": "c", "address": "10.0.0.3", "port": 8000},
        {"model": "qwen", "name": "a", "address": "10.0.0.1", "port": 8000},
        {"model": "qwen", "name": "b", "address": "10.0.0.2", "port": 8000},
    ]


def test_a_model_without_a_name_of_its_own_is_asked_for_by_its_own() -> None:
    sections, _problems = asked({"a": head("", vllm_served_model_name=None)})
    assert [model["name"] for model in sections["gate"]["models"]] == ["Qwen/Qwen2.5-7B-Instruct"]


def test_the_maps_hold_no_key_and_open_to_each_what_it_is_for() -> None:
    gate = gateway({"name": "alice"}, {"name": "bob", "models": ["qwen"], "requests_per_minute": 7})
    sections, problems = asked(gate=gate)
    assert not problems
    files = sections["gate"]["files"]
    digest = hashlib.sha256(value_of("bob").encode()).hexdigest().upper()
    assert f"{digest} bob\n" in files["keys.map"]
    assert LONG not in json.dumps(sections)
    assert set(files["access.map"].splitlines()) == {
        *("alice/other 1", "alice/qwen 1", "bob/qwen 1"),
        *(f"{ITSELF}/other 1", f"{ITSELF}/qwen 1"),
    }
    assert files["limits.map"].splitlines()[:2] == ["alice 0", "bob 7"]
    assert files["spent.map"] == ""
    assert files["models.map"] == "other model1\nqwen model2\n"
    lists = dict(line.split(" ", 1) for line in files["lists.map"].splitlines())
    shown = {key: [model["id"] for model in json.loads(text)["data"]] for key, text in lists.items()}
    assert shown == {"alice": ["other", "qwen"], "bob": ["qwen"], ITSELF: ["other", "qwen"]}


@pytest.mark.parametrize(("language", "said"), [("en", "GET /v1/models names"), ("zh", "GET /v1/models 列出")])
def test_what_clients_are_told_has_openai_s_form(language: str, said: str) -> None:
    sections, _problems = asked(language=language)
    names = set(sections["gate"]["answers"]) - {"model1", "model2"}
    errors = {name: answer(sections, name)["error"] for name in names}
    assert said in errors["unknown_model"]["message"]
    assert not [name for name, each in errors.items() if "qwen" in each["message"]], (
        "a key is told of its own models only"
    )
    assert all(set(each) == {"message", "type", "param", "code"} for each in errors.values())
    assert set(sections["gate"]["errors"].values()) <= set(errors)


def test_every_answer_that_the_template_names_is_there() -> None:
    text = (ROOT / "roles/gateway/templates/haproxy.cfg.j2").read_text(encoding="utf-8")
    named = set(re.findall(r"_gateway\.answers\.(\w+)", text))
    sections, _problems = asked()
    assert named <= set(sections["gate"]["answers"])
    assert len(named) > 8


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_quoted_text_is_one_word_with_nothing_to_expand(text: str) -> None:
    inner = quoted(text)[1:-1]
    assert re.sub(r"\\(.)", r"\1", inner) == text
    assert not re.search(r'(?<!\\)(?:\\\\)*["$]', inner)


def test_a_model_of_which_one_replica_has_no_probe_is_asked_whether_it_is_alive() -> None:
    sections, _problems = asked({"a": head(), "b": head(vllm_probe_enabled=False), "c": head("other")})
    assert [model["check"] for model in sections["gate"]["models"]] == ["/ready", "/health"]


def test_paths_are_those_that_all_replicas_have() -> None:
    assert paths_of(["0.32.0"]) == list(SINCE)
    assert "/v1/responses" not in paths_of(["0.32.0", "0.8.5.post1"])
    assert paths_of(["0.8.5.post1"])[:2] == ["/v1/chat/completions", "/v1/completions"]
    sections, _problems = asked(gate=gateway(gateway_paths=["/classify"]))
    assert {"/classify", "/v1/chat/completions"} <= set(sections["gate"]["paths"])
    assert not {"/metrics", "/invocations", "/pause", "/ready"} & set(sections["gate"]["paths"])


@pytest.mark.parametrize(
    ("release", "has", "lacks"),
    [
        ("0.7.2", "/v1/rerank", "/v1/audio/transcriptions"),
        ("0.7.3", "/v1/audio/transcriptions", "/v1/audio/translations"),
        ("0.9.2", "/v1/audio/translations", "/v1/responses"),
        ("0.11.0", "/v1/responses", "/v1/messages"),
        ("0.11.1", "/v1/messages", "/v1/messages/count_tokens"),
        ("0.17.0", "/v1/messages/count_tokens", "/v1/messages/render"),
    ],
)
def test_a_release_of_vllm_has_the_paths_of_its_source(release: str, has: str, lacks: str) -> None:
    assert has in paths_of([release])
    assert lacks not in paths_of([release])


@pytest.mark.parametrize("engine", engine_names())
def test_every_engine_offers_paths_by_release_and_those_of_forms_are_known(engine: str) -> None:
    """HAProxy looks for the model in a field of a form at just the paths of audio."""
    found = engine_of({"llm_engine": engine})
    paths = found.paths([found.example_release])
    assert {"/v1/chat/completions", "/v1/completions"} <= set(paths)
    assert {path for path in paths if path.startswith("/v1/audio/")} <= set(FORMS)


@pytest.mark.parametrize(("language", "said"), [("en", "does not have this path"), ("zh", "没有此路径")])
def test_a_path_that_a_model_s_engine_lacks_is_answered_with_those_that_it_has(language: str, said: str) -> None:
    heads = {"a": head("new", vllm_version="0.33.0"), "b": head("old")}
    sections, _problems = asked(heads, gateway(gateway_paths=["/classify"]), language=language)
    files = sections["gate"]["files"]
    assert "model1/v1/messages 1\n" in files["paths.map"]
    assert "model2/v1/messages" not in files["paths.map"]
    assert files["paths.map"].count("/classify 1\n") == 2
    backend, _space, answer = files["no_path.map"].splitlines()[1].partition(" ")
    error = json.loads(answer)["error"]
    assert (backend, error["code"]) == ("model2", "unknown_url")
    assert said in error["message"]
    assert "/v1/rerank" in error["message"]
    assert "/v1/messages" not in error["message"]


@pytest.mark.parametrize(
    ("root", "trusted"), [("/s/ca.crt", ["/s/g1.crt", "/s/g2.crt", "/s/ca.crt"]), ("", ["/s/g1.crt", "/s/g2.crt"])]
)
def test_each_gateway_trusts_all_of_them(root: str, trusted: list[str]) -> None:
    deployments = {"a": {"head": "h1", "hosts": ["h1"]}}
    variables = {"h1": head(), "g1": gateway(), "g2": gateway()}
    secrets = Secrets(
        key=lambda _host, name: value_of(name),
        replica_key=lambda: "R" * 40,
        own_key=lambda: "O" * 40,
        problems=lambda _host: (),
        certificate=lambda host, _wanted: {"certificate": f"/s/{host}.crt", "root": root},
    )
    sections, _problems = decide_gateways(
        Gateways(["g1", "g2"], deployments, variables, {}, {"h1": "10.0.0.1"}, "en"), secrets
    )
    assert [sections[host]["trusted"] for host in ("g1", "g2")] == [trusted, trusted]


def test_the_names_of_the_certificate_and_the_address_that_is_reported() -> None:
    sections, _problems = asked(gate=gateway(gateway_names=["llm.example"], ansible_host="192.0.2.7"))
    assert sections["gate"]["url"] == "https://llm.example"
    assert sections["gate"]["certificate"]["names"] == ["192.0.2.7", "gate", "llm.example"]
    sections, _problems = asked(gate=gateway(ansible_host="2001:db8::7", gateway_https_port=8443))
    assert sections["gate"]["selinux"]["booleans"] == ["haproxy_connect_any"]
    assert sections["gate"]["url"] == "https://[2001:db8::7]:8443"


def test_two_gateways_share_an_address_and_its_name() -> None:
    pair = {
        f"g{number}": gateway(
            gateway_virtual_address="10.0.0.50",
            ansible_facts={"llm_nics_found": [{"name": "eth0", "addresses": [f"10.0.0.{number}/24"]}]},
        )
        for number in (7, 8)
    }
    wanted: dict[str, Sequence[str]] = {}

    def certificate(host: str, names: Sequence[str]) -> dict[str, Any]:
        wanted[host] = names
        return {}

    secrets = Secrets(lambda host, name: value_of(name), lambda: "R", lambda: "O", lambda host: (), certificate)
    deployments = {"a": {"head": "h1", "hosts": ["h1"]}}
    sections, problems = decide_gateways(
        Gateways(list(pair), deployments, {"h1": head(), **pair}, addresses={"h1": "10.0.0.1"}), secrets
    )
    assert not problems
    assert {section["url"] for section in sections.values()} == {"https://10.0.0.50"}
    assert wanted == {host: ["10.0.0.50", host] for host in pair}
    assert [sections[host]["virtual"]["peers"] for host in pair] == [["10.0.0.8"], ["10.0.0.7"]]
    # keepalived asks the gateway on a port that SELinux knows nothing of.
    assert sections["g7"]["selinux"]["booleans"] == ["haproxy_connect_any", "keepalived_connect_any"]
    alone = Gateways(["g7"], deployments, {"h1": head(), **pair}, addresses={"h1": "10.0.0.1"})
    assert codes(decide_gateways(alone, secrets)) == ["gateway_virtual"]


def test_nothing_is_decided_before_the_heads_were_looked_at() -> None:
    assert asked(known=False) == ({}, [])


def test_no_gateway_means_nothing_at_all() -> None:
    nobody = Secrets(*[lambda *_dummy: pytest.fail("asked for a secret")] * 5)
    assert decide_gateways(Gateways([], {}, {}), nobody) == ({}, [])


# -- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("keys", "values", "expected"),
    [
        ([{"name": "a"}], {"a": "short"}, ["gateway_key_short"]),
        ([{"name": "a"}], {"a": "x" * 31}, ["gateway_key_short"]),
        ([{"name": "a"}], {"a": "x" * 20 + " " + "y" * 20}, ["gateway_key_letters"]),
        ([{"name": "a"}], {"a": "ключ" * 10}, ["gateway_key_letters"]),
        ([{"name": "a"}, {"name": "a"}], {}, ["gateway_key_twice"]),
        ([{"name": "a"}, {"name": "b"}], {"a": LONG, "b": LONG}, ["gateway_key_same"]),
        ([{"name": "a b"}], {}, ["gateway_key_name"]),
        ([{"name": ITSELF}], {}, ["gateway_key_name"]),
        ([{"name": "../a"}], {}, ["gateway_key_name"]),
        ([{"models": ["qwen"]}], {}, ["gateway_key_name"]),
        ([{"name": "a", "models": ["nosuch"]}], {}, ["gateway_key_model"]),
        ([{"name": "a", "requests_per_minute": -1}], {}, ["gateway_key_limit"]),
        ([{"name": "a", "tokens_per_minute": -1}], {}, ["gateway_key_limit"]),
    ],
)
def test_keys_that_are_refused(keys: list[dict[str, Any]], values: dict[str, str], expected: list[str]) -> None:
    sections, problems = asked(gate=gateway(*keys), values=values)
    assert codes((sections, problems)) == expected
    assert LONG not in json.dumps(problems, ensure_ascii=False)
    assert "ключ" not in json.dumps(problems, ensure_ascii=False)


def test_a_limit_of_tokens_needs_servers_that_count() -> None:
    heads = {"a": head(), "b": head("other", vllm_api_key_enabled=False)}
    (problem,) = asked(heads, gateway({"name": "bob", "tokens_per_minute": 900}))[1]
    assert (problem["code"], problem["value"]) == ("gateway_key_uncounted", "tokens_per_minute: 900")
    assert "b count none" in problem["what"]
    assert codes(asked(heads, gateway({"name": "bob", "requests_per_minute": 9}))) == []


def test_a_gateway_that_nobody_could_use() -> None:
    assert codes(asked(gate={**gateway(), "gateway_keys": []})) == ["gateway_no_key"]


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ({"vllm_model": "a/a"}, {"vllm_model": "b/b"}, "one model or by another"),
        ({"vllm_max_model_len": 4096}, {"vllm_max_model_len": 8192}, "refused by another"),
        ({"vllm_quantization": "awq"}, {}, "answered differently"),
        ({"vllm_options": {"tool_call_parser": "hermes"}}, {}, "Calls of tools"),
    ],
)
def test_replicas_that_a_client_could_tell_apart(one: dict[str, Any], other: dict[str, Any], said: str) -> None:
    found = asked({"a": head(**one), "b": head(**other), "c": head("other")})
    assert codes(found) == ["gateway_replicas_differ"]
    assert said in found[1][0]["what"]
    assert found[1][0]["value"].startswith("a: ")
    assert "group_vars/b.yml" in found[1][0]["where"]


def test_what_the_plans_chose_counts_more_than_what_was_asked_for() -> None:
    plans = {name: {"settings": {"max_model_len": length}} for name, length in (("a", 4096), ("b", 2048))}
    assert codes(asked(plans=plans)) == ["gateway_replicas_differ"]
    assert not codes(asked(plans={name: {"settings": {"max_model_len": 4096}} for name in "ab"}))


@pytest.mark.parametrize("name", ["a model", "ü", "a\nb", "-x", "x" * 256])
def test_a_name_that_cannot_be_routed_by(name: str) -> None:
    assert "gateway_model_name" in codes(asked({"a": head(name)}))


def test_ports_that_somebody_has() -> None:
    taken = {"llm_host": {"listeners": [{"port": 443, "process": "nginx"}, {"port": 80, "process": "haproxy"}]}}
    found = asked(gate=gateway(ansible_facts=taken))
    assert codes(found) == ["gateway_port_taken"]
    assert "nginx" in found[1][0]["what"]
    assert not codes(asked(gate=gateway(ansible_facts=taken, gateway_https_port=8443)))
    assert codes(asked(gate=gateway(gateway_http_port=443))) == ["gateway_port_taken"]
    assert not codes(asked(gate=gateway(gateway_http_port=0)))


def test_the_port_of_a_replica_on_the_same_host() -> None:
    decided = decide_gateways(
        Gateways(
            ["h1"], {"a": {"head": "h1", "hosts": ["h1"]}}, {"h1": {**head(), **gateway(gateway_https_port=8000)}}
        ),
        Secrets(lambda host, name: LONG, lambda: LONG, lambda: LONG, lambda host: (), lambda host, wanted: {}),
    )
    assert codes(decided) == ["gateway_port_taken"]


@pytest.mark.parametrize("size", [0, -1, 17])
def test_requests_of_an_impossible_size(size: float) -> None:
    assert codes(asked(gate=gateway(gateway_max_body_mib=size))) == ["gateway_body"]


def test_two_gateways_say_the_same_thing_once() -> None:
    gate = gateway({"name": "a"}, {"name": "a"})
    decided = decide_gateways(
        Gateways(["g1", "g2"], {"a": {"head": "h1", "hosts": ["h1"]}}, {"h1": head(), "g1": gate, "g2": gate}),
        Secrets(lambda host, name: LONG, lambda: LONG, lambda: LONG, lambda host: (), lambda host, wanted: {}),
    )
    assert codes(decided) == ["gateway_key_twice"]


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
MODELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_./:@+-]{0,20}", fullmatch=True)


@given(
    keys=st.dictionaries(NAMES, st.sets(st.integers(0, 3)), min_size=1, max_size=5),
    models=st.sets(MODELS, min_size=1, max_size=4),
)
def test_a_key_opens_what_it_is_for_and_nothing_else(keys: dict[str, set[int]], models: set[str]) -> None:
    every = sorted(models)
    wanted = {name: sorted({every[one % len(every)] for one in chosen}) for name, chosen in keys.items()}
    gate = gateway(*({"name": name, "models": mine} for name, mine in wanted.items()))
    heads = {f"d{number}": head(name) for number, name in enumerate(every)}
    sections, problems = asked(heads, gate)
    assert not problems
    files = sections["gate"]["files"]
    # As HAProxy reads a map: the first word is the key, the rest its value.
    pairs = [line.split(" ")[0] for line in files["access.map"].splitlines() if not line.startswith(ITSELF)]
    assert set(pairs) == {f"{name}/{model}" for name, mine in wanted.items() for model in mine or every}
    assert len(pairs) == len(set(pairs))
    routes = dict(line.split(" ") for line in files["models.map"].splitlines())
    assert set(routes) == models
    assert len(set(routes.values())) == len(models)
