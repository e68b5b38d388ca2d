"""On a host: alters one thing after the other that its records name, and says which alteration they do not show.

usage: alter.py MODULE_UTILS RECORDS look|alter [KIND...]

look: prints what differs from the records now. alter: alters everything of these kinds, all kinds without any, one at a time, looks at the
records, and puts it back; prints what was altered and what of that no record showed.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[1])

from ansible_collections.baremetal.llm.plugins.module_utils import _evidence as evidence
from ansible_collections.baremetal.llm.plugins.module_utils._gpu import read_gpus
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


class Module:
    """Of an AnsibleModule what asks programs."""

    def get_bin_path(self, name):
        return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")

    def run_command(self, command, check_rc=False, environ_update=None):
        done = subprocess.run(
            command, capture_output=True, text=True, check=check_rc, env={**os.environ, **(environ_update or {})}
        )
        return done.returncode, done.stdout, done.stderr


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def altered_path(path, was):
    """Another content, another mode, another destination, something where nothing was."""
    if was is None:
        folder = os.path.dirname(path)
        made = not os.path.isdir(folder)
        os.makedirs(folder, exist_ok=True)
        open(path, "w").close()
        yield
        os.unlink(path)
        if made:
            os.rmdir(folder)
    elif "link" in was:
        # The link itself is kept, with its time: a service that has read it is not older than it.
        kept = path + ".kept"
        os.rename(path, kept)
        os.symlink("/nonexistent" + was["link"], path)
        yield
        os.replace(kept, path)
    elif os.path.isdir(path):
        mode = os.stat(path).st_mode & 0o7777
        os.chmod(path, mode ^ 0o007)
        yield
        os.chmod(path, mode)
    else:
        # The same size, but for a file without content: another byte at the end. The file itself is kept, since a program that runs cannot
        # be written to.
        kept = path + ".kept"
        os.rename(path, kept)
        with open(kept, "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(content[:-1] + bytes([(content[-1] if content else 0) ^ 1]))
        shutil.copystat(kept, path)
        yield
        os.replace(kept, path)


@contextlib.contextmanager
def altered_settings(path, was):
    with open(path) as file:
        text = file.read()
    content = json.loads(text)
    content[next(iter(was["values"]))] = {"altered": True}
    with open(path, "w") as file:
        json.dump(content, file)
    yield
    with open(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def altered_note(folder, was):
    """As the timer leaves it that has found a file whose content is another."""
    path = os.path.join(folder, ".bundle-state.json")
    with open(path) as file:
        text = file.read()
    state = json.loads(text)
    state[sorted(state)[0]]["stamp"] = None
    with open(path, "w") as file:
        json.dump(state, file)
    yield
    with open(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def altered_unit(name, was):
    run("systemctl", "disable", name)
    yield
    run("systemctl", "enable", name)


@contextlib.contextmanager
def altered_package(name, was):
    subprocess.run(["dpkg", "--set-selections"], input=name + " hold\n", text=True, check=True)
    yield
    subprocess.run(["dpkg", "--set-selections"], input=name + " install\n", text=True, check=True)


@contextlib.contextmanager
def altered_group(name, was):
    run("groupmod", "--new-name", "altered", name)
    yield
    run("groupmod", "--new-name", name, "altered")


@contextlib.contextmanager
def altered_image(name, was):
    run("docker", "tag", name, "altered:latest")
    run("docker", "rmi", "--no-prune", name)
    yield
    run("docker", "tag", "altered:latest", name)
    run("docker", "rmi", "--no-prune", "altered:latest")


@contextlib.contextmanager
def altered_container(name, was):
    if was is None:
        run("docker", "create", "--name", name, NAMES["images"][0])
        yield
        run("docker", "rm", name)
    else:
        run("docker", "pause", name)
        yield
        run("docker", "unpause", name)


@contextlib.contextmanager
def altered_table(name, was):
    if was is None:
        run("nft", "add", "table", "inet", name)
        yield
        run("nft", "delete", "table", "inet", name)
    else:
        run("nft", "add", "chain", "inet", name, "altered")
        yield
        run("nft", "delete", "chain", "inet", name, "altered")


@contextlib.contextmanager
def altered_probe(path, was):
    with open(path) as file:
        text = file.read()
    # The probe would write its own state meanwhile.
    run("systemctl", "stop", "llm-probe.timer")
    with open(path, "w") as file:
        json.dump({**json.loads(text), "altered": {"kind": "failed"}}, file)
    yield
    with open(path, "w") as file:
        file.write(text)
    run("systemctl", "start", "llm-probe.timer")


@contextlib.contextmanager
def altered_driver(subject, was):
    """Of packages, where there are any: what is loaded belongs to the simulated cards, which the scenarios of the driver exchange."""
    names = was if subject == "packages" else {}
    for name in names:
        with altered_package(name, was):
            yield
        break
    else:
        yield


ALTERED = {
    "paths": altered_path,
    "trees": altered_path,
    "links": altered_path,
    "settings": altered_settings,
    "distrusted": altered_note,
    "units": altered_unit,
    "packages": altered_package,
    "groups": altered_group,
    "images": altered_image,
    "containers": altered_container,
    "tables": altered_table,
    "probes": altered_probe,
    "driver": altered_driver,
}
# What the engine says of its runtimes follows from its settings, that a process has read a file from the file's time, and another scenario has
# the firewalls of distributions.
NOT_ALTERED = {"runtimes", "firewalls", "started"}

records = sys.argv[2]
programs = Programs(Module(), 60)
gpus = read_gpus(programs, "/sys", "/proc")


def look():
    found = evidence.verify_records(records, evidence.Host(programs, gpus))
    return sorted(role + ": " + what for role, record in found.items() for what in record["differs"])


if sys.argv[3] == "look":
    roles = sorted(evidence.verify_records(records, evidence.Host(programs, gpus)))
    print(json.dumps({"roles": roles, "differs": look()}))
    sys.exit()

before = look()
altered, unseen = [], []
NAMES = {"images": []}
contents = {}
for name in sorted(os.listdir(records)):
    contents[name[: -len(".json")]] = evidence.read_record(os.path.join(records, name))
for content in contents.values():
    NAMES["images"] += list(content["evidence"].get("images") or {})
for role, content in contents.items():
    for kind, subjects in sorted(content["evidence"].items()):
        if kind in NOT_ALTERED:
            continue
        for subject, was in subjects.items():
            if kind == "driver" and not (subject == "packages" and was):
                continue
            with ALTERED[kind](subject, was):
                now = look()
            what = "{0}: {1} {2}".format(role, kind, subject)
            altered.append(what)
            if what not in now:
                unseen.append(what)
# The probe may have looked while a container was paused, and says so until it looks again.
until = time.monotonic() + 60
left = look()
while left != before and time.monotonic() < until:
    time.sleep(1)
    left = look()
left = [what for what in left if what not in before]
print(json.dumps({"before": before, "altered": altered, "unseen": unseen, "left": left}))
