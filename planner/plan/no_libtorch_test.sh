#!/bin/sh
# The planner runs in the CLI and in the coordinator, which link neither LibTorch nor UCX, and it needs no RPC. $1 is the
# chain of targets from the planner to one of these libraries, as Bazel's somepath finds it, and is empty where there is none.
set -eu
if [ -s "$1" ]; then
  echo "FAILED: the planner depends on $(tail -n 1 "$1"), through:"
  cat "$1"
  exit 1
fi
