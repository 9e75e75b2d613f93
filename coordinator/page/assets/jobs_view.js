// All jobs, in pages.
import {get} from "./api.js";
import {el, table} from "./dom.js";
import {buttonsOf, jobLink, progressOf, progressText, stateOf} from "./parts.js";
import {kStates, time} from "./text.js";

const kPageSize = 50;

export class JobsView {
  title = "Jobs";
  answer = null;
  before = [];  // the tokens of the pages before this one

  constructor(context, {query}) {
    this.context = context;
    this.token = "";
    this.state = query.get("state") ?? "";
    this.owner = query.get("owner") ?? "";
  }

  // Another choice of the same view.
  goTo({query}) {
    this.state = query.get("state") ?? "";
    this.owner = query.get("owner") ?? "";
    this.token = "";
    this.before = [];
    return true;
  }

  async load() {
    const {token, state, owner} = this;
    const query = {page_size: kPageSize, page_token: token, state, owner};
    const [jobs, workers] = await Promise.all([get("/api/jobs", query), get("/api/workers", {count: 0})]);
    if (token !== this.token || state !== this.state || owner !== this.owner) return;  // others were chosen meanwhile
    this.answer = jobs;
    this.workers = workers;
  }

  choose(state, owner) {
    const set = new URLSearchParams(Object.entries({state, owner}).filter(([, value]) => value !== ""));
    location.hash = "#/jobs" + (String(set) ? "?" + set : "");
  }

  // `token`: of another page.
  turn(token, before) {
    this.token = token;
    this.before = before;
    this.context.reload();
  }

  nodes() {
    return [
      el("h1", {}, "Jobs"),
      el("form", {class: "choice", onsubmit: (event) => event.preventDefault()},
        el("label", {}, "State ", el("select", {onchange: (event) => this.choose(event.target.value, this.owner)},
          ["", "pending,starting,running", ...kStates].map((state) =>
            el("option", {value: state, selected: state === this.state},
              state === "" ? "all" : state.includes(",") ? "not ended" : state)))),
        el("label", {}, "Owner ", el("input", {type: "search", value: this.owner, size: 12, maxlength: 64,
          autocomplete: "off", onchange: (event) => this.choose(this.state, event.target.value.trim())})),
        this.context.me?.name ? el("button", {type: "button",
          onclick: () => this.choose(this.state, this.context.me.name)}, "mine") : null),
      ...this.list()];
  }

  list() {
    const answer = this.answer;
    if (answer === null) return [el("p", {class: "soft"}, "Loading …")];
    const jobs = answer.job;
    const {free_slots: free, slots, total: workers} = this.workers;
    const rows = jobs.map((job) => ({key: job.job_id, cells: [
      el("a", {href: jobLink(job.job_id)}, job.job_id), job.name, stateOf(job),
      progressCell(job),
      job.ranks, job.owner, time(job.submitted_unix_ms), this.mayChange(job) ? buttonsOf(job, this.context.acted) : ""]}));
    const first = this.before.length * kPageSize;
    return [
      answer.notice ? el("p", {class: "warning"}, answer.notice) : null,
      el("p", {class: "soft"}, `${answer.total_jobs} ${answer.total_jobs === "1" ? "job" : "jobs"}; ` +
        `${workers} ${workers === 1 ? "worker" : "workers"}, ${free} of ${slots} slots free`),
      table("Jobs", [{name: "Job"}, {name: "Name", wide: true}, {name: "State"}, {name: "Progress", wide: true},
        {name: "Ranks", number: true}, {name: "Owner"}, {name: "Submitted"}, {name: "Actions"}], rows),
      el("nav", {class: "pages", "aria-label": "Pages of jobs"},
        el("button", {type: "button", disabled: this.before.length === 0,
          onclick: () => this.turn(this.before.at(-1), this.before.slice(0, -1))}, "previous"),
        el("span", {}, jobs.length === 0 ? "none" : `${first + 1} to ${first + jobs.length}`),
        el("button", {type: "button", disabled: answer.next_page_token === "",
          onclick: () => this.turn(answer.next_page_token, [...this.before, this.token])}, "next"))];
  }

  // Whether the buttons are worth showing; the coordinator decides.
  mayChange(job) {
    const me = this.context.me;
    return me.local || me.role === "admin" || (me.role === "user" && me.name === job.owner);
  }
}

function progressCell(job) {
  const why = job.state === "PENDING" || job.state === "FAILED" || job.state === "CANCELLED";
  const place = job.queue_position > 0 ? `${job.queue_position}. in the queue: ` : "";
  const text = why ? place + job.reason : progressText(job);
  const bar = progressOf(job);
  return bar === "" && text === "" ? "" : [bar, el("span", {class: "soft"}, text)];
}
