# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain lists of what a bundle needs, and a script that fetches it: for machines on which nobody may run Ansible.

The script is plain POSIX shell and uses curl, sha256sum, docker or skopeo, and for packages that could not be resolved here apt-get or
dnf. What it brings becomes a bundle where Ansible runs, with bundle_import.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Asked, File
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import image_addresses, split_source

PLAN_NAME = "plan.json"

SCRIPT = r"""#!/bin/sh
# Fetches what the lists beside it name into a folder (./bundle, or the first argument). Run it again if it was interrupted.
# Needs curl and sha256sum; docker or skopeo for images; apt-get and dpkg-scanpackages, or dnf, for packages-*.txt.
# Tokens, if a model needs one: HF_TOKEN, MODELSCOPE_TOKEN. Proxies: http_proxy, https_proxy.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/bundle}
mkdir -p "$out"
tab=$(printf '\t')
failed=0

say() { printf '%s\n' "$*" >&2; }

is_right() { # SHA256 FILE
  [ -f "$2" ] || return 1
  [ "$1" = - ] || [ "$(sha256sum < "$2" | cut -d ' ' -f 1)" = "$1" ]
}

header() { # HUB: on standard input, so that no token is in a list of processes
  case $1 in
    huggingface) [ -z "${HF_TOKEN:-}" ] || printf 'Authorization: Bearer %s\n' "$HF_TOKEN" ;;
    modelscope) [ -z "${MODELSCOPE_TOKEN:-}" ] || printf 'Authorization: Bearer %s\n' "$MODELSCOPE_TOKEN" ;;
  esac
}

get() { # HUB FILE URL OPTION...
  hub=$1 file=$2 url=$3
  shift 3
  header "$hub" | curl --fail --location --silent --show-error --retry 5 --header @- --output "$file" "$@" "$url"
}

fetch() { # SHA256 HUB FILE URL
  mkdir -p "$(dirname "$3")"
  if [ -f "$3.part" ] && [ "$1" != - ] && ! is_right "$1" "$3.part"; then
    status=0
    get "$2" "$3.part" "$4" --continue-at - || status=$?
    case $status in # 22, 33, 36: there is a server, but it does not go on from here
      0 | 22 | 33 | 36) is_right "$1" "$3.part" || rm -f "$3.part" ;;
      *) return 1 ;;
    esac
  fi
  if ! [ -f "$3.part" ] || [ "$1" = - ]; then
    get "$2" "$3.part" "$4" || return 1
  fi
  is_right "$1" "$3.part" || { say "$3: not what was expected from $4"; rm -f "$3.part"; return 1; }
  mv "$3.part" "$3"
}

number=0
total=$(grep -c . "$here/urls.txt" || true)
while IFS=$tab read -r sha256 size hub path urls; do
  number=$((number + 1))
  is_right "$sha256" "$out/$path" && continue
  say "$number of $total: $path ($size bytes)"
  done=no
  for url in $urls; do
    if fetch "$sha256" "$hub" "$out/$path" "$url"; then done=yes; break; fi
  done
  [ $done = yes ] || { say "FAILED: $path"; failed=$((failed + 1)); }
done < "$here/urls.txt"

number=0
while IFS=$tab read -r reference addresses; do
  number=$((number + 1))
  archive=$out/images/$(printf 'image-%03d.tar' "$number")
  [ -f "$archive" ] && continue
  mkdir -p "$out/images"
  say "image $reference"
  done=no
  for address in $addresses; do
    rm -f "$archive.part"
    if command -v skopeo > /dev/null; then
      skopeo copy "docker://$address" "docker-archive:$archive.part:$reference" && done=yes
    elif docker image inspect "$reference" > /dev/null 2>&1; then
      docker save --output "$archive.part" "$reference" && done=yes
    elif docker pull --quiet "$address" > /dev/null; then
      [ "$address" = "$reference" ] || docker tag "$address" "$reference"
      docker save --output "$archive.part" "$reference" && done=yes
    fi
    if [ $done = yes ]; then mv "$archive.part" "$archive"; break; fi
  done
  [ $done = yes ] || { say "FAILED: image $reference"; failed=$((failed + 1)); }
done < "$here/images.txt"

# Packages that could not be resolved where the lists were made. Run this on a fresh installation of the system that each list is for.
for list in "$here"/packages-*.txt; do
  [ -f "$list" ] || continue
  name=${list##*/packages-}
  folder=$out/os_packages/${name%.txt}
  [ -f "$folder/Packages" ] || [ -d "$folder/repodata" ] || {
    mkdir -p "$folder"
    say "packages of ${name%.txt}"
    # The names in the list are words for the package manager.
    # shellcheck disable=SC2046
    case ${name%.txt} in
      debian-* | ubuntu-*)
        apt-get install --yes --no-install-recommends --download-only --option "Dir::Cache::archives=$folder" $(cat "$list") &&
          (cd "$folder" && rm -rf partial lock && dpkg-scanpackages --multiversion . > Packages.new && mv Packages.new Packages)
        ;;
      *) dnf download --resolve --alldeps --destdir "$folder" $(cat "$list") ;;
    esac || { say "FAILED: packages of ${name%.txt}"; failed=$((failed + 1)); }
  }
done

cp "$here/plan.json" "$out/plan.json"
if [ "$failed" -gt 0 ]; then
  say "$failed things are missing; run this again."
  exit 1
fi
say "Complete. Copy $out to the machine that runs Ansible, and run playbooks/bundle.yml -e bundle_import=FOLDER there."
"""


def render(
    plan: Mapping[str, Asked],
    images: Sequence[Mapping[str, object]],
    mirrors: Mapping[str, Sequence[str]],
    unresolved: Mapping[str, str],
) -> dict[str, str]:
    """The lists' files by name. `unresolved` says per item's path why nobody could be asked about it."""
    rows: list[str] = []
    sums: list[str] = []
    files = [file for one in plan.values() for file in one.get("files", [])]
    for file in files:
        if not file.get("urls"):
            continue
        path = target_of(file)
        digest, size = file.get("sha256") or "-", file.get("size")
        cells = [digest, "-" if size is None else str(size), file.get("auth") or "-", path, " ".join(file["urls"])]
        rows.append("\t".join(cells))
        if digest != "-":
            sums.append(f"{digest}  {path}")
    lists = {
        "urls.txt": _lines(rows),
        "SHA256SUMS": _lines(sums),
        "images.txt": _lines(
            "\t".join([str(image["reference"]), " ".join(image_addresses(str(image["reference"]), mirrors))])
            for image in images
        ),
        PLAN_NAME: json.dumps({"plan": plan, "images": list(images)}, indent=1, sort_keys=True) + "\n",
        "fetch.sh": SCRIPT,
    }
    for one in plan.values():
        item = one["item"]
        if item["kind"] == "os_packages" and not one.get("files"):
            lists[f"packages-{split_source(item['source'])[1]}.txt"] = _lines(item["packages"])
    if unresolved:
        lists["unresolved.txt"] = _lines(f"{path}: {' '.join(why.split())}" for path, why in unresolved.items())
    return lists


def target_of(file: File) -> str:
    """Where the script puts a file: what still has to be packed anew lies beside its place."""
    return file["path"] + (".source" if file.get("repack") else "")


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
