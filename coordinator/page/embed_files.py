"""Writes the page's files as a C++ source: embed_files.py FILE... > page_files.cc (page_files.h)."""

import hashlib
import os
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PIECE = 8000  # of a literal: compilers need not take more than 65,536 characters in one


def literal(content):
    """Returns C++ literals of the text, one after the other, in raw strings."""
    pieces = [content[at:at + PIECE] for at in range(0, len(content), PIECE)] or [""]
    for piece in pieces:
        if ')page"' in piece:
            sys.exit("embed_files.py: a file has the text that ends a literal")
    return "\n".join('R"page(%s)page"' % piece for piece in pieces)


def main():
    print('#include "coordinator/page/page_files.h"\n\nnamespace adjoin {\nnamespace {\n')
    rows = []
    for number, path in enumerate(sorted(sys.argv[1:], key=os.path.basename)):
        name = os.path.basename(path)
        kind = TYPES.get(os.path.splitext(name)[1])
        if kind is None:
            sys.exit("embed_files.py: %s has none of the endings %s" % (name, ", ".join(sorted(TYPES))))
        with open(path, encoding="utf-8", newline="") as file:
            content = file.read()
        print("constexpr char kFile%d[] = %s;\n" % (number, literal(content)))
        digest = hashlib.sha256(content.encode()).hexdigest()[:16]
        rows.append('    {"%s", "%s", {kFile%d, sizeof(kFile%d) - 1}, "\\"%s\\""},' %
                    (name, kind, number, number, digest))
    print("constexpr PageFile kFiles[] = {\n%s\n};\n" % "\n".join(rows))
    print("}  // namespace\n\nabsl::Span<const PageFile> PageFiles() { return kFiles; }\n\n}  // namespace adjoin")


if __name__ == "__main__":
    main()
