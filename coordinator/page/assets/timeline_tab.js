// What each rank did in a step, from the traces of a job: those that it made and those that are asked for here.
import {act, get, jobPath} from "./api.js";
import {el, table} from "./dom.js";
import {kKinds, linksLeftOut, span, textOf, timeline, timesOf, within, zoomed} from "./timeline.js";
import {bytes} from "./text.js";

const kTrace = /^trace-(\d+)-(\d+)\.pftrace$/;
const kMostRanks = 16;   // in one picture
const kMostSteps = 1000;
const kFrame = 18;       // pixels around the picture, as style.css has it
const kAnswerTime = 90000;  // milliseconds; the coordinator gives the job 60 s

export class TimelineTab {
  files = new Set();
  file = "";       // that is shown; empty: none yet
  step = 0;
  first = 0;       // rank
  data = null;
  loaded = "";     // what `data` is of, or the error
  error = "";
  gone = "";       // why the trace that was asked for does not come
  asked = null;    // {id, epoch, at, heard} of the trace that was asked for here
  steps = 5;

  constructor(context, job) {
    this.context = context;
    this.job = job;
  }

  async load({described, may_read: mayRead}) {
    if (!mayRead) return;
    const trace = described.job.progress?.trace ?? {};
    for (const name of [...described.artifact, trace.file ?? ""]) {
      if (kTrace.test(name)) this.files.add(name);
    }
    const own = this.asked !== null && trace.request_id === this.asked.id;
    if (own && trace.file) {
      this.asked = null;
      this.choose(trace.file);
    } else if (this.file === "" && this.files.size > 0) {
      this.choose(trace.file || [...this.files].at(-1));
    }
    this.lookForAsked(described.job, own);
    const wanted = `${this.file} ${this.step} ${this.first}`;
    if (this.file === "" || this.loaded === wanted) return;
    let data = null, error = "", again = false;
    try {
      data = await get(jobPath(this.job) + "/timeline", {file: this.file, step: this.step, first_rank: this.first,
        ranks: Math.max(1, Math.min(kMostRanks, described.job.ranks - this.first))});
    } catch (failed) {
      if (failed.status === 401) throw failed;
      error = failed.message;
      again = [429, 503].includes(failed.status);
    }
    if (wanted !== `${this.file} ${this.step} ${this.first}`) return;
    Object.assign(this, {data, error, loaded: again ? "" : wanted, view: {begin: 0, end: data?.length_ns ?? 1},
      at: {track: 0, index: 0}});
  }

  // A trace that will not come any more is asked for no longer: with its attempt it is gone, a later one may take its
  // place, and what asks for it may be lost.
  lookForAsked(job, own) {
    const {asked} = this;
    if (asked === null) return;
    if (own) asked.heard = true;
    const gone = (job.epoch ?? 0) !== asked.epoch ? "the job began anew" : asked.heard && !own ? "another one was asked for" :
      !own && Date.now() - asked.at > kAnswerTime ? "the job does not answer" : "";
    if (gone === "") return;
    this.asked = null;
    this.gone = `no trace: ${gone}`;
  }

  choose(file) {
    this.file = file;
    this.step = Number(kTrace.exec(file)[1]);
    this.first = 0;
  }

  set(fields) {
    Object.assign(this, fields);
    this.context.draw();
    this.context.reload();
  }

  async ask(epoch) {
    try {
      const {request_id: id} = await act(this.job, "trace", {steps: this.steps});
      this.asked = {id, epoch, at: Date.now(), heard: false};
      this.gone = "";
      this.context.acted(null, `a trace of ${this.job} is asked for`);
    } catch (error) {
      this.context.acted(error, "");
    }
  }

  nodes({described, may_change: mayChange, may_read: mayRead}) {
    const {job} = described;
    return [el("h2", {}, "Timeline"), this.request(job, mayChange),
      mayRead ? null : el("p", {class: "soft"}, "Only the owner of the job and admins may see its traces."),
      mayRead && this.files.size === 0 ? el("p", {class: "soft"}, "There is no trace yet. A trace shows some steps of ",
        "all ranks on a time line: what each computes, what it moves and whom it waits for.") : null,
      mayRead && this.files.size > 0 ? this.choice(job) : null,
      this.error ? el("p", {class: "warning"}, this.error, " ", el("button", {type: "button", onclick: () =>
        this.set({loaded: ""})}, "try again")) : null,
      ...(this.data === null ? [] : this.picture())];
  }

  // The form that asks for a trace, and what has become of it.
  request(job, mayChange) {
    if (job.state !== "RUNNING" || !mayChange) return null;
    const trace = job.progress?.trace ?? {};
    const own = this.asked !== null && trace.request_id === this.asked.id;
    const told = this.asked === null ? this.gone : own && trace.error ? `no trace: ${trace.error}` :
      own && Number(trace.first_step) > 0 ? `steps ${trace.first_step} to ${trace.last_step} are traced …` :
        "asked: it begins after one of the next steps …";
    const waits = this.asked !== null && !(own && trace.error);
    return el("form", {class: "choice", onsubmit: (event) => {
      event.preventDefault();
      this.ask(job.epoch ?? 0);
    }}, el("label", {}, "Trace the next ", el("input", {name: "steps", type: "number", min: 1, max: kMostSteps,
      value: this.steps, required: true, onchange: (event) => {
        this.steps = Math.min(kMostSteps, Math.max(1, Math.round(Number(event.target.value)) || 1));
      }}), " steps"), el("button", {type: "submit", disabled: waits}, "trace"),
    el("span", {class: this.gone || own && trace.error ? "warning" : "soft"}, told));
  }

