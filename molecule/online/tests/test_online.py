"""What the walk of a site without a bundle has left: on the hosts, in the hub's and the registry's books, in what was printed."""

from __future__ import annotations

import json
import re
import ssl
import urllib.request

import pytest
import testinfra
import testinfra.host
import yaml

from lab.config import STATE, load

ONLINE = STATE / "online"
ADDRESS = f"{load().networks['mgmt'].rpartition('.')[0]}.200"
SECRETS = yaml.safe_load((ONLINE / "secrets.yml").read_text(encoding="utf-8"))
# It hands on what it fetches.
FIRST = load().nodes["node1"].mgmt


def on(name: str) -> testinfra.host.Host:
    return testinfra.get_host(f"ssh://{name}", ssh_config=str(STATE / "ssh/config"))


def printed(name: str) -> str:
    return (ONLINE / f"{name}.log").read_text(encoding="utf-8")


def changes(name: str) -> dict[str, int]:
    """What the recap of a run says of each host that was changed."""
    found = re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", printed(name), re.MULTILINE)
    assert found, name
    return {host: int(count) for host, count in found if int(count)}


def asked_of_the_hub() -> tuple[list[list[str]], list[list[str]]]:
    """Address, path and range of each request of a host for a file of the model: until the download broke off, and since then."""
    until = len((ONLINE / "asked.log").read_text(encoding="utf-8").splitlines())
    lines = [line.split() for line in (ONLINE / "mirrors/hub-site.log").read_text(encoding="utf-8").splitlines()]
    hosts = {node.mgmt for node in load().nodes.values()}
    parts = [[one for one in part if one[0] in hosts and one[1] == "GET"] for part in (lines[:until], lines[until:])]
    first, second = ([[one[0], *one[2:]] for one in part] for part in parts)
    return first, second


def test_all_that_the_mirrors_lack_is_listed_at_once_before_a_host_is_asked() -> None:
    said = printed("refused")
    for part in (
        "lab/absent",
        "lab/gated",
        "lab/half/resolve",
        f"{ADDRESS}:8443",
        f"{ADDRESS}:5001",
        "bundle_huggingface_token",
        "model.safetensors",
    ):
        assert part in said, part
    assert "certificate" in said
    assert "UNREACHABLE" not in said
    assert "Traceback" not in said
    assert changes("refused") == {}


def test_the_inventory_says_that_there_is_internet_and_where_the_mirrors_are() -> None:
    settings = yaml.safe_load((ONLINE / "inventory/group_vars/all.yml").read_text(encoding="utf-8"))
    assert settings["llm_offline"] is False
    assert settings["docker_repository_url"] == f"http://{ADDRESS}/docker"
    assert not set(SECRETS) & set(settings)


def test_a_download_that_broke_off_goes_on() -> None:
    first, second = asked_of_the_hub()
    weights = [one[2:] for one in first if one[0] == FIRST and one[1].endswith("model.safetensors")]
    # From where the last connection ended, five times.
    starts = [int(one[0].removeprefix("bytes=").removesuffix("-")) if one else 0 for one in weights]
    assert len(starts) == 5
    assert starts == sorted(set(starts))
    assert [one[0] for one in second] == [FIRST]
    assert int(second[0][2].removeprefix("bytes=").removesuffix("-")) > starts[-1]


def test_one_host_asks_the_hub_for_all() -> None:
    first, second = asked_of_the_hub()
    small = [tuple(one[:2]) for one in [*first, *second] if not one[1].endswith("model.safetensors")]
    assert len({path for _host, path in small}) == 5
    # Where the first host failed, the others asked for themselves; what one had was not asked for again.
    assert sorted(small) == sorted(set(small))
    assert [(one[0], one[1].rpartition("/")[2]) for one in second] == [(FIRST, "model.safetensors")]


def test_one_host_asks_the_registry_for_all() -> None:
    hosts = {node.mgmt for node in load().nodes.values()}
    log = (ONLINE / "mirrors/registry-site.log").read_text(encoding="utf-8")
    asked = re.findall(r'^(\S+) - \S* \[[^]]*\] "GET (/v2/\S+/blobs/\S+) HTTP/\S+" 200 ', log, re.MULTILINE)
    layers = [blob for host, blob in asked if host in hosts]
    assert len(layers) > 1
    assert {host for host, _blob in asked if host in hosts} == {FIRST}
    assert sorted(layers) == sorted(set(layers))
    for host in ("node2", "node3"):
        assert on(host).run("ls /opt/llm/bundle/*.tar").stdout == ""


def test_a_client_gets_tokens_through_the_gateway() -> None:
    assert "Each generated a token just now." in printed("site")
    secrets = ONLINE / "inventory/.llm/secrets"
    request = urllib.request.Request(
        f"https://{FIRST}/v1/completions",
        json.dumps({"model": "lab/tiny-qwen2", "prompt": "Hello", "max_tokens": 2}).encode(),
        {
            "Authorization": f"Bearer {(secrets / 'gateway_key_users').read_text(encoding='utf-8').strip()}",
            "Content-Type": "application/json",
        },
    )
    context = ssl.create_default_context(cafile=str(secrets / "gateway_ca.crt"))
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 2


def test_the_second_run_changes_nothing() -> None:
    assert changes("again") == {}


@pytest.mark.parametrize("name", list(load().nodes))
def test_hosts_have_what_came_from_the_mirrors(name: str) -> None:
    host = on(name)
    for package, source in (
        ("docker-ce", f"http://{ADDRESS}/docker/linux/debian"),
        ("nvidia-container-toolkit", f"http://{ADDRESS}/libnvidia-container"),
        ("nvidia-kernel-dkms", f"http://{ADDRESS}/driver"),
    ):
        policy = host.check_output(f"apt-cache policy {package}")
        assert "Installed: (none)" not in policy
        assert source in policy
    assert host.check_output("ls /opt/llm/models") == "lab--tiny-qwen2"
    digest = host.check_output("sha256sum /opt/llm/models/lab--tiny-qwen2/model.safetensors").split()[0]
    assert digest in (ONLINE / "inventory/.llm/sources/manifest.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(load().nodes))
def test_no_password_is_left_on_a_host(name: str) -> None:
    host = on(name)
    password = SECRETS["bundle_registry_credentials"][f"{ADDRESS}:5000"]["password"]
    token = SECRETS["bundle_huggingface_token"]
    for secret in (password, token):
        found = host.run(
            f"grep -rIl --exclude-dir=docker -e {secret} /etc /root /opt /run /tmp /var/log; journalctl | grep -c -e {secret}"
        )
        assert found.stdout.split() == ["0"]


def test_no_password_is_printed() -> None:
    password = SECRETS["bundle_registry_credentials"][f"{ADDRESS}:5000"]["password"]
    for path in [*ONLINE.glob("*.log"), *(ONLINE / "inventory").rglob("*")]:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        for secret in (password, SECRETS["bundle_huggingface_token"]):
            assert secret not in text, path
