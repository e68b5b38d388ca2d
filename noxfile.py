"""What is checked and made, each with its command. `nox --list` names it all, `nox --session unit -- -k plan` runs one by hand.

`make` makes the environments (.venv, .venv-next) and .tools/bin/nox. tests/run.py, which is `make test`, runs the sessions that are
selected here by default, side by side, and each molecule scenario. Sessions with the tag "suite" run pytest: their cases are counted. Those with
the tag "gate" or "full" belong to that tier alone.

antsibull-nox, with its ready-made sessions for collections, is not used: it fetches dependencies from Galaxy and runs ansible-test in
containers, and the tests need neither.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"

ROOT = Path(__file__).resolve().parent
MAIN = ROOT / ".venv"
NEXT = ROOT / ".venv-next"
PLAYBOOKS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("playbooks/*.yml"))

PYTEST = ("python", "-m", "pytest", "-n", "3", "--dist", "worksteal", "--durations", "10", "--durations-min", "1")
SYNTAX = ("ansible-playbook", "--syntax-check", "--inventory", "localhost,")

# What a user of the tarball cannot use, or what only one machine has: it shows a hole in galaxy.yml's build_ignore.
UNWANTED = re.compile(
    r"^(\.|lab/|molecule/|build/|controller_kit/|requirements/|tests/|noxfile\.py)|__pycache__|\.pyc$"
)

# The Pythons of controllers that the kit has wheels for, and the oldest glibc (that of RHEL 8). pip wants every name of a platform.
KIT_PYTHONS = ("3.11", "3.12", "3.13")
KIT_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 26, 24, 17, 12, 5)]
KIT_PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]

# ansible-test starts each environment with a script from ansible.com, and keeps it here.
GET_PIP = """
import os, sys, types
from ansible_test._internal.python_requirements import get_venv_packages
this = "%d.%d" % sys.version_info[:2]
pip = get_venv_packages(types.SimpleNamespace(version=this))["pip"]
print(this, os.path.expanduser("~/.ansible/test/cache/get_pip_%s.py" % pip.replace(".", "_")))
"""
ENSUREPIP = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-m', 'ensurepip', '--default-pip']))\n"


def run(
    session: nox.Session, *command: str, venv: Path = MAIN, user: bool = False, silent: bool = False, **environment: str
) -> str:
    """Run a program of this environment. The tools that it starts find each other through PATH.

    With ``user``, the program is in the environment of `make env`, too.
    """
    if not (venv / ".made").exists() and not (user and (venv / ".user").exists()):
        session.run("make", "--directory", str(ROOT), f"{venv.name}/.made")
    environment |= {"PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}
    program = str(venv / "bin" / command[0])
    # What a command complains about is no part of the output that somebody reads.
    return str(
        session.run(program, *command[1:], env=environment, silent=silent, stderr=None if silent else subprocess.STDOUT)
    )


def known_to_git(*patterns: str) -> list[str]:
    """The files that git knows or would add."""
    git = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns)
    names = subprocess.run(git, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    return sorted(name for name in names if name and os.path.lexists(ROOT / name))


def scripts(interpreter: str) -> list[str]:
    """The files of the checkout whose first line starts this interpreter, whatever their name ends in."""
    found = []
    for name in known_to_git():
        if (ROOT / name).is_file():
            with (ROOT / name).open("rb") as file:
                first = file.readline(100).split()
            if first and first[0].startswith(b"#!") and Path(first[-1].decode()).name.startswith(interpreter):
                found.append(name)
    return found


def tarball(session: nox.Session, folder: Path) -> Path:
    """Build the collection's tarball into this folder from what git knows, and from nothing else that lies around."""
    with tempfile.TemporaryDirectory() as tree:
        for name in known_to_git(":!.collections"):
            (Path(tree) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, Path(tree) / name, follow_symlinks=False)
        build = ("ansible-galaxy", "collection", "build", "--force", "--output-path", str(folder), tree)
        run(session, *build, user=True)
    (built,) = folder.glob("baremetal-llm-*.tar.gz")
    return built


