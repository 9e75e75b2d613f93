#!/bin/bash
# The jobs of this folder are what make_networks.py writes.
set -euo pipefail
here="$(dirname "${BASH_SOURCE[0]}")"
made="$TEST_TMPDIR/made"
mkdir -p "$made"
/usr/bin/python3 "$here/make_networks.py" "$made"
for job in "$made"/*.textproto "$here"/*.textproto; do
  name="$(basename "$job")"
  diff "$made/$name" "$here/$name" || { echo "$name: run make_networks.py" >&2; exit 1; }
done
