// How the classes of a drawing look, as CSS: the same colours in files and on pages.
//
// Ranks' colours are Paul Tol's "light" scheme, which people with any kind of colour blindness can tell apart and on
// which black text can be read. Eight of them come again and again; labels tell which rank it is.
#ifndef ADJOIN_PLANNER_PICTURE_PICTURE_STYLE_H_
#define ADJOIN_PLANNER_PICTURE_PICTURE_STYLE_H_

namespace adjoin {

// Shapes, which look the same everywhere.
inline constexpr char kShapeStyle[] =
    ".r0{fill:#7ad}.r1{fill:#e86}.r2{fill:#ed8}.r3{fill:#fab}.r4{fill:#9df}.r5{fill:#4b9}.r6{fill:#bc3}.r7{fill:#aa0}"
    ".b,.o{stroke:#222;stroke-width:.8}.o{fill:#fff;fill-opacity:0}.q{stroke-dasharray:3 2;stroke-width:1.6}"
    ".rest{fill:#bbb;stroke:#222;stroke-width:.6}.ha{fill:url(#hatch);stroke:#222;stroke-width:.4}"
    ".lit{fill:#fff;fill-opacity:.35;pointer-events:none}.dim{fill:#000;fill-opacity:.14;pointer-events:none}"
    ".ha,.l{pointer-events:none}"
    "text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,Helvetica,Arial,\"DejaVu Sans\",sans-serif}"
    ".h{font-size:18px;font-weight:600}.t{font-size:13px;font-weight:600}.p{font-size:12px}.s,.l{font-size:11px}"
    ".l{fill:#111;paint-order:stroke;stroke:#fff;stroke-opacity:.55;stroke-width:2.5px}.no{stroke-width:1.5}.ln{fill:"
    "none;stroke-width:1.5}";

// The pattern of halos: once in every document.
inline constexpr char kHatch[] =
    "<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"4\" height=\"4\" fill=\"#fff\" fill-opacity=\".45\"/>"
    "<rect width=\"1.5\" height=\"4\" fill=\"#111\"/></pattern></defs>\n";

// Text, lines and bars of a file: dark on its own light ground, so that it can be read on any page.
inline constexpr char kFileColours[] =
    ".h,.t,.p{fill:#1c2026}.s{fill:#4d5560}.bo{fill:none;stroke:#6a737d;stroke-width:.8}.bf{fill:#4d5560}"
    ".ln{stroke:#57606a}.no{fill:#fff;stroke:#1c2026}.mv{fill:#1c2026}.pk{fill:#b02a37}.tm{fill:#57606a}.tv{fill:#"
    "aab2bb}"
    ".ground{fill:#fbfbfa;stroke:#c9ced4}.rule{stroke:#d5d9de;stroke-width:1;fill:none}";

// The same of a page, light and dark.
inline constexpr char kPageColours[] =
    ":root{color-scheme:light dark;--ink:#1c2026;--soft:#4d5560;--line:#57606a;--rule:#d5d9de;--ground:#fbfbfa;"
    "--void:#aab2bb;--warn:#b02a37}"
    "@media (prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a9b1ba;--line:#98a2ad;--rule:#3a414a;"
    "--ground:#14171b;--void:#5b6570;--warn:#ff8a80}}"
    ".h,.t,.p{fill:var(--ink)}.s{fill:var(--soft)}.bo{fill:none;stroke:var(--soft);stroke-width:.8}"
    ".bf{fill:var(--soft)}.ln{stroke:var(--line)}.no{fill:var(--ground);stroke:var(--ink)}.mv{fill:var(--ink)}"
    ".tm{fill:var(--line)}.tv{fill:var(--void)}.pk{fill:var(--warn)}.rule{stroke:var(--rule);stroke-width:1;fill:none}";

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PICTURE_PICTURE_STYLE_H_