  choice(job) {
    const [, begin, end] = kTrace.exec(this.file) ?? ["", "1", "1"];
    const steps = Array.from({length: Math.min(kMostSteps, Number(end) - Number(begin) + 1)}, (_, i) => Number(begin) + i);
    const pages = Array.from({length: Math.ceil(job.ranks / kMostRanks)}, (_, i) => i * kMostRanks);
    const option = (value, text, chosen) => el("option", {value, selected: value === chosen}, text);
    return el("form", {class: "choice", onsubmit: (event) => event.preventDefault()},
      el("label", {}, "Trace ", el("select", {name: "file", value: this.file, onchange: (event) => {
        this.choose(event.target.value);
        this.set({});
      }}, [...this.files].map((name) => option(name, name, this.file)))),
      el("label", {}, "Step ", el("select", {name: "step", value: this.step, onchange: (event) =>
        this.set({step: Number(event.target.value)})}, steps.map((step) => option(step, step, this.step)))),
      pages.length < 2 ? null : el("label", {}, "Ranks ", el("select", {name: "ranks", value: this.first,
        onchange: (event) => this.set({first: Number(event.target.value)})}, pages.map((first) =>
        option(first, `${first} to ${Math.min(job.ranks, first + kMostRanks) - 1}`, this.first)))));
  }

  picture() {
    const {data, view, at} = this;
    if (data.rank.length === 0) {
      return [el("p", {class: "soft"}, "The trace has nothing of these ranks in this step."), ...this.leftOut()];
    }
    const style = getComputedStyle(document.getElementById("main"));
    const width = Math.max(200, document.getElementById("main").clientWidth - parseFloat(style.paddingLeft) * 2 - kFrame);
    const change = ({view: seen, at: told}) => {
      this.view = seen;
      this.at = told;
      this.context.draw();
    };
    const middle = (view.begin + view.end) / 2, wide = view.end - view.begin;
    const shift = (part) => within({begin: view.begin + part * wide, end: view.end + part * wide}, data.length_ns);
    const button = (name, next) => el("button", {type: "button", onclick: () => change({at, view: next()})}, name);
    return [
      el("p", {class: "soft"}, `The step takes ${span(data.length_ns)}. `, data.clock_error_ns > 0 ?
        `Times of two ranks may differ by up to ${span(data.clock_error_ns)}: what is nearer to each other may have ` +
        "happened in the other order." : "All ranks have one clock."),
      el("p", {class: "actions", role: "group", "aria-label": "Part of the step"},
        button("zoom in", () => zoomed(view, middle, 0.5, data.length_ns)),
        button("zoom out", () => zoomed(view, middle, 2, data.length_ns)),
        button("earlier", () => shift(-0.5)), button("later", () => shift(0.5)),
        button("whole step", () => ({begin: 0, end: data.length_ns}))),
      el("figure", {class: "chart", "data-key": "timeline figure"}, timeline({data, width, view, at, change}),
        el("p", {class: "legend kinds"}, kKinds.map((kind) => el("span", {}, el("svg", {viewBox: "0 0 24 12", width: 24,
          height: 12, "aria-hidden": "true"}, el("rect", {class: kind, x: 1, y: 1, width: 22, height: 10,
          fill: kind === "wait" ? "url(#waits)" : null})), ` ${kTexts[kind]}`)),
        el("span", {}, "→ message")),
        el("p", {class: "told"}, textOf(data, at))),
      ...this.leftOut(),
      el("p", {class: "soft"}, "Keys: left and right go from one box to the next, up and down to other ranks, + and − zoom, ",
        "page up and page down move, 0 shows the whole step. A pointer moves the picture; a double click zooms, as the ",
        "wheel does with Ctrl. ", el("code", {}, `adjoin get ${this.job} ${this.file}`), " fetches the file for Perfetto."),
      this.sums()];
  }

  leftOut() {
    const {data, view} = this, left = [];
    if (data.slices_left_out > 0) left.push(`${data.slices_left_out} boxes of at most ${span(data.shorter_than_ns)}`);
    if (data.messages_left_out > 0) left.push(`${data.messages_left_out} messages`);
    if (linksLeftOut(data, view) > 0) left.push(`${linksLeftOut(data, view)} of the shorter arrows: zoom in to see them`);
    if (data.bytes_left_out > 0) left.push(`the last ${bytes(data.bytes_left_out)} of the file, with further ranks`);
    if (data.events_dropped > 0) left.push(`${data.events_dropped} events, for which ranks had no room: trace fewer steps`);
    return left.length === 0 ? [] : [el("p", {class: "warning"}, "Left out: " + left.join("; ") + ".")];
  }

  // The same as numbers.
  sums() {
    const share = (part, all) => `${span(part)} · ${Math.round(100 * part / Math.max(1, all))} %`;
    return table("What each rank did", [{name: "Rank", number: true}, {name: "Computing", number: true},
      {name: "Moving", number: true}, {name: "Waiting", number: true}, {name: "Files", number: true},
      {name: "Other", number: true}], timesOf(this.data).map(({rank, sums: [other, layer, movement, wait, file]}) =>
      ({key: `rank ${rank}`, cells: [rank, ...[layer, movement, wait, file, other].map((part) =>
        share(part, other + layer + movement + wait + file))]})));
  }
}

const kTexts = {step: "step, optimizer", layer: "layer", movement: "movement", wait: "waits", file: "files"};