@contextlib.contextmanager
def unpacked(session: nox.Session) -> Iterator[None]:
    """Work in the unpacked tarball, in a throw-away .../ansible_collections/baremetal/llm.

    ansible-test insists on such a folder, and what Galaxy and a user's machine look at is the tarball, not the checkout.
    """
    with tempfile.TemporaryDirectory() as folder:
        collection = Path(folder) / "ansible_collections" / "baremetal" / "llm"
        collection.mkdir(parents=True)
        subprocess.run(
            ("tar", "--extract", "--file", tarball(session, Path(folder)), "--directory", collection), check=True
        )
        with session.chdir(collection):
            yield


@nox.session
@nox.parametrize(
    "tool",
    [
        nox.param(tool, id=tool)
        for tool in (
            "ansible-lint",
            "syntax",
            "yamllint",
            "shellcheck",
            "ruff",
            "ruff-format",
            "mypy",
            "docs",
            "changelog",
        )
    ],
)
def lint(session: nox.Session, tool: str) -> None:
    """What can be seen without running anything."""
    commands = {
        "ansible-lint": ("ansible-lint", "--offline", "--profile", "production", "--nocolor"),
        "syntax": (*SYNTAX, *PLAYBOOKS),
        "yamllint": ("yamllint", "--strict", "."),
        "shellcheck": ("shellcheck", *scripts("bash"), *scripts("sh")),
        "ruff": ("ruff", "check", ".", *scripts("python")),
        "ruff-format": ("ruff", "format", "--check", ".", *scripts("python")),
        "mypy": (
            "mypy",
            "-p",
            "ansible_collections.baremetal.llm.plugins",
            "-p",
            "lab",
            "-m",
            "tests.run",
            "-m",
            "noxfile",
        ),
        "docs": ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "."),
        "changelog": ("antsibull-changelog", "lint"),
    }
    with unpacked(session) if tool == "docs" else contextlib.nullcontext():
        run(session, *commands[tool])


@nox.session(tags=["full"])
def sanity(session: nox.Session) -> None:
    """ansible-test sanity on what the tarball holds, as a Galaxy server would run it. Arguments are passed on: `--test pylint`.

    For each test ansible-test makes an environment from the package index and keeps it in ~/.ansible/test. Not run this way:
    `pslint` (it needs PowerShell; the collection has none), and `compile` and `import` on other Pythons than this environment's.
    Ruff checks the syntax of what runs on hosts against their oldest Python (pyproject.toml).
    """
    version, get_pip = run(session, "python", "-c", GET_PIP, silent=True).split()
    stand_in = Path(get_pip)
    with contextlib.ExitStack() as after:
        if not stand_in.exists():
            try:
                urllib.request.urlopen("https://ci-files.testing.ansible.com/ansible-test/", timeout=10).close()
            except OSError:
                # For this run, the pip that comes with Python does as well.
                session.log(
                    f"ansible.com is out of reach: the environments start with the pip that comes with Python {version}"
                )
                stand_in.parent.mkdir(parents=True, exist_ok=True)
                stand_in.write_text(ENSUREPIP)
                after.callback(stand_in.unlink)
        after.enter_context(unpacked(session))
        run(session, "ansible-test", "sanity", "--local", "--color", "no", "--python", version, *session.posargs)


@nox.session(tags=["full"])
def importer(session: nox.Session) -> None:
    """What Galaxy does with the tarball before it takes it, galaxy-importer, in an environment of its own, which is kept until its requirements change."""
    sources = [ROOT / "requirements" / name for name in ("importer.txt", "importer.lock")]
    venv = ROOT / ".nox" / ("importer-" + hashlib.sha256(b"".join(map(Path.read_bytes, sources))).hexdigest()[:12])
    if not (venv / ".made").exists():
        run(session, "uv", "venv", "--clear", "--quiet", "--python", str(MAIN / "bin" / "python"), str(venv))
        named = ("--requirement", str(sources[0]), "--constraint", str(sources[1]))
        run(session, "uv", "pip", "install", "--quiet", "--python", str(venv), *named)
        (venv / ".made").touch()
    with tempfile.TemporaryDirectory() as folder:
        built = tarball(session, Path(folder))
        path = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # ansible-lint has a session of its own; here it would have two minutes, which is too little on a busy machine.
        clean = {"HOME": folder, "PATH": path, "LC_ALL": "C.UTF-8", "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false"}
        command = (str(venv / "bin" / "python"), "-m", "galaxy_importer.main", str(built))
        with session.chdir(folder):
            said = session.run(*command, env=clean, include_outer_env=False, external=True, silent=True)
        session.log(str(said))
        # It imports what it complains about, too.
        if complaints := re.findall(r"^(?:ERROR|WARNING|CRITICAL): .*", str(said), re.MULTILINE):
            session.error("galaxy-importer complains: " + "; ".join(complaints))
        if "Importer processing completed successfully" not in str(said):
            session.error("galaxy-importer did not end well")


