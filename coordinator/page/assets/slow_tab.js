// Who makes a step longer than it would be: the table that `adjoin describe` shows, and how long each rank computed each
// layer beside the median of the ranks, from the lines of type "slow" in metrics.jsonl.
import {get, jobPath} from "./api.js";
import {el, table} from "./dom.js";
import {isFinal, millis, number} from "./text.js";

const kPiece = 1 << 20, kMostPieces = 8;  // of metrics.jsonl, from its end backwards
const kOverlap = 1 << 17;                 // a line is shorter
const kBetween = 5000, kLongest = 60000;  // milliseconds
const kLabel = 130, kRow = 22, kHead = 20, kLetter = 6.6, kFrame = 18;  // pixels
// Of the ratio to the median: the class of a cell, from below.
const kLevels = [[0.8, "faster"], [1.25, "alike"], [1.5, "slower"], [2, "slow"], [Infinity, "slowest"]];

export class SlowTab {
  line = null;
  of = "";     // the step that was looked for
  at = {rank: 0, layer: 0};
  next = 0;    // not before
  errors = 0;  // one after another
  error = "";
  looked = false;

  constructor(context, job) {
    this.context = context;
    this.job = job;
  }

  async load({described, may_read: mayRead}) {
    const {step, replayed_seconds: replayed} = described.job.progress?.layer_times ?? {};
    // Without a replayed step there are no such lines.
    if (!mayRead || step === undefined || !(replayed > 0) || step === this.of || Date.now() < this.next) return;
    this.next = Date.now() + kBetween;
    let line = null;
    try {
      line = await this.lastLine();
      this.error = "";
      this.errors = 0;
    } catch (error) {
      if (error.status === 401) throw error;
      this.error = error.message;
      this.next = Date.now() + Math.min(kLongest, kBetween * 2 ** this.errors++);
      if (error.status === 404 && isFinal(described.job.state)) this.of = step;  // it has written none
      return;
    }
    this.looked = true;
    if (line === null) return;
    this.line = line;
    // A newer line may not be in the file yet.
    if (Number(line.step) >= Number(step)) this.of = step;
    const last = {rank: this.ranks() - 1, layer: line.computed_layer.length - 1};
    this.at = {rank: Math.min(this.at.rank, last.rank), layer: Math.min(this.at.layer, last.layer)};
  }

  // The newest line of type "slow" of the last pieces of the file.
  async lastLine() {
    const path = jobPath(this.job) + "/metrics";
    let {epoch, total} = await get(path, {most: 1});
    for (let i = 0, end = total; i < kMostPieces && end > 0; ++i) {
      const from = Math.max(0, end - kPiece);
      const answer = await get(path, {from, epoch});
      if (answer.epoch !== epoch) return null;
      const found = answer.text.split("\n").findLast((text) => text.startsWith('{"type": "slow"'));
      if (found !== undefined) return checked(found);
      end = from === 0 ? 0 : from + kOverlap;
    }
    return null;
  }

  ranks() {
    return this.line.computed_seconds.length / this.line.computed_layer.length;
  }

  nodes({described, may_read: mayRead}) {
    const times = described.job.progress?.layer_times;
    if (!times || !(times.replayed_seconds > 0)) {
      return [el("h2", {}, "Who is slow"), el("p", {class: "soft"}, "Nothing was measured yet. A job of several ranks ",
        "finds out what makes its steps longer where it measures its layers: ",
        el("code", {}, "train { measure_layers_every: 50 }"), ".")];
    }
    return [el("h2", {}, "Who is slow"), ...this.parts(times),
      mayRead ? el("h2", {}, "Ranks and layers") : null,
      mayRead && this.line !== null ? this.picture() : mayRead && this.looked ?
        el("p", {class: "soft"}, "The end of metrics.jsonl has no measured step.") : null,
      mayRead && this.error ? el("p", {class: "warning"}, this.error) : null];
  }

  parts(times) {
    const cost = (part) => `${Math.round(100 * part.cost_seconds / times.replayed_seconds)} %`;
    if (times.slow.length === 0) {
      return [el("p", {}, `In step ${times.step} no rank, link or reading costs 1 % of it beyond the median of its like.`)];
    }
    return [
      el("p", {class: "soft"}, `Step ${times.step}, which took ${millis(times.step_seconds)}: what it would be shorter by, `,
        "were this as the median of its like."),
      table("Who is slow", [{name: "Slow"}, {name: "Costs", number: true}, {name: "Of the step", number: true},
        {name: "Why", wide: true}], times.slow.map((part) => ({key: `${part.kind} ${where(part)}`,
        cells: [where(part), millis(part.cost_seconds), cost(part), why(part)]})))];
  }

