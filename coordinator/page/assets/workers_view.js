// The nodes, and what runs on them.
import {get, jobPath} from "./api.js";
import {el, table} from "./dom.js";
import {jobLink} from "./parts.js";
import {bytes, duration, number} from "./text.js";

const kPageSize = 50;
const kMostJobs = 20;  // whose ranks are looked for

export class WorkersView {
  title = "Workers";
  answer = null;
  from = 0;
  ranks = null;  // by worker; null: not asked for

  constructor(context) {
    this.context = context;
  }

  async load() {
    this.answer = await get("/api/workers", {from: this.from, count: kPageSize});
    if (this.ranks !== null) await this.find();
  }

  // Which ranks run where, and over which lanes they reach each other.
  async find() {
    const {job, total_jobs: total} = await get("/api/jobs", {state: "starting,running", page_size: kMostJobs});
    const found = new Map();
    for (const {job_id: id} of job) {
      const answer = await get(jobPath(id)).catch((error) => {
        if (error.status !== 404) throw error;  // else it was removed meanwhile
      });
      for (const rank of answer?.described.rank ?? []) {
        if (!found.has(rank.worker)) found.set(rank.worker, []);
        found.get(rank.worker).push({...rank, job: answer.described.job.job_id});
      }
    }
    this.ranks = found;
    this.leftOut = Math.max(0, Number(total) - job.length);
  }

  turn(from) {
    this.from = from;
    this.context.reload();
  }

  nodes() {
    if (this.answer === null) return [el("h1", {}, "Workers"), el("p", {class: "soft"}, "Loading …")];
    const {worker: workers, total, slots, free_slots: free} = this.answer;
    const memory = workers.some(({memory_bytes: count}) => Number(count) > 0);
    const gpus = workers.some((worker) => worker.gpus > 0);
    const columns = [{name: "Worker"}, {name: "Address"}, {name: "State"}, {name: "Slots in use"},
      ...(memory ? [{name: "Memory promised"}] : []), ...(gpus ? [{name: "GPUs in use", number: true}] : []),
      {name: "Speed", number: true}, {name: "Heartbeat", number: true}, {name: "Condition", wide: true}];
    const rows = workers.map((worker) => ({key: worker.name, cells: [worker.name, worker.address,
      el("span", {class: "state worker-" + worker.state}, worker.state),
      use(worker.slots - worker.free_slots, worker.slots, String),
      ...(memory ? [use(worker.memory_bytes - worker.free_memory_bytes, worker.memory_bytes, bytes)] : []),
      ...(gpus ? [`${worker.gpus - worker.free_gpus} of ${worker.gpus}`] : []),
      worker.rate > 0 ? number(worker.rate) : "–", duration(worker.heartbeat_age_seconds) + " ago", worker.condition]}));
    return [
      el("h1", {}, "Workers"),
      el("p", {class: "soft"}, `${total} ${total === 1 ? "worker" : "workers"}, ${free} of ${slots} slots free`),
      table("Workers", columns, rows),
      total > kPageSize ? el("nav", {class: "pages", "aria-label": "Pages of workers"},
        el("button", {type: "button", disabled: this.from === 0,
          onclick: () => this.turn(Math.max(0, this.from - kPageSize))}, "previous"),
        el("span", {}, `${this.from + 1} to ${this.from + workers.length}`),
        el("button", {type: "button", disabled: this.from + workers.length >= total,
          onclick: () => this.turn(this.from + kPageSize)}, "next")) : null,
      el("h2", {}, "Ranks and lanes"),
      this.ranks === null ? el("button", {type: "button", onclick: () => {
        this.ranks = new Map();
        this.context.reload();
      }}, "show which ranks run where") : this.places(workers)];
  }

  places(workers) {
    const rows = workers.flatMap(({name}) => (this.ranks.get(name) ?? []).map((rank) =>
      ({key: `${rank.job} ${rank.rank}`, cells: [name, el("a", {href: jobLink(rank.job, "ranks")}, rank.job), rank.rank,
        rank.state, rank.gpu ? `${rank.gpu.index} ${rank.gpu.name}` : "–", rank.transport]})));
    return [rows.length === 0 ? el("p", {class: "soft"}, "No rank runs on these workers.") :
      table("Ranks on workers", [{name: "Worker"}, {name: "Job"}, {name: "Rank", number: true}, {name: "State"},
        {name: "GPU"}, {name: "Lanes", wide: true}], rows),
    this.leftOut > 0 ? el("p", {class: "soft"}, `Of ${kMostJobs} jobs; ${this.leftOut} more run.`) : null];
  }
}

const use = (used, all, text) => (Number(all) > 0 ? el("span", {class: "use"},
  el("meter", {min: 0, max: Number(all), value: used, "aria-hidden": "true"}),
  el("span", {}, `${text(used)} of ${text(all)}`)) : "–");
