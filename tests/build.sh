#!/usr/bin/env bash
# Build the collection's tarball from what git knows or would add, nothing else that lies around: `tests/build.sh FOLDER`.
# The last line printed is the tarball's path.
set -euo pipefail
out=$(realpath -m "${1:?a folder for the tarball}")
cd "$(dirname "$0")/.."
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git ls-files -z --cached --others --exclude-standard -- ':!.collections' |
    while IFS= read -r -d '' path; do
        [ ! -e "$path" ] || printf '%s\0' "$path"
    done | tar --create --null --files-from=- | tar --extract --directory="$tree"
mkdir -p "$out"
ansible-galaxy collection build --force --output-path "$out" "$tree" >&2
version=$(python -c 'import yaml; print(yaml.safe_load(open("galaxy.yml"))["version"])')
echo "$out/baremetal-llm-$version.tar.gz"
