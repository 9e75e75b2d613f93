// One metric of some runs over its steps, as SVG. Arrow keys move the mark when the chart has the focus.
import {el} from "./dom.js";
import {number} from "./text.js";
import {smoothed, thinned} from "./runs.js";

const kMost = 1e307;  // drawn: of larger values there are no differences
const kMostTicks = 20;
const kLeft = 56, kRight = 10, kTop = 8, kBottom = 26, kHeight = 220;

// `runs`: [{name, points}], each with its own colour and kind of line. `mark`: a step, or null for the last one.
export function chart({title, runs, width, log, weight, mark, onMark}) {
  const lines = runs.map(({name, points}, i) => {
    const usable = points.filter(([, value]) => Number.isFinite(value) && (!log || value > 0));
    return {name, i, left: points.length - usable.length, all: points, points: smoothed(usable, weight)};
  });
  const steps = lines.flatMap(({points}) => (points.length > 0 ? [points[0][0], points.at(-1)[0]] : []));
  if (steps.length === 0) return el("p", {class: "soft"}, `${title}: nothing that could be drawn`);
  const first = Math.min(...steps), last = Math.max(...steps);
  const shown = lines.map((line) => ({...line, points: thinned(line.points, Math.max(50, Math.floor(width / 2)))}));
  const [low, high] = range(shown, log);
  const scale = log ? Math.log10 : (value) => value;
  const x = (step) => kLeft + (width - kLeft - kRight) * (last > first ? (step - first) / (last - first) : 0.5);
  const part = (value) => (scale(Math.min(high, Math.max(low, value))) - scale(low)) / (scale(high) - scale(low));
  const y = (value) => kTop + (kHeight - kTop - kBottom) * (1 - part(value));
  const at = mark === null ? last : Math.min(last, Math.max(first, mark));
  const values = lines.map(({name, points, i}) => ({name, i, point: nearest(points, at)}));
  const told = values.map(({name, point}) => `${name} ${point ? number(point[1]) : "–"}`).join(", ");
  const toStep = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const share = ((event.clientX - box.left) * width / box.width - kLeft) / (width - kLeft - kRight);
    onMark(Math.round(first + Math.min(1, Math.max(0, share)) * (last - first)));
  };
  const onkeydown = (event) => {
    const stride = Math.max(1, Math.round((last - first) / 50));
    const to = {ArrowLeft: at - stride, ArrowRight: at + stride, Home: first, End: last}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    onMark(to >= last ? null : Math.max(first, to));
  };
  return el("figure", {"data-key": "chart " + title, class: "chart"},
    el("figcaption", {}, title),
    el("div", {tabindex: 0, role: "slider", "aria-label": `${title} over the steps`, "aria-valuemin": first,
      "aria-valuemax": last, "aria-valuenow": at, "aria-valuetext": `step ${at}: ${told}`, onkeydown,
      onpointermove: toStep, onpointerleave: () => onMark(null)},
    el("svg", {viewBox: `0 0 ${width} ${kHeight}`, width, height: kHeight, "aria-hidden": "true"},
      ticks(low, high, log).map((value) => el("g", {class: "tick"},
        el("line", {x1: kLeft, x2: width - kRight, y1: y(value), y2: y(value)}),
        el("text", {x: kLeft - 6, y: y(value) + 4, "text-anchor": "end"}, number(value)))),
      ticks(first, last, false).filter(Number.isInteger).map((step) => el("text", {class: "tick", x: x(step),
        y: kHeight - 8, "text-anchor": anchor(x(step), String(step), width)}, step)),
      shown.map(({points, i}) => (points.length === 1 ?
        el("circle", {class: `run${i % 6} dot`, cx: x(points[0][0]), cy: y(points[0][1]), r: 3}) :
        el("path", {class: `run${i % 6}`, d: path(points, x, y)}))),
      el("line", {class: "mark", x1: x(at), x2: x(at), y1: kTop, y2: kHeight - kBottom}))),
    el("p", {class: "legend"}, `step ${at}`, values.map(({name, i, point}) => el("span", {},
      el("svg", {viewBox: "0 0 24 8", width: 24, height: 8, "aria-hidden": "true"},
        el("path", {class: `run${i % 6}`, d: "M0 4H24"})), ` ${name} `, el("b", {}, point ? number(point[1]) : "–")))),
    log && lines.some(({left}) => left > 0) ?
      el("p", {class: "soft"}, "Values of 0 and below are not drawn on this scale.") : null);
}

// The least and the largest value of an axis, both finite, above 0 where it is logarithmic.
export function range(lines, log) {
  const [low, high] = withMargin(lines, log);
  return log ? [Math.max(Number.MIN_VALUE, low), Math.min(Number.MAX_VALUE, high)] :
    [Math.max(-kMost, low), Math.min(kMost, high)];
}

function withMargin(lines, log) {
  let low = Infinity, high = -Infinity;
  for (const {points} of lines) {
    for (const [, value] of points) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (!log) [low, high] = [low, high].map((value) => Math.min(kMost, Math.max(-kMost, value)));
  // Smoothing a value that stays the same leaves it but for rounding.
  if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {
    return log ? [low / 2, high * 2] : [low - (Math.abs(low) / 2 || 1), high + (Math.abs(high) / 2 || 1)];
  }
  const margin = log ? 10 ** ((Math.log10(high) - Math.log10(low)) * 0.04) : (high - low) * 0.04;
  return log ? [low / margin, high * margin] : [low - margin, high + margin];
}

export function ticks(low, high, log) {
  if (log && high / low >= 10) {
    const all = [];
    for (let e = Math.max(-323, Math.ceil(Math.log10(low))); e <= 308 && 10 ** e <= high; ++e) all.push(10 ** e);
    const every = Math.ceil(all.length / 6);
    return all.filter((_, i) => i % every === 0);
  }
  const rough = (high - low) / 4 || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const stride = unit * [1, 2, 5, 10].find((factor) => unit * factor >= rough);
  const all = [];
  for (let i = Math.ceil(low / stride); i * stride <= high && all.length < kMostTicks; ++i) {
    all.push(Number((i * stride).toPrecision(12)));
  }
  return all;
}

const path = (points, x, y) => points.map(([step, value], i) =>
  `${i === 0 ? "M" : "L"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");

// A label at the end of an axis stays within the picture.
function anchor(x, text, width) {
  const half = text.length * 3.6;  // pixels
  return x - half < 0 ? "start" : x + half > width - 2 ? "end" : "middle";
}

function nearest(points, step) {
  if (points.length === 0) return null;
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < step) low = middle + 1;
    else high = middle;
  }
  const before = points[Math.max(0, low - 1)];
  return Math.abs(before[0] - step) <= Math.abs(points[low][0] - step) ? before : points[low];
}