@nox.session(tags=["suite", "gate"])
def unit(session: nox.Session) -> None:
    """The quick unit tests on ansible-core 2.19: those that are not marked slow, with few examples. Arguments are pytest's, and take the place of both."""
    run(session, *PYTEST, *(session.posargs or ["-m", "not slow", "tests"]))


@nox.session(name="unit-all", tags=["suite", "full"])
def unit_all(session: nox.Session) -> None:
    """All unit tests on ansible-core 2.19. Arguments are pytest's."""
    run(session, *PYTEST, *(session.posargs or ["tests"]))


@nox.session(name="unit-next", tags=["suite", "full"])
def unit_next(session: nox.Session) -> None:
    """All unit tests that a release of Ansible can change, on ansible-core 2.21. Arguments are pytest's.

    Lab and light hosts and what runs the tests run on the other one, and so do their tests and those that read files alone. No release of Ansible
    changes what knows no Ansible: what decides, what modules share (tests/unit/plugins/test_pure_core.py), and the programs that roles bring to hosts.
    """
    pure = (
        "planner",
        "engines",
        "network",
        "preflight",
        "install",
        "deployment",
        "gateway",
        "monitoring",
        "status",
        "doctor",
    )
    programs = (
        "test_probe.py",
        "test_probe_program.py",
        "test_api_paths.py",
        "test_cluster_program.py",
        "test_start_vllm.py",
        "test_alert_relay.py",
        "test_gateway_usage.py",
        "test_textfile.py",
    )
    others = [
        "tests/docs",
        "tests/unit/lab",
        "tests/unit/benchmarks",
        *(
            f"tests/unit/test_{name}.py"
            for name in ("run", "scenarios", "count_cases", "galaxy", "path", "texts", "unused")
        ),
        "tests/unit/plugins/module_utils",
        *(f"tests/unit/plugins/plugin_utils/{name}" for name in pure),
        *(f"tests/unit/roles/{name}" for name in programs),
    ]
    run(session, *PYTEST, *(session.posargs or ["tests", *(f"--ignore={path}" for path in others)]), venv=NEXT)


@nox.session(name="syntax-next")
def syntax_next(session: nox.Session) -> None:
    """The syntax of every playbook on ansible-core 2.21. ansible-lint's rules are the same on both, so it runs on one."""
    run(session, *SYNTAX, *PLAYBOOKS, venv=NEXT)


@nox.session
def package(session: nox.Session) -> None:
    """The tarball as a user gets it: installed into an empty folder, and every playbook's syntax checked by its full name."""
    with tempfile.TemporaryDirectory() as folder:
        built = tarball(session, Path(folder))
        with tarfile.open(built) as archive:
            if unwanted := [name for name in archive.getnames() if UNWANTED.search(name)]:
                session.error("the tarball holds what is no part of the collection: " + ", ".join(unwanted))
        collections = Path(folder) / "collections"
        with session.chdir(folder):
            # The collections that ours needs come with the ansible package; there is no Galaxy to ask.
            install = ("ansible-galaxy", "collection", "install", "--no-deps", "--offline", "--collections-path")
            run(session, *install, str(collections), str(built), ANSIBLE_COLLECTIONS_PATH=str(collections))
            found = collections.glob("ansible_collections/baremetal/llm/playbooks/*.yml")
            names = sorted(f"baremetal.llm.{path.stem}" for path in found)
            if "baremetal.llm.site" not in names:
                session.error("there is no playbook baremetal.llm.site")
            run(session, *SYNTAX, *names, ANSIBLE_COLLECTIONS_PATH=str(collections))


