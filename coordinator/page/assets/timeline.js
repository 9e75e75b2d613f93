// A step of a trace as SVG: a track for each rank with what it did, nested, and an arrow for each message. `slice` is
// [begin, length, depth, kind, name], times are nanoseconds (coordinator/page/trace_timeline.h).
import {ticks} from "./chart.js";
import {el} from "./dom.js";
import {number} from "./text.js";

export const kKinds = ["step", "layer", "movement", "wait", "file"];
const kRow = 16, kLabel = 18, kGap = 10, kAxis = 24, kLetter = 6.6;  // pixels
const kMostRows = 6, kMostTexts = 400, kMostLinks = 300;
const kLeast = 200;  // nanoseconds that are shown at least

// "1.25 ms" where the step has milliseconds, else microseconds.
export const span = (ns) => (Math.abs(ns) >= 1e6 ? `${number(ns / 1e6)} ms` : `${number(ns / 1e3)} µs`);

// Where each rank's track is: {rank, slices, top, rows, bottom}.
function tracksOf(data) {
  let top = kAxis;
  return data.rank.map(({rank, slice}) => {
    const rows = Math.min(kMostRows, 1 + slice.reduce((most, [, , depth]) => Math.max(most, depth), 0));
    const track = {rank, slices: slice, top, rows, first: top + kLabel, bottom: top + kLabel + rows * kRow};
    top = track.bottom + kGap;
    return track;
  });
}

const rowOf = (depth) => Math.min(depth, kMostRows - 1);

// The part of the step that is shown, kept within it.
export function within(view, length) {
  const wide = Math.min(length, Math.max(kLeast, view.end - view.begin));
  const begin = Math.min(length - wide, Math.max(0, view.begin));
  return {begin, end: begin + wide};
}

export function zoomed(view, at, factor, length) {
  return within({begin: at - (at - view.begin) * factor, end: at + (view.end - at) * factor}, length);
}

// Shows the slice, and some of what is around it.
function containing(view, [begin, long], length) {
  if (begin < view.end && begin + long > view.begin) return view;
  const wide = view.end - view.begin;
  return within({begin: begin - wide / 4, end: begin + wide * 3 / 4}, length);
}

export function textOf(data, at) {
  const of = data.rank[at.track];
  const slice = of?.slice[at.index];
  if (slice === undefined) return "";
  const [begin, long, , kind, name] = slice;
  return `rank ${of.rank}: ${data.names[name] ?? "?"} (${kKinds[kind]}), ${span(long)}, from ${span(begin)} on`;
}

