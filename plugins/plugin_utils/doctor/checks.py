# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a fleet that runs, and why: the judgements of preflight and of the diagnosis of logs, and what only a running fleet shows."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Callable

from ansible_collections.baremetal.llm.plugins.module_utils import _xid
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes
from ansible_collections.baremetal.llm.plugins.module_utils._content import mapping, texts
from ansible_collections.baremetal.llm.plugins.module_utils._live import Disk
from ansible_collections.baremetal.llm.plugins.plugin_utils.doctor.finding import NO_ANSWER, Finding, Findings, Question
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.tls import RENEW_DAYS, days_left
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.failures import ROOT, SYMPTOM
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.diagnose import diagnose_log
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import ERROR
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.drift import alike, drift
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.leftovers import leftovers
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.looked import (
    BAD,
    GOOD,
    UNKNOWN,
    WARNING,
    Looked,
    figures_of,
    machines_once,
    not_seen,
    state_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.report import duration, fact_name, leftover_line
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.told import address_variables
from ansible_collections.baremetal.llm.plugins.plugin_utils.status.trends import days_until_nothing, points

# So many starts in a row without a token are a loop, as the probe counts them (roles/common/files/llm-probe.py).
LOOP_STARTS = 3
# Tokens that did not move for so long, while requests are computed, will not move by themselves.
HUNG_SECONDS = 20
# A replica is slow where a token takes it so many times as long as its twins, over at least so many tokens.
SLOW_FACTOR, SLOW_TOKENS = 1.5, 200
# Days after which a disk is full that are worth a warning, and an error.
DAYS_WARNING, DAYS_BAD = 7, 1
# Of small file systems, shares that are left; of large ones, how many times the reserve.
SMALL_BYTES, SMALL_BAD, SMALL_WARNING, RESERVES_WARNING = 20 << 30, 0.02, 0.10, 5
FILES_BAD, FILES_WARNING = 0.01, 0.05
# How long after it an error of a card is news.
XID_SECONDS = 86400
# A run that holds a host for longer than this was likely killed.
HELD_SECONDS = 2 * 3600


def answers(asked: Question) -> Findings:
    """Hosts that do not answer, or with nothing that can be read."""
    for looked in asked.hosts:
        if code := not_seen(looked):
            yield asked.finding(NO_ANSWER[code], UNKNOWN, [looked.asked.host], looked.said)


# Said in other words below.
_SAID_BELOW = ("server_crashing",)


def preflight(asked: Question) -> Findings:
    """What preflight would say of the hosts today."""
    for each in asked.preflight:
        if each["code"] not in _SAID_BELOW:
            grade = BAD if each["severity"] == ERROR else WARNING
            remedy = each["allowed"] + (f" ({each['limit']})" if each.get("limit") else "")
            yield Finding("", each["code"], grade, tuple(each["hosts"]), each["what"], each["value"], remedy)


def _commands(looked: Looked) -> dict[str, str]:
    """The name of the program by which a host is judged, and how somebody on the host asks for its log and starts it: as a container, or a unit."""
    name, program = looked.program
    if program and "image_id" not in program:
        unit = {
            "log": f"journalctl -n 200 -u {name}",
            "start": f"systemctl start {name}",
            "restart": f"systemctl restart {name}",
        }
        return {"name": name, **unit}
    container = {
        "log": f"docker logs --tail 200 {name}",
        "start": f"docker start {name}",
        "restart": f"docker restart {name}",
    }
    return {"name": name, **container}


# States that are findings of their own check, or none.
_OTHERS = ("crashing", "silent", "garbage")


def states(asked: Question) -> Findings:
    """Programs that do not do what they are there for."""
    for looked in asked.serving:
        state, host = state_of(looked), looked.asked.host
        if state.grade == GOOD or state.code in _OTHERS:
            continue
        values = {"deployment": looked.asked.deployment, "probe": str(looked.asked.names["probe"]), **_commands(looked)}
        word = message("status_is_" + state.code, asked.lang)
        found = asked.finding("state", state.grade, [host], state.said, state=word, **values)
        remedy = message("doctor_state_" + state.code, asked.lang, host=host, **values)
        yield Finding(found.check, state.code, found.grade, found.hosts, found.what, found.evidence, remedy)


def restart_loops(asked: Question) -> Findings:
    """Programs that end at each start, with the error with which that began."""
    for looked in asked.serving:
        name, program = looked.program
        if program is None:
            continue
        code, word = state_of(looked).code, looked.word
        restarts = program["restarts"] or 0
        loops = code == "crashing" or (restarts >= LOOP_STARTS and code in ("stopped", "loading", "unproved"))
        if not loops:
            continue
        log = looked.live.get("logs", {}).get(name, "") or "\n".join(map(str, word.get("causes") or ()))
        roots = [each for each in diagnose_log(log, asked.lang) if each["kind"] in (ROOT, SYMPTOM)]
        starts = word.get("starts") or restarts
        values = {"deployment": looked.asked.deployment, **_commands(looked)}
        said = state_of(looked).said
        found = asked.finding("restart_loop", BAD, [looked.asked.host], said, starts=starts, **values)
        if program.get("out_of_memory"):
            cause = message("doctor_out_of_memory", asked.lang)
            yield Finding("", found.code, BAD, found.hosts, f"{found.what} {cause}", found.evidence, found.remedy)
        elif roots:
            what = f"{found.what} {roots[0]['cause']}"
            yield Finding("", found.code, BAD, found.hosts, what, roots[0]["evidence"], roots[0]["remedy"])
        else:
            yield found


def placement(asked: Question) -> Findings:
    """GPUs that the engine asked Ray for, and that no host of the cluster offers."""
    for looked in asked.serving:
        for group in looked.live.get("pending") or ():
            missing = [
                other.asked.host
                for other in asked.hosts
                if other.asked.deployment == looked.asked.deployment
                and state_of(other).code not in ("running", "serving")
            ]
            absent = names([host for host in missing if host != looked.asked.host], asked.lang)
            name = looked.asked.deployment
            yield asked.finding("placement_pending", BAD, [looked.asked.host], group, deployment=name, absent=absent)


def hung(asked: Question) -> Findings:
    """An engine that has requests and generates nothing."""
    for looked in asked.serving:
        now, word = figures_of(looked), looked.word
        before = word.get("counters") or {}
        then = [before.get(f"{kind}_tokens_total") for kind in ("prompt", "generation")]
        if not now.get("running") or not before.get("num_requests_running") or None in then:
            continue
        age = word["age"]
        if age >= HUNG_SECONDS and then == [now.get("prompt_tokens"), now.get("generated_tokens")]:
            evidence = message(
                "doctor_hung_evidence",
                asked.lang,
                running=int(now["running"]),
                seconds=int(age),
                tokens=int(then[1] or 0),
            )
            values = {"deployment": looked.asked.deployment, **_commands(looked)}
            yield asked.finding("hung", BAD, [looked.asked.host], evidence, **values)


def networks(asked: Question) -> Findings:
    """Ranks that were started with another address than that of the network on which the hosts agree."""
    for looked in asked.serving:
        agreed = (asked.used.get(looked.asked.host) or {}).get("interface")
        if not agreed or len(looked.asked.members) < 2:
            continue
        for kind in ("ray", "server"):
            container = looked.container(str(looked.asked.names[kind]))
            if container is None:
                continue
            settings = {**container["environment"], **container["arguments"]}
            address = next(filter(None, map(settings.get, ("node-ip-address", *address_variables()))), None)
            interface = str(settings.get("NCCL_SOCKET_IFNAME") or "").lstrip("=")
            # A list, or all but some, is somebody's own setting (the environment of an engine).
            interface = "" if {",", "^"}.intersection(interface) else interface
            wrong = (address and address != agreed["address"]) or (interface and interface != agreed["interface"])
            if container["state"] == "running" and wrong:
                values = {"found": f"{address or '?'} ({interface or '?'})", "name": container["name"]}
                wanted = f"{agreed['address']} ({agreed['interface']}, {agreed['network']})"
                yield asked.finding("wrong_network", BAD, [looked.asked.host], wanted=wanted, **values)


def certificates(asked: Question) -> Findings:
    """Certificates of gateways that end soon, or have ended."""
    for looked in asked.seen:
        for path, text in (looked.live.get("certificates") or {}).items():
            try:
                now = datetime.datetime.fromtimestamp(asked.now, datetime.UTC)
                days = days_left(text.encode(), now) if text else None
            except ValueError:
                days = None
            if days is None:
                yield asked.finding("certificate_unknown", UNKNOWN, [looked.asked.host], path=path)
            elif days < RENEW_DAYS:
                code = "certificate_ends" if days >= 0 else "certificate_ended"
                yield asked.finding(code, WARNING if days >= 0 else BAD, [looked.asked.host], path=path, days=abs(days))


def _machine(looked: Looked) -> str:
    return (texts(looked.asked.names.get("sharing")) or [looked.asked.host])[0]


def disks(asked: Question) -> Findings:
    """Disks that are nearly full, of bytes or of inodes, and those that will be soon."""
    for looked in machines_once(asked.seen, _machine):
        for disk in looked.live["disks"]:
            yield from _disk(asked, looked.asked.host, disk)


def _disk(asked: Question, host: str, disk: Disk) -> Findings:
    total, free = disk["total_bytes"], disk["available_bytes"]
    share = free / total if total else 1.0
    if total >= SMALL_BYTES:
        bad, warning = free < asked.reserve_bytes, free < RESERVES_WARNING * asked.reserve_bytes
    else:
        bad, warning = share < SMALL_BAD, share < SMALL_WARNING
    mount = disk["mount"]
    left = message("doctor_disk_evidence", asked.lang, free=human_bytes(free), total=human_bytes(total))
    if bad or warning:
        yield asked.finding("disk_full", BAD if bad else WARNING, [host], left, mount=mount)
    files, files_free = disk["files"], disk["files_free"]
    few = files_free / files if files else 1.0
    if few < FILES_WARNING:
        grade = BAD if few < FILES_BAD else WARNING
        yield asked.finding("inodes_few", grade, [host], f"{files_free:,} / {files:,}", mount=mount)
    for code, found in zip(("disk_fills", "inodes_fill"), points(asked.looks, asked.series, host, mount), strict=True):
        days = days_until_nothing(found)
        if days is not None and days < DAYS_WARNING and not bad:
            grade = BAD if days < DAYS_BAD else WARNING
            over = message("doctor_trend_evidence", asked.lang, time=duration(found[-1][0] - found[0][0], asked.lang))
            yield asked.finding(code, grade, [host], f"{left}; {over}", mount=mount, days=f"{days:.1f}")


def clocks(asked: Question) -> Findings:
    """Clocks that nothing sets. How far they are apart says preflight."""
    apart = [looked.asked.host for looked in asked.seen if looked.live.get("clock_synchronized") is False]
    if apart:
        yield asked.finding("clock_alone", WARNING, apart, "NTPSynchronized=no")
    unknown = [looked.asked.host for looked in asked.seen if looked.live.get("clock_synchronized") is None]
    if unknown:
        yield asked.finding("clock_unknown", UNKNOWN, unknown)


def weights(asked: Question) -> Findings:
    """Files of models that are not as they arrived; only where that was asked for."""
    for looked in machines_once(asked.seen, _machine):
        found = looked.live.get("weights")
        if found and (wrong := [*found["bad"], *found["missing"]]):
            yield asked.finding("weights_wrong", BAD, [looked.asked.host], names(wrong, asked.lang))


def card_errors(asked: Question) -> Findings:
    """What the driver logged about cards within a day."""
    for looked in machines_once(asked.seen, _machine):
        logged = looked.live.get("xids")
        if logged is None:
            yield asked.finding("xids_unknown", UNKNOWN, [looked.asked.host])
            continue
        recent = [each for each in logged if looked.live["now"] - each["time"] < XID_SECONDS]
        codes = sorted({each["xid"] for each in recent})
        if codes:
            grade = BAD if any(each["action"] in _xid.BAD for each in recent) else WARNING
            last = recent[-1]
            ago = duration(looked.live["now"] - last["time"], asked.lang)
            evidence = message("doctor_xid_evidence", asked.lang, xid=last["xid"], bus=last["bus_id"], ago=ago)
            yield asked.finding("xids", grade, [looked.asked.host], evidence, codes=", ".join(map(str, codes)))


def twins(asked: Question) -> Findings:
    """A replica that takes much longer for a token than others of the same model, since each was started."""
    for model, members in alike(asked.seen).items():
        means = {}
        for looked in members:
            figures = figures_of(looked)
            if looked.asked.is_head and figures.get("token_gaps", 0) >= SLOW_TOKENS:
                means[looked.asked.host] = figures["token_seconds"] / figures["token_gaps"]
        for host, mean in means.items():
            others = [value for other, value in means.items() if other != host]
            if others and mean > SLOW_FACTOR * statistics.median(others):
                evidence = f"{mean * 1000:.0f} ms / {statistics.median(others) * 1000:.0f} ms"
                yield asked.finding("slow_twin", WARNING, [host], evidence, model=model)


def changed(asked: Question) -> Findings:
    """What is no longer as a role left it."""
    for looked in asked.seen:
        records = looked.facts.get("llm_records") or {}
        found = [f"{role}: {what}" for role, record in records.items() for what in record["differs"]]
        if found:
            yield asked.finding("changed", WARNING, [looked.asked.host], names(found, asked.lang))


def differences(asked: Question) -> Findings:
    """Hosts that differ and should be alike."""
    for group, facts in drift(asked.hosts).items():
        hosts = list(dict.fromkeys(host for values in facts.values() for host in values))
        said = names([fact_name(fact, asked.lang) for fact in facts], asked.lang)
        yield asked.finding("drift", WARNING, hosts, said, group=group)


def left_over(asked: Question) -> Findings:
    """What runs or stands on hosts that the inventory does not name for it any more."""
    for each in leftovers(asked.hosts, asked.former):
        said = leftover_line({**vars(each)}, asked.lang)
        found = asked.finding("leftover", WARNING, [each.host], name=each.name)
        yield Finding("", found.code, WARNING, found.hosts, said, "", found.remedy)


def held(asked: Question) -> Findings:
    """Hosts that a run holds for so long that it was likely killed."""
    for looked in asked.seen:
        since = mapping(mapping(looked.facts.get("llm_lock")).get("holder")).get("since")
        seconds = looked.live["now"] - since if isinstance(since, (int, float)) else 0.0
        if seconds > HELD_SECONDS:
            yield asked.finding("held", WARNING, [looked.asked.host], since=duration(seconds, asked.lang))


# In the order of the report; each has a message doctor_check_NAME.
CHECKS: dict[str, Callable[[Question], Findings]] = {
    "answers": answers,
    "states": states,
    "restart_loops": restart_loops,
    "placement": placement,
    "hung": hung,
    "preflight": preflight,
    "networks": networks,
    "card_errors": card_errors,
    "twins": twins,
    "weights": weights,
    "disks": disks,
    "clocks": clocks,
    "certificates": certificates,
    "changed": changed,
    "differences": differences,
    "left_over": left_over,
    "held": held,
}


def examine(asked: Question) -> list[Finding]:
    """All that is found, and for each check that finds nothing that it does so. A check that nobody could answer is none that is well."""
    found: list[Finding] = []
    for name, check in CHECKS.items():
        mine = [Finding(name, *_rest(each)) for each in check(asked)]
        if not mine and asked.seen and _was_looked_at(name, asked):
            mine = [Finding(name, name, GOOD, (), message("doctor_check_" + name, asked.lang))]
        found += mine
    return found


def _rest(each: Finding) -> tuple[str, str, tuple[str, ...], str, str, str, bool]:
    return each.code, each.grade, each.hosts, each.what, each.evidence, each.remedy, each.blind


def _was_looked_at(name: str, asked: Question) -> bool:
    """Whether a check had something to judge."""
    needs: dict[str, Callable[[Looked], bool]] = {
        "weights": lambda looked: "weights" in looked.live,
        "certificates": lambda looked: bool(looked.live.get("certificates")),
        "placement": lambda looked: looked.live.get("pending") is not None,
        "hung": lambda looked: bool(figures_of(looked)),
        "twins": lambda looked: bool(figures_of(looked)),
        "changed": lambda looked: bool(looked.facts.get("llm_records")),
        "networks": lambda looked: len(looked.asked.members) > 1 and looked.asked.host in asked.used,
        "differences": lambda looked: len(looked.asked.members) > 1,
    }
    need = needs.get(name)
    return need is None or any(map(need, asked.seen))


def examine_log(text: str, lang: str = "en") -> list[Finding]:
    """The same of a saved log: what it shows of a failure."""
    found = []
    for each in diagnose_log(text, lang):
        grade = BAD if each["kind"] in (ROOT, SYMPTOM) else WARNING
        found.append(Finding("log", each["code"], grade, (), each["cause"], each["evidence"], each["remedy"]))
    return found or [Finding("log", "log", GOOD, (), message("doctor_check_log", lang))]