@nox.session(default=False, tags=["suite"])
def molecule(session: nox.Session) -> None:
    """Scenarios on simulated hosts: `nox --session molecule -- ray`."""
    if not session.posargs:
        session.error(
            "name a scenario: " + " ".join(sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml")))
        )
    for scenario in session.posargs:
        run(session, "molecule", "test", "--scenario-name", scenario)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """The collection's tarball, into build/."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("baremetal-llm-*.tar.gz"):
        old.unlink()
    session.log(f"made {tarball(session, folder)}")


def make_kit(session: nox.Session, folder: Path) -> Path:
    """Make the controller kit in this folder: the tarball, wheels for each Python, their checksums, and what installs them."""
    version = re.search(r"^version: (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE)
    assert version
    name = f"llm-controller-kit-{version[1]}"
    with tempfile.TemporaryDirectory() as work:
        kit = Path(work) / name
        kit.mkdir()
        tarball(session, kit)
        shutil.copy2(ROOT / "requirements" / "user.txt", kit / "requirements.txt")
        shutil.copy2(ROOT / "controller_kit" / "install.sh", kit)
        platforms = [word for one in KIT_PLATFORMS for word in ("--platform", one)]
        for python in KIT_PYTHONS:
            wanted = ("--python-version", python, "--implementation", "cp", "--only-binary", ":all:", *platforms)
            named = ("--requirement", "requirements/user.txt", "--constraint", "requirements/core-2.19.lock")
            fetch = ("python", "-m", "pip", "download", "-qq", "--disable-pip-version-check")
            run(session, *fetch, "--dest", str(kit / "wheels"), *wanted, *named, user=True)
        files = sorted(path for path in kit.rglob("*") if path.is_file())
        sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(kit)}\n" for path in files]
        (kit / "SHA256SUMS").write_text("".join(sums))
        archive = folder / f"{name}.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as out:  # wheels are compressed already
            out.add(kit, name)
    return archive


@nox.session(name="controller-kit", default=False)
def controller_kit(session: nox.Session) -> None:
    """One archive that brings the collection and Ansible to a controller without internet, into build/."""
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("llm-controller-kit-*.tar.gz"):
        old.unlink()
    archive = make_kit(session, folder)
    session.log(f"made {archive} ({archive.stat().st_size / 1e6:,.0f} MB). On the controller: unpack it, sh install.sh")


@nox.session(name="kit", tags=["full"])
def kit(session: nox.Session) -> None:
    """The controller kit as a user gets it: installed into an empty folder without any network, and used there."""
    apart: tuple[str, ...] = ("unshare", "--map-root-user", "--net")
    if subprocess.run((*apart, "true"), stderr=subprocess.DEVNULL, check=False).returncode:
        session.warn("this machine makes no network namespace: a download would not be noticed")
        apart = ()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(make_kit(session, Path(folder))) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).glob("llm-controller-kit-*/")
        home = Path(folder) / "home"
        home.mkdir()
        clean = {"HOME": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}

        def there(*command: str, says: str = "", status: int = 0) -> None:
            """Run this in a shell of the controller, where it has to say something."""
            said = session.run(
                *apart, *command, env=clean, include_outer_env=False, external=True, silent=True, success_codes=[status]
            )
            if says not in str(said):
                session.error(f"{' '.join(command)} does not say {says!r}: {said}")

        install = ("sh", str(unpacked / "install.sh"))
        there(*install, says="Done.")
        there(*install, says="nothing is to be done")
        environment = home / "baremetal-llm"
        collection = next(environment.glob("lib/python3*/site-packages/ansible_collections/baremetal/llm"))
        clean["PATH"] = f"{environment / 'bin'}{os.pathsep}{clean['PATH']}"
        playbooks = [f"baremetal.llm.{path.stem}" for path in sorted(collection.glob("playbooks/*.yml"))]
        with session.chdir(home):
            there(*SYNTAX, *playbooks, says="llm/playbooks/site.yml")
            sample = ("--inventory", str(collection / "inventories" / "offline_v100"))
            alone = ("--limit", "localhost", "--extra-vars", "preflight_bundle_required=false")
            there("ansible-playbook", "baremetal.llm.preflight", *sample, *alone, says="failed=0")
            there("ansible-playbook", "baremetal.llm.plan", *sample, says="failed=0")
            wheel = next(unpacked.glob("wheels/ansible_core-*.whl"))
            wheel.write_bytes(wheel.read_bytes()[:-1] + b"x")
            there(*install, str(home / "other"), says=f"wheels/{wheel.name}", status=1)


@nox.session(name="format", default=False)
def format_python(session: nox.Session) -> None:
    """Let ruff rewrite the Python files as lint wants them."""
    run(session, "ruff", "check", "--fix", ".", *scripts("python"))
    run(session, "ruff", "format", ".", *scripts("python"))
