#!/bin/bash
# What tools/check-page looks at, with the programs among the runfiles.
set -euo pipefail
exec tools/check-page --bazel-bin . "$@"
