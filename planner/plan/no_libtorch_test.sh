#!/bin/sh
# The planner runs in the CLI and in the coordinator, which link neither LibTorch nor UCX, and it needs no RPC. $1 is the
# chain of targets from the planner to one of these libraries, as Bazel's somepath finds it, and is empty where there is
# none. $2 is such a chain from a package that does link one of them.
set -eu
if [ -s "$1" ]; then
  echo "FAILED: the planner depends on $(tail -n 1 "$1"), through:"
  cat "$1"
  exit 1
fi
if ! grep -q "^//third_party:" "$2"; then
  echo "FAILED: the query finds no library even where one is linked"
  exit 1
fi
