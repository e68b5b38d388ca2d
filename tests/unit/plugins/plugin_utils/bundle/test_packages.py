"""What apt, dnf and pip are asked, and what apt's answers mean. A real apt resolves a real closure in molecule/delivery."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import packages

URIS = """Reading package lists...
'http://deb.debian.org/debian/pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb' zlib1g_1%3a1.2.13.dfsg-1_amd64.deb 86684 MD5Sum:x
'http://deb.debian.org/debian/pool/main/a/acl/libacl1_2.3.1%2bdfsg-3_amd64.deb' libacl1_2.3.1+dfsg-3_amd64.deb 31488
"""
STANZAS = f"""Package: libacl1
Version: 2.3.1+dfsg-3
Filename: pool/main/a/acl/libacl1_2.3.1+dfsg-3_amd64.deb
Size: 31488
SHA256: {"a" * 64}
Depends: libc6 (>= 2.33)

Package: zlib1g
Version: 1:1.2.13.dfsg-1
Description: compression library
 Filename: no field, but a line of the text
Filename: pool/main/z/zlib/zlib1g_1.2.13.dfsg-1_amd64.deb
Size: 86684
SHA256: {"b" * 64}
"""


def test_a_closure_has_checksums_and_a_flat_index() -> None:
    uris = packages.parse_uris(URIS)
    assert packages.versions(uris) == ["zlib1g=1:1.2.13.dfsg-1", "libacl1=2.3.1+dfsg-3"]
    files, index = packages.closure(uris, STANZAS)
    assert [(file["name"], file["size"], file["sha256"][0]) for file in files] == [
        ("zlib1g_1%3a1.2.13.dfsg-1_amd64.deb", 86684, "b"),
        ("libacl1_2.3.1+dfsg-3_amd64.deb", 31488, "a"),
    ]
    assert "Filename: ./zlib1g_1%3a1.2.13.dfsg-1_amd64.deb\nSize: 86684\n" in index
    assert " Filename: no field, but a line of the text\n" in index
    assert "pool/" not in index
    assert index.count("\n\n") == 1


def test_a_package_without_checksum_is_refused() -> None:
    with pytest.raises(packages.PackageError, match="zlib1g"):
        packages.closure(packages.parse_uris(URIS), STANZAS.replace("SHA256: " + "b" * 64, ""))


def test_the_settings_of_the_machine_are_left_out_but_for_the_network() -> None:
    dump = 'Acquire::http::Proxy "http://proxy:3128";\nAPT::Update::Post-Invoke:: "rm -f /var/cache/apt/*.deb";\nDir "/";\n'
    text = packages.apt_configuration("/private", "amd64", dump)
    assert 'Acquire::http::Proxy "http://proxy:3128";' in text
    assert "Post-Invoke" not in text
    assert 'Dir "/"' not in text
    assert 'Dir::State::status "/private/status";' in text
    assert 'Acquire::https::Proxy "http://other:1";' in packages.apt_configuration("/p", "amd64", "", "http://other:1")


def test_sources_of_a_release_and_of_its_mirror() -> None:
    text = packages.apt_sources("debian-12", {"http://deb.debian.org/": "https://mirror.example/"}, "/keyring.gpg")
    assert "URIs: https://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n" in text
    assert "URIs: https://mirror.example/debian-security\nSuites: bookworm-security\n" in text
    assert text.count("Signed-By: /keyring.gpg") == 2
    only = packages.apt_sources("debian-12", {"http://deb.debian.org/debian": "https://mirror.example/d"}, "/k")
    assert "http://deb.debian.org/debian-security" in only  # another address that only begins alike


def test_an_unknown_system_is_told_with_those_that_are_known() -> None:
    with pytest.raises(packages.PackageError, match=r"plan9-4 is not known. Allowed: debian-11, debian-12"):
        packages.system_of("plan9-4")


@pytest.mark.parametrize("name", ["-o=x", "", "a b", "a;b", "--download-only", "../x"])
def test_a_name_is_never_an_option(name: str) -> None:
    with pytest.raises(packages.PackageError):
        packages.check_names([name])


@pytest.mark.parametrize("name", ["-r file", "--index-url=x", "./local", "https://x/y.whl", "a @ https://x"])
def test_a_requirement_is_never_an_option_or_an_address(name: str) -> None:
    with pytest.raises(packages.PackageError):
        packages.check_requirements([name])
    assert packages.check_requirements(["requests==2.32.3", "ray[default] >=2.9"])


def test_dnf_here_or_in_a_container() -> None:
    wanted = ["iptables", "libseccomp"]
    here = packages.dnf_command("rocky-9", "x86_64", wanted, "/the folder", False, "/the/key")
    assert here[:2] == ["sh", "-euc"]
    lines = here[2].splitlines()
    assert lines[0] == (
        "dnf --assumeyes --quiet download --resolve --alldeps --forcearch=x86_64 --releasever=9 --destdir '/the folder' iptables libseccomp"
    )
    assert "\n".join(lines[1:-1]) == packages.rpm_signatures("/the folder", "/the/key")
    assert lines[-1] == "createrepo_c --quiet '/the folder'", "nothing is indexed before its signature is checked"
    inside = packages.dnf_command("almalinux-8", "x86_64", wanted, "/srv/x", engine=True)
    assert inside[:3] == ["docker", "run", "--rm"]
    assert "--volume=/srv/x:/out" in inside
    assert "download --resolve --alldeps --forcearch=x86_64 --destdir /out iptables libseccomp\n" in inside[-1]
    assert inside[-1].endswith(packages.rpm_signatures("/out") + "\ncreaterepo_c --quiet /out")


def rpm(folder: Path, name: str, home: Path, signer: str = "") -> None:
    """A package, signed by this user of gpg or by nobody."""
    (home / f"{name}.spec").write_text(
        f"Name: {name}\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n%description\nx\n%files\n"
    )
    build = ["rpmbuild", "--quiet", "--define", f"_topdir {home}/top", "--define", f"_rpmdir {home}"]
    subprocess.run([*build, "-bb", f"{home}/{name}.spec"], check=True, capture_output=True)
    (made,) = (home / "noarch").glob(f"{name}-*.rpm")
    if signer:
        sign = ["rpmsign", "--define", f"_gpg_name {signer}", "--define", f"__gpg {shutil.which('gpg')}", "--addsign"]
        subprocess.run([*sign, str(made)], check=True, capture_output=True)
    shutil.move(str(made), folder)


@pytest.mark.skipif(
    not all(map(shutil.which, ("rpmkeys", "rpmbuild", "rpmsign", "gpg"))),
    reason="it makes and signs packages, which needs rpm's programs: on Debian and Ubuntu the package rpm",
)
def test_a_package_that_the_distribution_did_not_sign_is_not_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = tmp_path / "the folder", tmp_path / "home"
    folder.mkdir()
    (home / "gpg").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home / "gpg"))
    for user in ("good@site", "other@site"):
        make = ["gpg", "--batch", "--passphrase", "", "--quick-gen-key", user, "rsa2048", "sign", "never"]
        subprocess.run(make, check=True, capture_output=True)
    export = subprocess.run(["gpg", "--armor", "--export", "good@site"], check=True, capture_output=True)
    (home / "RPM-GPG-KEY-good").write_bytes(export.stdout)

    def check() -> subprocess.CompletedProcess[str]:
        script = packages.rpm_signatures(str(folder), f"{home}/RPM-GPG-KEY-*")
        return subprocess.run(["sh", "-euc", script], capture_output=True, text=True)

    assert check().returncode == 1, "nothing is there"
    rpm(folder, "good", home, "good@site")
    assert check().returncode == 0
    rpm(folder, "unsigned", home)
    refused = check()
    assert refused.returncode == 1
    assert "unsigned-1-1.noarch.rpm: digests OK" in refused.stderr
    assert "good-1-1" not in refused.stderr
    next(folder.glob("unsigned*")).unlink()
    rpm(folder, "foreign", home, "other@site")
    assert "foreign-1-1.noarch.rpm: digests SIGNATURES NOT OK" in check().stderr


def test_wheels_are_for_the_hosts_python() -> None:
    command = packages.pip_command("python3", "3.10", ["requests"], "/out")
    assert command[command.index("--python-version") + 1] == "3.10"
    assert "cp310" in command
    assert "--only-binary=:all:" in command
    assert command[-4:] == ["--dest", "/out", "--", "requests"]


@pytest.mark.skipif(not shutil.which("apt-config"), reason="apt itself reads the file, and is not on this machine")
def test_apt_reads_these_settings_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "apt.conf").write_text(packages.apt_configuration(str(tmp_path), "amd64"))
    said = subprocess.run(
        ["apt-config", "dump"], env={"APT_CONFIG": str(tmp_path / "apt.conf"), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert f'Dir::State::status "{tmp_path}/status";' in said
    assert 'APT::Install-Recommends "false";' in said
    assert "Post-Invoke" not in said
