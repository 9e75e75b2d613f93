#!/bin/bash
# docs/pictures has what tools/make-pictures writes, byte for byte: docs_pictures_test.sh DOCS_PICTURES.
set -euo pipefail
drawn="$TEST_TMPDIR/pictures"
mkdir "$drawn"
"$1" examples "$drawn"
if ! diff -rq "$drawn" docs/pictures; then
  echo "docs/pictures is not what the code draws: run tools/make-pictures" >&2
  exit 1
fi
for picture in "$drawn"/*.svg; do
  /usr/bin/python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$picture"
done
