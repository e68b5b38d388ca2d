# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gateways do: one address for all deployments, which models lead to which replicas, and which key may ask for what.

The result is plain data for the role gateway, one section for each host of the group ``llm_gateway``, and none where there is something
to refuse. It holds no secret: of a key only the SHA-256 is in it, of which the gateway's own files hold no more either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import KEY_NAME, MODEL_NAME, WEB_UI_KEY
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import (
    VARIABLE,
    engine_of,
    name_of,
    setting,
    variable_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.interface import Engine
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.answers import answers, model_list, no_path
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.selinux import selinux_section
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import Certificate
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.virtual import (
    ANY,
    virtual_address,
    virtual_problems,
    virtual_section,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.web_ui import (
    PORTS,
    SSO_CA_FILE,
    web_ui_ports,
    web_ui_section,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import (
    fact,
    mapping,
    number,
    text,
    texts,
    whole,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names, problem, shown
from ansible_collections.baremetal.llm.plugins.plugin_utils.network.addresses import in_url
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.clock import CONTROLLER_SECONDS, controller_off

# Of a key, in characters. Those that this collection makes have 40; a hash protects nothing that can be guessed.
KEY_LENGTH = 32
LIMITS: Sequence[Literal["requests_per_minute", "tokens_per_minute"]] = ("requests_per_minute", "tokens_per_minute")
# From one look at what the replicas counted to the next.
USAGE_SECONDS = 2
# Without a look for so long nobody counts any more: keys with a limit of tokens are let in no longer.
COUNTING_SECONDS = 30
ITSELF, WEB_UI = "-gateway", "-web-ui"  # no key of the inventory can have these names
KIB, MIB = 1 << 10, 1 << 20
HTTPS, LOOPBACK = 443, "127.0.0.1"
# A request's headers, and HAProxy's own account of them and of the body.
HEADERS_BYTES, REWRITE_BYTES = 64 * KIB, 8 * KIB
# A request lies in HAProxy's memory as a whole, twice while it is passed on.
MAX_BODY_MIB = 16
# Until a key is known: seconds for the headers, and connections of one address. Enough for a program that asks in parallel from its first request on.
STRANGER_SECONDS, STRANGER_CONNECTIONS = 10, 100
# Of such an address, how many connections in 10 s.
STRANGER_RATE = 300
# How long a client may neither send nor read what it has to.
CLIENT_SECONDS = 30
# Of HTTP/2, in one connection. A browser asks for less at a time, and a program opens another connection.
STREAMS = 32
# Redirects end at once. The page's frontend has no keys: people behind one address are counted together. HAProxy itself needs a few.
PLAIN_CONNECTIONS, PLAIN_SOURCE = 200, 20
PAGE_CONNECTIONS, PAGE_SOURCE = 1000, 200
SPARE_CONNECTIONS = 100
# For clients of the last ten years: https://wiki.mozilla.org/Security/Server_Side_TLS, "intermediate", without DHE.
CIPHERS = (
    *("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    *("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"),
)
SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
# What is uploaded as a form, with the model in a field. roles/common/files/llm_api_paths.py has the same paths.
FORMS = ("/v1/audio/transcriptions", "/v1/audio/translations")
# Which answer stands for a status that HAProxy finds by itself.
ERROR_PAGES = {
    400: "bad_request",
    408: "too_slow",
    500: "broken",
    502: "no_answer",
    503: "no_replica",
    504: "too_long",
}


class Replica(TypedDict):
    """A deployment that answers for a model: its name, its head, and where its server listens; without an address as long as nobody has looked."""

    name: str
    host: str
    address: str
    port: int


class Model(TypedDict):
    """A model by the name under which clients ask for it."""

    name: str
    # As HAProxy calls it.
    backend: str
    # The path by which it looks whether a replica answers, and those that it lets through.
    check: str
    paths: list[str]
    # What the model answers with: token, embedding, score, class or pooled.
    kind: str
    replicas: list[Replica]


class Key(TypedDict):
    """A key of the inventory, without its value."""

    name: str
    # Those that it may ask for; in the inventory none for all of them.
    models: list[str]
    # 0 for no limit.
    requests_per_minute: int
    tokens_per_minute: int


@dataclass(frozen=True)
class Gateways:
    """What is known when it is decided."""

    hosts: Sequence[str]
    deployments: Mapping[str, DeploymentHosts]
    # The variables of each host, defaults included, with what was found on it.
    variables: Mapping[str, Mapping[str, object]]
    plans: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    # The addresses of the heads that were looked at.
    addresses: Mapping[str, str] = field(default_factory=dict)
    language: str = "en"
    # Whether a controller that lacks the files of a gateway is to make new ones.
    renew: bool = False
    # Those of the hosts on which the web page for people runs.
    web_ui: Sequence[str] = ()


@dataclass(frozen=True)
class Secrets:
    """What is asked of the controller's files."""

    # The value of a key, by the host and the key's name.
    key: Callable[[str, str], str]
    # What opens the replicas, and the key with which runs ask.
    replica_key: Callable[[], str]
    own_key: Callable[[], str]
    # What is wrong with a host's own certificate.
    problems: Callable[[str], Sequence[dict[str, str]]]
    # The certificate of a host for these names, as gateway/controller_secrets.py describes it.
    certificate: Callable[[str, Sequence[str]], Certificate]
    # Of the web page on a host, by name: the key with which it asks, and with what it signs its sessions.
    web_ui: Callable[[str], Mapping[str, str]] = lambda host: {}
    # The files that clients of a host would miss if the controller, which lacks them, made them anew.
    lost: Callable[[str], Sequence[str]] = lambda host: ()


def decide_gateways(asked: Gateways, secrets: Secrets) -> tuple[dict[str, dict[str, object]], list[dict[str, str]]]:
    """The section of each gateway, and what is to be refused. Without the address of every head there is no section."""
    if not asked.hosts:
        return {}, []
    # First of all, because secrets that are asked for below are made where there are none.
    lost = lost_problems(asked, secrets)
    if lost:
        return {}, lost
    members = [host for entry in asked.deployments.values() for host in entry["hosts"]]
    problems = [*model_problems(asked), *virtual_problems(asked.hosts, members, asked.variables, asked.language)]
    models = models_of(asked)
    for host in asked.hosts:
        found = key_problems(asked, host, models, secrets)
        problems += [*found, *host_problems(asked, host), *secrets.problems(host)]
    if problems:
        return {}, list({(each["code"], each["what"], each["value"]): each for each in problems}.values())
    if not all(replica["address"] for model in models for replica in model["replicas"]):
        return {}, []
    sections = {host: section(asked, host, models, secrets) for host in asked.hosts}
    # Whichever of them holds the virtual address answers there: each has to trust all of them.
    certificates = [mapping(each["certificate"]) for each in sections.values()]
    files = [each.get(part) for part in ("certificate", "root") for each in certificates]
    trusted = list(dict.fromkeys(filter(None, files)))
    return {host: {**each, "trusted": trusted} for host, each in sections.items()}, []


def lost_problems(asked: Gateways, secrets: Secrets) -> list[dict[str, str]]:
    """A gateway that another controller has set up: it tells nobody its keys, and new ones would lock its clients out."""
    found = []
    for host in asked.hosts:
        records = fact(asked.variables[host], "llm_records")
        files = secrets.lost(host) if "gateway" in records and not asked.renew else ()
        if files:
            lang = asked.language
            found.append(
                problem("gateway_secrets_lost", lang, value=names(files, lang), where="llm_secrets_dir", host=host)
            )
    return found


def served_name(variables: Mapping[str, object]) -> str:
    """The name by which clients ask for a deployment's model."""
    return str(setting(variables, "served_model_name") or setting(variables, "model"))


def models_of(asked: Gateways) -> list[Model]:
    """The models by name, each with its replicas: the heads of its deployments whose address is known."""
    found: dict[str, list[Replica]] = {}
    unprobed: set[str] = set()
    release: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    engines: dict[str, Engine] = {}
    for deployment, entry in asked.deployments.items():
        head = entry["head"]
        mine = asked.variables[head]
        name = served_name(mine)
        # Replicas of several engines are refused elsewhere.
        if engines.setdefault(name, engine_of(mine)) == engine_of(mine):
            release.setdefault(name, []).append(str(setting(mine, "version")))
        config = mapping((asked.plans.get(deployment) or {}).get("model"))
        kinds.setdefault(name, engines[name].answers_with(mapping(setting(mine, "options")), config))
        address = str(asked.addresses.get(head) or "")
        replica = Replica(name=deployment, host=head, address=address, port=whole(setting(mine, "port")))
        found.setdefault(name, []).append(replica)
        unprobed |= set() if is_true(setting(mine, "probe_enabled")) else {name}
    return [
        {
            "name": name,
            "backend": f"model{number}",
            # A word for all replicas of a model: where one has no probe, none of them is asked for its verdict.
            "check": engines[name].alive if name in unprobed else engines[name].ready,
            "paths": engines[name].paths(release[name]),
            "kind": kinds[name],
            "replicas": found[name],
        }
        for number, name in enumerate(sorted(found), 1)
    ]


def keys_of(asked: Gateways, host: str) -> list[Key]:
    """The keys of the inventory, each with its name, the models that it may ask for (empty: all) and its limits."""
    return [
        Key(
            name=text(key.get("name")),
            models=texts(key.get("models")),
            requests_per_minute=whole(key.get("requests_per_minute") or 0),
            tokens_per_minute=whole(key.get("tokens_per_minute") or 0),
        )
        for key in mappings(asked.variables[host].get("gateway_keys"))
    ]


def section(asked: Gateways, host: str, models: Sequence[Model], secrets: Secrets) -> dict[str, object]:
    """What the role gateway reads on one host."""
    mine = asked.variables[host]
    body = int(number(mine["gateway_max_body_mib"]) * MIB)
    every = [model["name"] for model in models]
    keys: list[Key] = [{**key, "models": key["models"] or every} for key in keys_of(asked, host)]
    digests = {key["name"]: key_digest(secrets.key(host, key["name"])) for key in keys}
    # With a key of its own each run asks for a token of each model.
    itself = Key(name=ITSELF, models=every, requests_per_minute=0, tokens_per_minute=0)
    digests[ITSELF] = key_digest(secrets.own_key())
    # So does the web page; behind a shared address it may come to any of the gateways.
    pages = {name: key_digest(value) for page in asked.web_ui for name, value in secrets.web_ui(page).items()}
    page: list[Key] = [{**itself, "name": WEB_UI}] if WEB_UI_KEY in pages else []
    digests |= {WEB_UI: pages[WEB_UI_KEY]} if WEB_UI_KEY in pages else {}
    names_here = certificate_names(asked, host)
    certificate = secrets.certificate(host, names_here)
    https = whole(mine["gateway_https_port"])
    # A shared address leads to another gateway at times, which has no page.
    page_at = str(mine.get("ansible_host") or host) if virtual_address(mine) else names_here[0]
    shared = virtual_section(asked.hosts, host, asked.variables)
    return {
        "address": str(mine["gateway_address"]),
        "https_port": https,
        "http_port": whole(mine["gateway_http_port"]),
        "url": f"https://{in_url(names_here[0])}{'' if https == HTTPS else f':{https}'}",
        # From the host itself, which need not know its own name.
        "ask": [
            LOOPBACK if mine["gateway_address"] == ANY else str(mine["gateway_address"]),
            str(https),
            names_here[0],
        ],
        "virtual": shared,
        "selinux": selinux_section(shared),
        "web_ui": web_ui_section(
            mine, names_here, page_at, https, pages, asked.language, secrets.web_ui(host).get(SSO_CA_FILE, "")
        )
        if host in asked.web_ui
        else {},
        "certificate": dict(certificate),
        "replica_key_sha256": key_digest(secrets.replica_key()),
        "tls": {"ciphers": list(CIPHERS), "suites": list(SUITES)},
        "models": [
            {
                "name": model["name"],
                "backend": model["backend"],
                "check": model["check"],
                "kind": model["kind"],
                "replicas": [
                    {**replica, "requests": whole(mine["gateway_requests_per_replica"])}
                    for replica in model["replicas"]
                ],
            }
            for model in models
        ],
        "paths": sorted({path for model in models for path in paths_of(model, mine)}),
        "forms": list(FORMS),
        "keys": keys,
        # For the program that counts tokens.
        "usage": {
            "seconds": USAGE_SECONDS,
            "limits": {key["name"]: key["tokens_per_minute"] for key in keys},
            "replicas": [
                {"model": model["name"], **{key: value for key, value in replica.items() if key != "host"}}
                for model in models
                for replica in model["replicas"]
            ],
        },
        # What HAProxy reads beside its configuration, by the file's name.
        "files": maps([*keys, itself, *page], digests, models) | path_maps(models, mine, asked.language),
        # As one word of the configuration each.
        "answers": {name: quoted(text) for name, text in answers(models, asked.language).items()},
        # What HAProxy says by itself, by status.
        "errors": ERROR_PAGES,
        "body_bytes": body,
        "buffer_bytes": body + HEADERS_BYTES,
        "rewrite_bytes": REWRITE_BYTES,
        "limits": limits(mine, page=host in asked.web_ui),
        "counting_seconds": COUNTING_SECONDS,
        "queue": whole(mine["gateway_queue_requests"]),
        "retry_after": whole(mine["gateway_retry_after_seconds"]),
        "retry_unanswered": is_true(mine["gateway_retry_unanswered_enabled"]),
        "affinity_header": str(mine["gateway_affinity_header"]),
        "check_seconds": whole(mine["gateway_check_seconds"]),
        "slow_start_seconds": whole(mine["gateway_slow_start_seconds"]),
        "timeouts": {
            "stranger": STRANGER_SECONDS,
            "client": CLIENT_SECONDS,
            "request": whole(mine["gateway_request_seconds"]),
            "queue": whole(mine["gateway_queue_seconds"]),
            "answer": whole(mine["gateway_answer_seconds"]),
        },
    }


def limits(mine: Mapping[str, object], *, page: bool) -> dict[str, int]:
    """How many connections each frontend and each address gets, streams in a connection, and memory in MiB."""
    api, source = whole(mine["gateway_max_connections"]), whole(mine["gateway_connections_per_source"])
    memory = whole(mine["gateway_memory_mib"])
    buffers = memory * MIB // 2 // (int(number(mine["gateway_max_body_mib"]) * MIB) + HEADERS_BYTES)
    pages = PAGE_CONNECTIONS if page else 0
    return {
        "api": api,
        "source": source,
        "stranger": min(STRANGER_CONNECTIONS, source),
        "stranger_rate": STRANGER_RATE,
        # HAProxy reads headers as far as a buffer reaches: all that have no key stay within half of its memory.
        "strangers": max(1, min(api // 2, buffers)),
        "plain": PLAIN_CONNECTIONS,
        "plain_source": PLAIN_SOURCE,
        "page": pages,
        "page_source": PAGE_SOURCE,
        "streams": STREAMS,
        "every": api + PLAIN_CONNECTIONS + pages + SPARE_CONNECTIONS,
        "memory_mib": memory,
    }


def quoted(text: str) -> str:
    """A text as one word of HAProxy's configuration: in double quotes, where these three mean something."""
    return '"' + re.sub(r'(["$\\])', r"\\\1", text) + '"'


def certificate_names(asked: Gateways, host: str) -> list[str]:
    """What clients may call a gateway: the names of the inventory first, else the shared address, else its own, and its addresses."""
    mine = asked.variables[host]
    shared = virtual_address(mine)
    said = [*texts(mine["gateway_names"]), *([shared] if shared else [])]
    interface = mapping(mine.get("llm_interface")).get("address") or asked.addresses.get(host)
    address = str(mine.get("ansible_host") or host)
    return list(dict.fromkeys([*said, address, host, *([str(interface)] if interface else [])]))


def key_digest(value: str) -> str:
    """The SHA-256 of a key as HAProxy writes it."""
    return hashlib.sha256(value.encode()).hexdigest().upper()


def maps(keys: Sequence[Key], digests: Mapping[str, str], models: Sequence[Model]) -> dict[str, str]:
    """HAProxy's maps: who a key is, which backend a model has, who may ask for which model, and how often a minute."""
    lines = {
        "keys.map": [f"{digests[key['name']]} {key['name']}" for key in keys],
        "models.map": [f"{model['name']} {model['backend']}" for model in models],
        "access.map": [f"{key['name']}/{model} 1" for key in keys for model in key["models"]],
        # What GET /v1/models answers to each.
        "lists.map": [f"{key['name']} {model_list(key['models'])}" for key in keys],
        "limits.map": [f"{key['name']} {key['requests_per_minute']}" for key in keys],
        "token_limits.map": [f"{key['name']} {key['tokens_per_minute']}" for key in keys],
        # Keys that have used up their tokens: written through HAProxy's socket alone.
        "spent.map": [],
    }
    return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}


def paths_of(model: Model, mine: Mapping[str, object]) -> list[str]:
    """The paths that a gateway lets through for a model."""
    return sorted({*model["paths"], *texts(mine["gateway_paths"])})


def path_maps(models: Sequence[Model], mine: Mapping[str, object], language: str) -> dict[str, str]:
    """HAProxy's maps: which path which backend has, and what is answered at any other one."""
    lines = {
        "paths.map": [f"{model['backend']}{path} 1" for model in models for path in paths_of(model, mine)],
        "no_path.map": [
            f"{model['backend']} {no_path(model['name'], paths_of(model, mine), language)}" for model in models
        ],
    }
    return {name: "".join(f"{line}\n" for line in found) for name, found in lines.items()}


# -- what is refused --------------------------------------------------------------------------------------------------
def model_problems(asked: Gateways) -> list[dict[str, str]]:
    """Names that cannot be routed by, and replicas that a client could tell from each other."""
    lang = asked.language
    found = []
    groups: dict[str, list[str]] = {}
    for deployment, entry in asked.deployments.items():
        groups.setdefault(served_name(asked.variables[entry["head"]]), []).append(deployment)
    for name, mine in groups.items():
        if not MODEL_NAME.fullmatch(name):
            where = message("where_group", lang, group=mine[0])
            found.append(problem("gateway_model_name", lang, value=shown(name, lang), where=where, deployment=mine[0]))
        for what, code, values in _differences(asked, mine):
            if len(set(values.values())) > 1:
                found.append(
                    problem(
                        "gateway_replicas_differ",
                        lang,
                        value="; ".join(f"{deployment}: {value}" for deployment, value in values.items()),
                        where=names([message("where_group", lang, group=group) for group in mine], lang),
                        model=name,
                        setting=what,
                        why=message(code, lang),
                    )
                )
    return found


def _differences(asked: Gateways, deployments: Sequence[str]) -> list[tuple[str, str, dict[str, str]]]:
    """What replicas have to have in common: variable, why, and the value of each deployment."""
    heads = {name: asked.variables[asked.deployments[name]["head"]] for name in deployments}
    settings = {name: mapping((asked.plans.get(name) or {}).get("settings")) for name in deployments}
    first = heads[deployments[0]]
    said: list[tuple[str, str, dict[str, object]]] = [
        (VARIABLE, "gateway_differs_answers", {name: name_of(mine) for name, mine in heads.items()}),
        (
            variable_of(first, "model"),
            "gateway_differs_model",
            {name: setting(mine, "model") for name, mine in heads.items()},
        ),
    ]
    for alike, code in engine_of(first).alike_settings.items():
        values = {name: settings[name].get(alike, setting(heads[name], alike)) for name in deployments}
        said.append((variable_of(first, alike), code, values))
    for option, code in engine_of(first).alike_options.items():
        values = {name: mapping(setting(mine, "options")).get(option) for name, mine in heads.items()}
        said.append((f"{variable_of(first, 'options')}.{option}", code, values))
    lang = asked.language
    return [(what, code, {name: shown(value, lang) for name, value in values.items()}) for what, code, values in said]


def key_problems(asked: Gateways, host: str, models: Sequence[Model], secrets: Secrets) -> list[dict[str, str]]:
    """Keys that are the same, can be guessed, or open nothing."""
    lang = asked.language
    where = message("gateway_where_keys", lang)
    keys = keys_of(asked, host)
    if not keys:
        return [problem("gateway_no_key", lang, where=where)]
    known = [model["name"] for model in models]
    found: list[dict[str, str]] = []
    by_name: dict[str, int] = {}
    by_value: dict[str, list[str]] = {}
    heads = {deployment: asked.variables[entry["head"]] for deployment, entry in asked.deployments.items()}
    uncounted = [
        deployment
        for deployment, head in heads.items()
        if not (engine_of(head).middleware and is_true(setting(head, "api_key_enabled", True)))
    ]
    for key in keys:
        name = key["name"]
        by_name[name] = by_name.get(name, 0) + 1
        if not KEY_NAME.fullmatch(name):
            found.append(problem("gateway_key_name", lang, value=shown(name, lang), where=where))
            continue
        value = secrets.key(host, name)
        by_value.setdefault(value, []).append(name)
        if len(value) < KEY_LENGTH:
            said = message("gateway_characters", lang, count=len(value))
            found.append(problem("gateway_key_short", lang, value=said, where=where, name=name, least=KEY_LENGTH))
        elif not value.isascii() or not value.isprintable() or " " in value:
            hidden = message("secret_not_shown", lang)
            found.append(problem("gateway_key_letters", lang, value=hidden, where=where, name=name))
        unknown = [model for model in key["models"] if model not in known]
        if unknown:
            said = names(unknown, lang)
            found.append(
                problem("gateway_key_model", lang, value=said, where=where, name=name, models=names(known, lang))
            )
        for limit in LIMITS:
            if key[limit] >= 0:
                continue
            said = f"{limit}: {key[limit]}"
            found.append(problem("gateway_key_limit", lang, value=said, where=where, name=name))
        if uncounted and key["tokens_per_minute"] > 0:
            said = f"tokens_per_minute: {key['tokens_per_minute']}"
            values = {"name": name, "deployments": names(uncounted, lang)}
            found.append(problem("gateway_key_uncounted", lang, value=said, where=where, **values))
    for name, count in by_name.items():
        if count > 1:
            found.append(problem("gateway_key_twice", lang, value=shown(name, lang), where=where))
    for value, mine in by_value.items():
        if value and len(set(mine)) > 1:
            said = names(sorted(set(mine)), lang)
            found.append(problem("gateway_key_same", lang, value=said, where=where))
    return found


def host_problems(asked: Gateways, host: str) -> list[dict[str, str]]:
    """Ports that somebody has, and limits that HAProxy has not."""
    lang, mine = asked.language, asked.variables[host]
    where = message("where_host", lang, host=host)
    ports = {
        "gateway_https_port": whole(mine["gateway_https_port"]),
        "gateway_http_port": whole(mine["gateway_http_port"]),
    }
    found = []
    clock = mapping(fact(mine, "llm_host").get("clock"))
    if seconds := controller_off(clock):
        values = {"host": host, "limit": CONTROLLER_SECONDS}
        found.append(problem("clock_of_controller", lang, value=f"{-seconds:+.0f} s", where=where, **values))

    def machine_of(name: str) -> str:
        return str(asked.variables[name].get("ansible_host") or name)

    here = {
        deployment: asked.variables[entry["head"]]
        for deployment, entry in asked.deployments.items()
        if machine_of(entry["head"]) == machine_of(host)
    }
    taken = {whole(setting(each, "port")): f"{name}, {variable_of(each, 'port')}" for name, each in here.items()}
    if ports["gateway_https_port"] == ports["gateway_http_port"]:
        taken[ports["gateway_http_port"]] = "gateway_http_port"
    if host in asked.web_ui:
        # Of several that are the same the last is the one that is refused.
        for variable, port in web_ui_ports(mine).items():
            if port in ports.values():
                taken.setdefault(port, next(name for name, one in ports.items() if one == port))
            ports[variable] = port
    # The program of the page has no name by which it is known: where it was set up, it is what listens there.
    ours = {ports[PORTS[1]]} if host in asked.web_ui and "web_ui" in fact(mine, "llm_records") else set()
    for listener in mappings(fact(mine, "llm_host").get("listeners")):
        process, port = text(listener.get("process")), whole(listener["port"])
        if process != "haproxy" and port not in ours:
            taken.setdefault(port, process or message("process_unknown", lang))
    for variable, port in ports.items():
        if port and port in taken and taken[port] != variable:
            found.append(
                problem(
                    "gateway_port_taken",
                    lang,
                    value=f"{variable}: {port}",
                    where=where,
                    host=host,
                    port=port,
                    process=taken[port],
                )
            )
    body = number(mine["gateway_max_body_mib"])
    if not 0 < body <= MAX_BODY_MIB:
        value = f"gateway_max_body_mib: {body:g}"
        found.append(problem("gateway_body", lang, value=value, where=where, most=MAX_BODY_MIB))
    return found
