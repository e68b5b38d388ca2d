# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of many hosts: what it computes from its figures, what it counts, and the stand-ins as far as they need no host."""

from __future__ import annotations

import hashlib
import http.client
import io
import itertools
import json
import math
import os
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import container_user

from benchmarks.scale import artefacts, figures, page
from benchmarks.scale.figures import Cost, Machine, Run, fit
from benchmarks.scale.hosts import Host
from benchmarks.scale.inventory import deployments, inventory
from benchmarks.scale.stand_in import engine

ROOT = Path(__file__).resolve().parents[3]
MACHINE = Machine(cpu="Test CPU", cores=2, memory_gib=24, python="3.11.7", ansible="2.19.1", forks=5, commit="abc")


def run(hosts: int, kind: str, wall: float = 10, cpu: float = 5, calls: int = 40, peak: float = 100) -> Run:
    return Run(hosts, kind, wall, cpu, peak, 0.5, calls, calls, results=7, changed=0)


def linear(numbers: tuple[int, ...] = (1, 4, 16, 32)) -> list[Run]:
    """Runs whose cost grows by the same for each host."""
    each = {"pings": (2, 0.5, 20), "first": (30, 10, 200), "again": (8, 4, 120), "added": (40, 0, 210)}
    return [
        run(n, kind, wall=fixed + slope * n, cpu=fixed + slope * n, calls=calls * n, peak=80 + 2 * n)
        for n in numbers
        for kind, (fixed, slope, calls) in each.items()
    ]


@pytest.mark.parametrize("cost", [Cost(5, 2, 0), Cost(12, 3.5, 0.25), Cost(0, 1.5, 0), Cost(7, 0, 0), Cost(0, 0, 2)])
def test_fit_finds_what_the_points_were_made_of(cost: Cost) -> None:
    found = fit([(n, cost.at(n)) for n in (1, 4, 16, 32)])
    assert (found.fixed, found.each, found.square) == pytest.approx((cost.fixed, cost.each, cost.square), abs=1e-6)


def test_fit_knows_no_negative_cost() -> None:
    found = fit([(1, 1.0), (4, 10.0), (16, 50.0), (32, 90.0)])
    assert min(found.fixed, found.each, found.square) >= 0
    assert found.at(32) == pytest.approx(90, rel=0.2)


def test_two_numbers_of_hosts_make_a_line_and_one_makes_nothing() -> None:
    assert fit([(1, 3.0), (4, 9.0)]) == Cost(pytest.approx(1), pytest.approx(2), 0.0)
    with pytest.raises(ValueError, match="at least two"):
        fit([(4, 1.0), (4, 2.0)])


@pytest.mark.parametrize("cost", [Cost(5, 2, 0), Cost(5, 2, 0.5), Cost(0, 0, 0.5)])
def test_a_limit_is_reached_where_the_cost_is_the_limit(cost: Cost) -> None:
    assert cost.at(cost.reaches(500)) == pytest.approx(500)


def test_a_limit_may_be_passed_at_once_or_never() -> None:
    assert Cost(5, 1, 0).reaches(4) == 0
    assert Cost(5, 0, 0).reaches(6) == math.inf


def test_what_breaks_first_comes_first() -> None:
    found = figures.limits(linear(), MACHINE)
    assert [round(hosts) for hosts, _what in found] == [898, 2396, 2877, 12248]
    assert "an hour" in found[0][1]
    assert "24 GiB" in found[-1][1]


def test_the_table_counts_by_the_hosts_that_were_worked_on() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in figures.table(linear((1, 16))).splitlines()
    ]
    assert rows[0] == list(figures.COLUMNS)
    assert len(rows) == 2 + 8
    assert ["16", "no change", "72 s", "72.0 s", "4.50 s", "120.0", "112 MiB", "7", "0", "0.5"] in rows
    assert ["16 + 1", "one host added", "40 s", "40.0 s", "40.00 s", "3360.0", "112 MiB", "7", "0", "0.5"] in rows


def test_ratios_compare_within_one_measurement() -> None:
    found = {name: (ratio, most) for name, ratio, most in figures.ratios(linear())}
    assert found["no change, 16 hosts: remote calls a host"] == (120, 20)
    assert found["no change, 16 hosts: CPU by that of 20 pings"] == (pytest.approx(72 / 10), 1.5)
    assert found["no change, 32 hosts: wall time by that of 16"] == (pytest.approx(136 / 72), 2.2)
    assert found["one host added to 32: wall time by a first run on 1"] == (1.0, 1.5)
    assert "no change, 4 hosts: wall time by that of 2" not in found, "2 hosts were not measured"
    assert not any(name.startswith("one host added to 1:") for name in found)


def test_what_many_hosts_cost_follows_from_the_coefficients() -> None:
    lines = figures.cost_table(linear(), 1000).splitlines()
    again = [cell.strip() for cell in lines[3].strip("|").split("|")]
    assert again == ["no change", "67 min", "1.1 core hours", "2.0 GiB", "120,000", "8 + 4 n", "8 + 4 n"]


