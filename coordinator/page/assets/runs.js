// The numbers that a job has written to metrics.jsonl, each step once: an attempt that begins anew writes a file of its
// own, which does again the steps that were lost.
import {get, jobPath} from "./api.js";
import {isFinal} from "./text.js";

const kMostPoints = 20000;  // of one metric: then every second one goes
const kMostRequests = 8;    // of one load, of 1 MiB each
const kMostMetrics = 200;
const kBetweenLooks = 10000, kAfterError = 4000, kLongest = 60000;  // milliseconds
const kNoMetrics = new Set(["type", "step", "epoch", "samples", "correct", "skipped"]);

export class Series {
  points = [];  // [step, value]
  #stride = 1;
  #skipped = 0;

  add(step, value) {
    if (++this.#skipped < this.#stride) return;
    this.#skipped = 0;
    this.points.push([step, value]);
    if (this.points.length <= kMostPoints) return;
    this.points = this.points.filter((_, i) => i % 2 === 0);
    this.#stride *= 2;
  }
}

export class Run {
  series = new Map();  // by metric: "loss", "validation.loss"
  error = "";
  ended = false;   // the job
  #whole = false;  // all that there was when it had ended has been read
  #errors = 0;     // one after another
  #nextLoad = 0;   // not before
  #nextLook = 0;
  #epoch = 0;
  #next = 0;
  #lastStep = new Map();  // taken, by type
  #at = 0;

  constructor(job) {
    this.job = job;
  }

  // Whether the job has ended, asked seldom.
  async look() {
    if (this.ended && this.#whole || Date.now() < this.#nextLook) return;
    this.#nextLook = Date.now() + kBetweenLooks;
    try {
      this.ended = isFinal((await get(jobPath(this.job))).described.job.state);
    } catch (error) {
      if (error.status === 401) throw error;
    }
  }

  // Reads all of a job that has ended once; after errors it waits ever longer.
  async load() {
    const {ended} = this;
    if (ended && this.#whole || Date.now() < this.#nextLoad) return;
    this.#whole = false;
    try {
      for (let i = 0; i < kMostRequests; ++i) {
        const answer = await get(jobPath(this.job) + "/metrics", {from: this.#next, epoch: this.#epoch});
        this.#epoch = answer.epoch;
        this.#next = answer.next;
        for (const line of answer.text.split("\n")) this.#take(line);
        this.error = "";
        this.#errors = 0;
        const whole = answer.next >= answer.total;
        const done = whole || answer.text === "";
        this.#whole = ended && done;
        if (done) return;
      }
    } catch (error) {
      if (error.status === 401) throw error;
      this.error = error.message;
      this.#whole = ended && error.status === 404;  // it has written none
      this.#nextLoad = Date.now() + Math.min(kLongest, kAfterError * 2 ** this.#errors++);
    }
  }

  #take(line) {
    if (line === "") return;
    let values;
    try {
      values = JSON.parse(line);
    } catch {
      return;
    }
    if (values === null || typeof values !== "object" || typeof values.type !== "string") return;
    const {type} = values;
    if (Number.isInteger(values.step)) {
      if (values.step <= (this.#lastStep.get(type) ?? -1)) return;
      this.#lastStep.set(type, values.step);
      this.#at = Math.max(this.#at, values.step);
    }
    const step = Number.isInteger(values.step) ? values.step : this.#at;
    const prefix = type === "step" ? "" : type + ".";
    for (const [name, value] of Object.entries(values)) {
      if (typeof value === "number" && !kNoMetrics.has(name)) this.#add(prefix + name, step, value);
    }
    const seconds = values.t_comp + values.t_sync;
    if (type === "step" && seconds > 0) this.#add("steps_per_second", step, 1 / seconds);
  }

  #add(name, step, value) {
    if (!this.series.has(name)) {
      if (this.series.size >= kMostMetrics) return;
      this.series.set(name, new Series());
    }
    this.series.get(name).add(step, value);
  }
}

// An exponential mean, as TensorBoard's: `weight` from 0 (none) to below 1; the first values are not drawn to 0.
export function smoothed(points, weight) {
  if (!(weight > 0)) return points;
  let sum = 0, count = 0;
  return points.map(([step, value]) => {
    if (!Number.isFinite(value)) return [step, value];
    sum = sum * weight + (1 - weight) * value;
    ++count;
    return [step, sum / (1 - weight ** count)];
  });
}

// At most two points for each of `columns` parts of the axis, the least and the most there: no peak is lost.
export function thinned(points, columns) {
  if (points.length <= 2 * columns) return points;
  const first = points[0][0], last = points.at(-1)[0];
  const width = (last - first) / columns || 1;
  const kept = [];
  let column = -1, least = null, most = null;
  const flush = () => {
    if (least === null) return;
    if (least === most) kept.push(least);
    else kept.push(...(least[0] <= most[0] ? [least, most] : [most, least]));
  };
  for (const point of points) {
    const at = Math.floor((point[0] - first) / width);
    if (at !== column) {
      flush();
      column = at;
      least = most = null;
    }
    if (!Number.isFinite(point[1])) continue;
    if (least === null || point[1] < least[1]) least = point;
    if (most === null || point[1] > most[1]) most = point;
  }
  flush();
  return kept;
}
