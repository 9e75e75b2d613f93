// Makes and updates elements. Text is only ever set as text: nothing here, or anywhere on the page, reads markup.

const kSvg = "http://www.w3.org/2000/svg";
const kSvgTags = new Set(["svg", "path", "line", "rect", "circle", "text", "g", "polyline", "title", "defs",
  "pattern"]);

// el("a", {href: "#/jobs", onclick: open}, "Jobs"): properties that begin with "on" are listeners, others attributes;
// one that is null, undefined or false is left out. Children are nodes, texts, numbers or lists of these.
export function el(tag, attributes = {}, ...children) {
  const made = kSvgTags.has(tag) ? document.createElementNS(kSvg, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  add(made, children);
  return made;
}

function add(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

const kListeners = ["onclick", "onchange", "oninput", "onsubmit", "onkeydown", "onpointermove", "onpointerleave",
  "onpointerdown", "onpointerup", "ondblclick", "onwheel", "onscroll"];

// Makes the children of `parent` what `made` says, and leaves alone what is so already: focus, scroll positions and
// what somebody types stay. Children are told apart by their attribute data-key, or by their place. One with data-own
// is its maker's own business once it is there.
export function show(parent, ...made) {
  const holder = document.createDocumentFragment();
  add(holder, made);
  updateChildren(parent, holder);
}

function updateChildren(parent, made) {
  const known = new Map();
  for (const child of parent.children) {
    const key = child.getAttribute("data-key");
    if (key !== null) known.set(key, child);
  }
  let place = parent.firstChild;
  for (const next of [...made.childNodes]) {
    const key = next.nodeType === Node.ELEMENT_NODE ? next.getAttribute("data-key") : null;
    let old = place;
    if (key !== null) old = known.get(key) ?? null;
    else if (old !== null && old.nodeType === Node.ELEMENT_NODE && old.hasAttribute("data-key")) old = null;
    if (old === null || !alike(old, next)) {
      parent.insertBefore(next, place);
      continue;
    }
    if (old !== place) parent.insertBefore(old, place);
    else place = place.nextSibling;
    update(old, next);
  }
  while (place !== null) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName;

function update(old, made) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  if (old.hasAttribute("data-own")) return;
  for (const {name} of [...old.attributes]) {
    if (!made.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const {name, value} of [...made.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of kListeners) {
    if (old[name] !== made[name]) old[name] = made[name];
  }
  const typed = old.nodeName === "INPUT" || old.nodeName === "SELECT";
  if (typed && old === document.activeElement) return;
  updateChildren(old, made);
  if (typed && old.value !== made.value) old.value = made.value;
}

// A table that reads well: `columns` are {name, number, wide}, a row is a list of cells or {key, cells, current}.
export function table(caption, columns, rows) {
  return el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": caption},
    el("table", {},
      el("caption", {class: "unseen"}, caption),
      el("thead", {}, el("tr", {}, columns.map(
        (column) => el("th", {scope: "col", class: column.number ? "number" : null}, column.name)))),
      el("tbody", {}, rows.map((row) => el("tr", {"data-key": row.key ?? null}, (row.cells ?? row).map((cell, i) =>
        el("td", {class: classOf(columns[i], cell), "data-label": columns[i].name}, el("div", {}, cell))))))));
}

function classOf(column, cell) {
  if (cell === "" || cell === null || cell === undefined) return "none";
  return column.number ? "number" : column.wide ? "wide" : null;
}

// A list of names and values; those without a value are left out.
export function facts(...pairs) {
  return el("dl", {class: "facts"}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