def test_two_numbers_of_hosts_say_too_little_about_many() -> None:
    assert "hosts would cost" in page.section(linear((1, 4, 16)), MACHINE)
    assert "hosts would cost" not in page.section(linear((1, 4)), MACHINE)
    interrupted = [one for one in linear((1, 4, 16)) if (one.hosts, one.kind) != (16, "again")]
    assert "hosts would cost" not in page.section(interrupted, MACHINE)


def test_hosts_that_were_all_worked_on_at_once_tell_of_cpu_time_only() -> None:
    few = page.section(linear((1, 2, 4)), MACHINE).partition("hosts would cost")[2]
    assert "5 forks" in few
    assert [cell.strip() for cell in few.splitlines()[7].strip("|").split("|")] == [
        *("no change", "1.1 core hours", "120,000", "8 + 4 n")
    ]
    assert "about 1,800 hosts: a run that has nothing to change takes an hour" in few
    assert "about 5,800 hosts: a first run takes a working day" in few
    assert "memory |" not in few
    many = page.section(linear((1, 4, 16)), MACHINE).partition("hosts would cost")[2]
    assert "peak memory |" in many


def test_noise_of_three_numbers_makes_no_square() -> None:
    found = fit([(1, 4.288), (2, 4.5), (4, 5.44)])
    assert found.square == 0
    assert found.each == pytest.approx(0.39, abs=0.02)


def test_the_page_gets_new_figures_between_its_marks() -> None:
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"
    assert page.replaced(text, "new\n") == f"before\n{page.BEGIN}\nnew\n{page.END}\nafter\n"
    with pytest.raises(ValueError, match="figures"):
        page.replaced("a page without marks", "new")


def test_the_real_page_has_the_marks() -> None:
    assert "new figures" in page.replaced((ROOT / "docs/performance.md").read_text(), "new figures\n")


def test_the_plot_draws_every_run() -> None:
    drawn = xml.etree.ElementTree.fromstring(page.plot(linear()))
    circles = drawn.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 * len(linear())
    width, height = (float(drawn.attrib[name]) for name in ("width", "height"))
    assert all(0 < float(dot.attrib["cx"]) < width and 0 < float(dot.attrib["cy"]) < height for dot in circles)


@pytest.mark.parametrize(("number", "pairs", "alone"), [(1, 0, 1), (4, 1, 2), (16, 4, 8), (32, 8, 16)])
def test_half_of_the_hosts_serve_in_pairs(number: int, pairs: int, alone: int) -> None:
    hosts = [Host(one) for one in range(1, number + 1)]
    groups = deployments(hosts)
    assert sorted(map(len, groups.values())) == [1] * alone + [2] * pairs
    assert sorted(host.number for group in groups.values() for host in group) == list(range(1, number + 1))
    grown = deployments(hosts, [Host(number + 1)])
    assert {name: grown[name] for name in groups} == groups, "a host that is added changes no deployment"
    assert len(grown) == len(groups) + 1