  picture() {
    const {line, at} = this, ranks = this.ranks(), layers = line.computed_layer;
    const main = document.getElementById("main");
    const room = main.clientWidth - parseFloat(getComputedStyle(main).paddingLeft) * 2 - kFrame;
    const cell = Math.max(5, Math.min(56, Math.floor((room - kLabel) / ranks)));
    const width = kLabel + cell * ranks + 2, height = kHead + kRow * layers.length + 2;
    const told = this.told(at);
    const every = Math.max(1, Math.ceil((String(ranks).length * kLetter + 6) / cell));
    const go = (rank, layer) => {
      this.at = {rank: Math.min(ranks - 1, Math.max(0, rank)), layer: Math.min(layers.length - 1, Math.max(0, layer))};
      this.context.draw();
    };
    return el("figure", {class: "chart", "data-key": "heat"},
      el("figcaption", {}, `What each rank computed in step ${line.step}, as a multiple of the median of the ranks`),
      el("div", {class: "heat", tabindex: 0, role: "slider", "aria-label": "ranks and layers", "aria-valuemin": 0,
        "aria-valuemax": ranks * layers.length - 1, "aria-valuenow": at.layer * ranks + at.rank, "aria-valuetext": told,
        onkeydown: (event) => {
          const to = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-ranks, 0],
            End: [ranks, 0]}[event.key];
          if (to === undefined) return;
          event.preventDefault();
          go(at.rank + to[0], at.layer + to[1]);
        },
        onpointermove: (event) => {
          const box = event.currentTarget.firstElementChild.getBoundingClientRect();
          const rank = Math.floor((event.clientX - box.left - kLabel) / cell);
          const layer = Math.floor((event.clientY - box.top - kHead) / kRow);
          if (rank >= 0 && layer >= 0 && rank < ranks && layer < layers.length &&
            (rank !== this.at.rank || layer !== this.at.layer)) go(rank, layer);
        }},
      el("svg", {viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true"},
        Array.from({length: ranks}, (_, rank) => (rank % every === 0 ? el("text", {class: "tick", y: 14,
          x: kLabel + cell * (rank + 0.5), "text-anchor": "middle"}, rank) : null)),
        el("text", {class: "tick", x: 0, y: 14}, "rank"),
        layers.map((name, layer) => [el("text", {class: "name", x: 0, y: kHead + kRow * layer + 15},
          name.length * kLetter > kLabel - 8 ? name.slice(0, Math.floor((kLabel - 8) / kLetter) - 1) + "…" : name),
        Array.from({length: ranks}, (_, rank) => this.cell(rank, layer, cell))]),
        el("rect", {class: "chosen", x: kLabel + cell * at.rank, y: kHead + kRow * at.layer, width: cell - 1,
          height: kRow - 1}))),
      el("p", {class: "told"}, told),
      line.computed_left_out > 0 ? el("p", {class: "soft"},
        `${line.computed_left_out} layers that deviate less are left out.`) : null);
  }

  cell(rank, layer, wide) {
    const {seconds, median} = this.times(rank, layer);
    if (!(seconds > 0)) return null;
    const ratio = median > 0 ? seconds / median : 1;  // 1: no other rank computes it
    const [, level] = kLevels.find(([most]) => ratio < most);
    const x = kLabel + wide * rank, y = kHead + kRow * layer;
    return [el("rect", {class: level, x, y, width: wide - 1, height: kRow - 1}),
      wide >= 30 && median > 0 ? el("text", {class: "inside", x: x + wide / 2, y: y + 15, "text-anchor": "middle"}, ratio.toFixed(1)) : null];
  }

  times(rank, layer) {
    const i = rank * this.line.computed_layer.length + layer;
    return {seconds: this.line.computed_seconds[i], median: this.line.computed_median_seconds[i]};
  }

  told({rank, layer}) {
    const {seconds, median} = this.times(rank, layer), name = this.line.computed_layer[layer];
    if (!(seconds > 0)) return `rank ${rank} computes nothing of ${name}`;
    return `rank ${rank}: ${name} in ${millis(seconds)}` +
      (median > 0 ? `, ${number(seconds / median)} times the median (${millis(median)})` : ", as no other rank does");
  }
}

// A line that has all numbers of its picture, or null.
function checked(text) {
  let line;
  try {
    line = JSON.parse(text);
  } catch {
    return null;
  }
  const {computed_layer: layers, computed_seconds: seconds, computed_median_seconds: medians} = line;
  const whole = Array.isArray(layers) && Array.isArray(seconds) && Array.isArray(medians) && layers.length > 0 &&
    seconds.length > 0 && seconds.length % layers.length === 0 && medians.length === seconds.length &&
    layers.every((name) => typeof name === "string");
  return whole ? line : null;
}

const where = (part) => (part.kind === "SLOW_LINK" ? `rank ${part.rank} to rank ${part.peer}` : `rank ${part.rank}`);

// "computes enc1.conv1 in 12.000 ms, 1.8 times the median (6.667 ms)"
function why(part) {
  const what = part.kind === "SLOW_LINK" ? "messages take" : part.kind === "SLOW_DATA" ? "reads its data in" :
    part.layer ? `computes ${part.layer} in` : "is late with messages of several ranks, which take";
  const than = part.median_seconds > 0 ? `, ${(part.seconds / part.median_seconds).toFixed(1)} times the median ` +
    `(${millis(part.median_seconds)})` : "";
  return `${what} ${millis(part.seconds)}${than}`;
}
