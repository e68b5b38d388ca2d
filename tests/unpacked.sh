#!/usr/bin/env bash
# Run a command in the unpacked tarball, in a throw-away .../ansible_collections/baremetal/llm: `tests/unpacked.sh COMMAND ...`.
# ansible-test insists on such a folder, and what Galaxy and a user's machine look at is the tarball, not the checkout.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
tarball=$("$(dirname "$0")/build.sh" "$tree" | tail -n 1)
collection=$tree/ansible_collections/baremetal/llm
mkdir -p "$collection"
tar --extract --gzip --file "$tarball" --directory "$collection"
cd "$collection"
"$@"