def test_the_inventory_names_every_host(tmp_path: Path) -> None:
    content = inventory(deployments([Host(1), Host(2), Host(3), Host(4)]), tmp_path, tmp_path, tmp_path, "0.32.0")
    path = tmp_path / "hosts.yml"
    path.write_text(json.dumps(content))
    command = [Path(sys.executable).with_name("ansible-inventory"), "-i", path, "--list"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert listed["_meta"]["hostvars"]["h004"]["ansible_host"] == "10.213.0.5"
    assert listed["pair_000"]["hosts"] == ["h001", "h002"]
    assert set(listed["llm_deployments"]["children"]) == {"pair_000", "single_h003", "single_h004"}


def test_the_model_is_a_safetensors_file_without_gaps() -> None:
    content = artefacts.weights(artefacts.MODEL_CONFIG)
    (size,) = struct.unpack("<Q", content[:8])
    places = sorted(entry["data_offsets"] for entry in json.loads(content[8 : 8 + size]).values())
    assert places[0][0] == 0
    assert all(before[1] == after[0] for before, after in itertools.pairwise(places))
    assert places[-1][1] == len(content) - 8 - size


@pytest.mark.slow
def test_measure_counts_what_goes_on_in_the_background(tmp_path: Path) -> None:
    """As ssh's connections do: a process that leaves its parent, and does not end by itself."""
    burn = "import os, time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"
    background = burn + "open('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    started = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {background!r}], start_new_session=True)\n"
    )
    wait = "import os, time\nwhile not os.path.exists('pid'): time.sleep(0.02)\n"
    program = f"{started}{wait}time.sleep(1.2)\nsys.exit(3)"
    target = tmp_path / "cost.json"
    command = [sys.executable, ROOT / "benchmarks/scale/measure.py", target, sys.executable, "-c", program]
    assert subprocess.run(command, cwd=tmp_path, timeout=60).returncode == 3
    cost = json.loads(target.read_text())
    assert cost["cpu_s"] >= 0.5
    assert cost["wall_s"] >= 1.2
    assert cost["peak_mib"] > 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The engine's API on a socket, with an image in it. Returns what asks it."""
    monkeypatch.setattr(engine, "IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(engine, "CONTAINERS", str(tmp_path / "containers"))
    monkeypatch.setattr(engine, "CONFIG", str(tmp_path / "daemon.json"))
    path = str(tmp_path / "socket")
    monkeypatch.setattr(engine.Handler, "engine", engine.Engine())
    server = engine.Server(path, engine.Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

    def ask(method: str, question: str, body: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)
        connection.request(method, question, body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    yield ask
    server.shutdown()
    server.server_close()


def test_the_engine_has_the_image_that_the_manifest_names(stand_in: Any) -> None:
    saved, (record,) = artefacts.save_image("0.32.0")
    with tarfile.open(fileobj=io.BytesIO(saved)) as tar:
        name = next(name for name in tar.getnames() if len(name) == len(f"{'0' * 64}.json"))
        member = tar.extractfile(name)
        assert member
        assert record["id"] == f"sha256:{hashlib.sha256(member.read()).hexdigest()}"
    assert stand_in("GET", "/images/json") == (200, [])
    assert stand_in("POST", "/v1.41/images/load", saved) == (200, {"stream": f"Loaded image: {artefacts.IMAGE}\n"})
    (listed,) = stand_in("GET", "/v1.41/images/json")[1]
    assert listed["Id"] == record["id"]
    assert stand_in("GET", f"/images/{artefacts.IMAGE}/json")[1]["RootFS"]["Layers"] == record["layers"]
    assert stand_in("GET", "/images/other/json")[0] == 404


def test_a_container_is_what_it_was_made_as(stand_in: Any) -> None:
    stand_in("POST", "/images/load", artefacts.save_image("0.32.0")[0])
    settings = {
        "Image": artefacts.IMAGE,
        "Cmd": ["/model"],
        "Env": ["A=1"],
        "HostConfig": {"Binds": ["/opt/llm:/llm:ro"], "NetworkMode": "host"},
    }
    status, made = stand_in("POST", "/v1.41/containers/create?name=llm-vllm", json.dumps(settings).encode())
    assert status == 201
    assert stand_in("POST", "/containers/create?name=llm-vllm", json.dumps(settings).encode())[0] == 409
    _status, before = stand_in("GET", "/v1.41/containers/llm-vllm/json")
    assert before == stand_in("GET", f"/containers/{made['Id'][:12]}/json")[1]
    assert (before["Path"], before["Args"]) == ("vllm", ["serve", "/model"])
    assert {"A=1", f"PATH={engine.PATH}"} <= set(before["Config"]["Env"])
    assert before["Mounts"][0]["RW"] is False
    assert before["State"]["Status"] == "created"
    assert stand_in("GET", "/containers/json")[1] == []
    assert [one["Names"] for one in stand_in("GET", "/containers/json?all=1")[1]] == [["/llm-vllm"]]
    for filters, there in (
        ({"name": ["^/?llm-vllm$"]}, 0),
        ({"status": ["created"]}, 1),
        ({"label": ["a=1"], "status": ["created"]}, 0),
    ):
        question = urllib.parse.urlencode({"filters": json.dumps(filters)})
        assert len(stand_in("GET", f"/containers/json?{question}")[1]) == there, (
            "one that does not run is listed when it is asked for"
        )
    assert (
        stand_in("GET", f"/containers/json?{urllib.parse.urlencode({'filters': json.dumps({'x': []})})}&all=1")[0]
        == 500
    )
    assert stand_in("DELETE", "/containers/llm-vllm?force=true")[0] == 204
    assert stand_in("GET", "/containers/llm-vllm/json")[0] == 404
    assert stand_in("GET", "/volumes")[0] == 404


@pytest.mark.skipif(
    subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0,
    reason="no mount namespace can be made here, which takes root",
)
def test_a_container_runs_as_its_user_with_the_files_of_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the collection asks of a user of containers, asked of the stand-in as the stand-in runs it."""
    monkeypatch.setattr(engine, "IMAGES", str(tmp_path / "images"))
    tmp_path.chmod(0o755)
    engine.load_image(io.BytesIO(artefacts.save_image("0.32.0")[0]))
    (image,) = engine.images()
    words = container_user.check_command(container_user.UID, artefacts.IMAGE, [], "vllm")
    assert words[:2] == ["docker", "run"]
    options, (_reference, *arguments) = engine.parsed(words[2:])
    assert options["user"] == f"{container_user.UID}:{container_user.GID}"
    asks = "import os; print(os.getuid(), os.getgid(), os.getgroups())"
    environment = engine.environment_of(image, [])
    for program, expected in ((arguments, ""), (["-c", asks], f"{container_user.UID} 0 [0]\n")):
        command = engine.command_of("test", image, ["/usr/bin/python3", *program], environment, [], (), options["user"])
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, expected), done.stderr
