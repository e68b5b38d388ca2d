#!/usr/bin/env bash
# The tarball as a user gets it: built, installed into an empty folder, every playbook's syntax checked there by its full name.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
tarball=$(tests/build.sh "$place" | tail -n 1)

echo "== nothing but the collection is in the tarball"
# What a user cannot use, or what only one machine has, shows a hole in galaxy.yml's build_ignore.
unwanted=$(tar --list --gzip --file "$tarball" | grep -E '^(\.|lab/|molecule/|build/|requirements/|tests/([^s]|s[^a]|.*\.sh))|__pycache__|\.pyc$' || true)
if [ -n "$unwanted" ]; then
    echo "the tarball holds what is no part of the collection:"
    echo "$unwanted"
    exit 1
fi

cd "$place"
export ANSIBLE_COLLECTIONS_PATH=$place/collections
# The collections that ours needs come with the ansible package; there is no Galaxy to ask.
ansible-galaxy collection install --no-deps --offline --collections-path "$ANSIBLE_COLLECTIONS_PATH" "$tarball"

echo "== every playbook, by its full name"
names=()
for playbook in "$ANSIBLE_COLLECTIONS_PATH"/ansible_collections/baremetal/llm/playbooks/*.yml; do
    names+=("baremetal.llm.$(basename "$playbook" .yml)")
done
printf '%s\n' "${names[@]}"
[[ " ${names[*]} " == *" baremetal.llm.site "* ]] || { echo "there is no playbook baremetal.llm.site"; exit 1; }
ansible-playbook --syntax-check --inventory localhost, "${names[@]}"