// `view`: {begin, end}. `at`: the slice that is told of, {track, index}. `change({view, at})` is called for keys and
// pointers.
export function timeline({data, width, view, at, change}) {
  const tracks = tracksOf(data), length = data.length_ns;
  const height = tracks.length === 0 ? kAxis : tracks.at(-1).bottom + 4;
  const x = (time) => width * (time - view.begin) / (view.end - view.begin);
  const chosen = data.rank[at.track]?.slice[at.index];
  return el("div", {class: "timeline", "data-key": "timeline", tabindex: 0, role: "slider",
    "aria-label": "what the ranks did in this step", "aria-orientation": "horizontal", "aria-valuemin": 0,
    "aria-valuemax": Math.round(length), "aria-valuenow": Math.round(chosen?.[0] ?? 0),
    "aria-valuetext": textOf(data, at),
    onkeydown: (event) => {
      const next = afterKey(event, {data, view, at, length});
      if (next === null) return;
      event.preventDefault();
      change(next);
    },
    ...pointers({tracks, width, view, at, length, change})},
  el("svg", {viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true"},
    el("defs", {}, el("pattern", {id: "waits", width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)"}, el("rect", {class: "ground", width: 6, height: 6}),
    el("rect", {class: "line", width: 2, height: 6}))),
    axis(view, width, x),
    tracks.map((track) => drawTrack(track, data, view, width, x)),
    links(data, tracks, view, x),
    tracks.map(({rank, first}) => el("text", {class: "rank", x: 0, y: first - 4}, `rank ${rank}`)),
    chosen && tracks[at.track] ? el("rect", {class: "chosen", x: Math.max(-2, x(chosen[0])),
      y: tracks[at.track].first + rowOf(chosen[2]) * kRow, height: kRow - 1,
      width: Math.max(2, Math.min(width + 2, x(chosen[0] + chosen[1])) - Math.max(-2, x(chosen[0])))}) : null));
}

function axis(view, width, x) {
  return ticks(view.begin, view.end, false).map((time) => {
    const text = span(time), half = text.length * kLetter / 2;
    const place = x(time) - half < 0 ? "start" : x(time) + half > width ? "end" : "middle";
    return el("g", {class: "tick"}, el("line", {x1: x(time), x2: x(time), y1: kAxis - 6, y2: 10000}),
      el("text", {x: x(time), y: 12, "text-anchor": place}, text));
  });
}

// Slices of one kind are one path: a page with a hundred thousand elements would be slow. Those that are too near to
// each other to be told apart are one box.
function drawTrack(track, data, view, width, x) {
  const paths = kKinds.map(() => []), texts = [], last = new Map();
  for (const [begin, long, depth, kind, name] of track.slices) {
    if (begin > view.end || begin + long < view.begin) continue;
    const left = Math.max(-2, x(begin)), right = Math.min(width + 2, x(begin + long));
    const row = rowOf(depth), key = row * kKinds.length + kind;
    if (right - left < 1 && (last.get(key) ?? -10) > left - 0.7) continue;
    last.set(key, right);
    const wide = Math.max(0.7, right - left), y = track.first + row * kRow;
    paths[kind].push(`M${left.toFixed(1)} ${y}h${wide.toFixed(1)}v${kRow - 1}h${(-wide).toFixed(1)}z`);
    const letters = Math.floor((wide - 6) / kLetter), text = data.names[name] ?? "";
    if (letters >= Math.min(4, text.length) && texts.length < kMostTexts) {
      texts.push(el("text", {class: "inside", x: Math.max(0, left) + 3, y: y + 12}, cut(text, letters)));
    }
  }
  return el("g", {}, paths.map((parts, kind) => (parts.length === 0 ? null : el("path", {class: kKinds[kind],
      fill: kKinds[kind] === "wait" ? "url(#waits)" : null, d: parts.join("")}))), texts);
}

const cut = (text, letters) => (text.length <= letters ? text : text.slice(0, Math.max(1, letters - 1)) + "…");

// From where a message is sent to where it has come. Of very many in sight the longest.
function links(data, tracks, view, x) {
  const places = new Map(tracks.map((track) => [track.rank, track]));
  const seen = linksIn(data, view).slice(0, kMostLinks);
  const lines = [], heads = [];
  for (const [from, to, sent, came] of seen) {
    const a = places.get(from), b = places.get(to);
    if (a === undefined || b === undefined) continue;
    const down = b.top > a.top, x1 = x(sent), x2 = x(came), y1 = down ? a.bottom : a.first, y2 = down ? b.first : b.bottom;
    lines.push(`M${x1.toFixed(1)} ${y1}L${x2.toFixed(1)} ${y2}`);
    const long = Math.hypot(x2 - x1, y2 - y1) || 1, dx = 7 * (x2 - x1) / long, dy = 7 * (y2 - y1) / long;
    heads.push(`M${x2.toFixed(1)} ${y2}L${(x2 - dx - dy * 0.45).toFixed(1)} ${(y2 - dy + dx * 0.45).toFixed(1)}` +
      `L${(x2 - dx + dy * 0.45).toFixed(1)} ${(y2 - dy - dx * 0.45).toFixed(1)}z`);
  }
  return [el("path", {class: "link", d: lines.join("")}), el("path", {class: "head", d: heads.join("")})];
}

const linksIn = (data, view) => data.message.filter(([, , sent, came]) => sent <= view.end && came >= view.begin)
  .sort((a, b) => (b[3] - b[2]) - (a[3] - a[2]));

// How many messages in sight are not drawn.
export const linksLeftOut = (data, view) => Math.max(0, linksIn(data, view).length - kMostLinks);

function afterKey({key, ctrlKey, altKey, metaKey}, {data, view, at, length}) {
  if (ctrlKey || altKey || metaKey) return null;
  const slices = data.rank[at.track]?.slice ?? [], slice = slices[at.index];
  const middle = slice === undefined ? (view.begin + view.end) / 2 :
    Math.min(view.end, Math.max(view.begin, slice[0] + slice[1] / 2));
  const wide = view.end - view.begin;
  const to = (track, index) => {
    const next = data.rank[track]?.slice[index];
    return next === undefined ? {view, at} : {view: containing(view, next, length), at: {track, index}};
  };
  switch (key) {
    case "+": case "=": return {at, view: zoomed(view, middle, 0.5, length)};
    case "-": return {at, view: zoomed(view, middle, 2, length)};
    case "0": return {at, view: {begin: 0, end: length}};
    case "PageUp": return {at, view: within({begin: view.begin - wide / 2, end: view.end - wide / 2}, length)};
    case "PageDown": return {at, view: within({begin: view.begin + wide / 2, end: view.end + wide / 2}, length)};
    case "ArrowLeft": return to(at.track, at.index - 1);
    case "ArrowRight": return to(at.track, at.index + 1);
    case "Home": return to(at.track, 0);
    case "End": return to(at.track, slices.length - 1);
    case "ArrowUp": case "ArrowDown": {
      const track = at.track + (key === "ArrowUp" ? -1 : 1);
      return to(track, nearest(data.rank[track]?.slice ?? [], slice));
    }
    default: return null;
  }
}

// The index of the slice of the same depth that begins nearest to this one.
function nearest(slices, slice) {
  if (slice === undefined) return 0;
  let best = 0, least = Infinity;
  for (const [i, [begin, , depth]] of slices.entries()) {
    const far = Math.abs(begin - slice[0]) + (depth === slice[2] ? 0 : 1e15);
    if (far < least) [best, least] = [i, far];
  }
  return best;
}

// A pointer reads; pressed, it moves the picture. The wheel zooms with Ctrl, as a pinch does, and else scrolls.
let pressed = null;
function pointers({tracks, width, view, at, length, change}) {
  const place = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const scale = width / box.width;
    return {x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale};
  };
  const timeAt = (x) => view.begin + (view.end - view.begin) * x / width;
  return {
    onpointerdown: (event) => {
      pressed = {x: place(event).x, view};
    },
    onpointerup: () => {
      pressed = null;
    },
    onpointerleave: () => {
      pressed = null;
    },
    onpointermove: (event) => {
      const {x, y} = place(event);
      if (pressed !== null && event.buttons !== 0) {
        const moved = (pressed.x - x) * (pressed.view.end - pressed.view.begin) / width;
        return change({at, view: within({begin: pressed.view.begin + moved, end: pressed.view.end + moved}, length)});
      }
      const track = tracks.findIndex(({top, bottom}) => y >= top && y < bottom);
      if (track < 0) return undefined;
      const row = Math.floor((y - tracks[track].first) / kRow), time = timeAt(x), near = timeAt(x + 2) - time;
      const index = tracks[track].slices.findLastIndex(([begin, long, depth]) => rowOf(depth) === row &&
        begin - near <= time && time <= begin + long + near);
      if (index >= 0 && (track !== at.track || index !== at.index)) change({view, at: {track, index}});
      return undefined;
    },
    ondblclick: (event) => change({at, view: zoomed(view, timeAt(place(event).x), 0.5, length)}),
    onwheel: (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      change({at, view: zoomed(view, timeAt(place(event).x), event.deltaY < 0 ? 0.8 : 1.25, length)});
    },
  };
}

// Nanoseconds of each rank by kind, of each slice what is not in another one within it.
export function timesOf(data) {
  return data.rank.map(({rank, slice}) => {
    const sums = kKinds.map(() => 0), open = [];
    for (const [begin, long, depth, kind] of slice) {
      open.length = Math.min(open.length, depth);
      sums[kind] += long;
      const parent = open.findLast((each) => each !== undefined && begin < each.end);
      if (parent !== undefined) sums[parent.kind] -= long;
      open[depth] = {kind, end: begin + long};
    }
    return {rank, sums};
  });
}
