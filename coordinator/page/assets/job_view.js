// One job: what it does now, and tabs with all else of it. A further tab is a line of kTabs and a module beside this
// one: a class with load() and nodes(), as a view has, made once for a job and given its newest description.
import {get, jobPath} from "./api.js";
import {CurvesTab} from "./curves_tab.js";
import {el, facts} from "./dom.js";
import {EventsTab} from "./events_tab.js";
import {LogsTab} from "./logs_tab.js";
import {buttonsOf, jobLink, progressOf, progressText, stateOf} from "./parts.js";
import {PlanTab} from "./plan_tab.js";
import {RanksTab} from "./ranks_tab.js";
import {SlowTab} from "./slow_tab.js";
import {time} from "./text.js";
import {TimelineTab} from "./timeline_tab.js";

const kTabs = [["curves", "Curves", CurvesTab], ["ranks", "Ranks", RanksTab],
  ["timeline", "Timeline", TimelineTab], ["slow", "Who is slow", SlowTab], ["plan", "Plan", PlanTab],
  ["logs", "Logs", LogsTab], ["events", "Events", EventsTab]];

export class JobView {
  answer = null;
  job = "";  // the id of the job that is shown; `id` may be a name, which comes to mean a later job
  tabs = {};

  constructor(context, {parts}) {
    this.context = context;
    this.id = parts[0];
    this.title = this.id;
    this.choose(parts[1]);
  }

  // Another tab of the same job.
  goTo({parts}) {
    if (parts[0] !== this.id) return false;
    this.choose(parts[1]);
    return true;
  }

  choose(name) {
    [this.tab] = kTabs.find(([known]) => known === name) ?? kTabs[0];
    if (this.job !== "") this.make();
  }

  make() {
    const [, , Tab] = kTabs.find(([key]) => key === this.tab);
    this.tabs[this.tab] ??= new Tab(this.context, this.job);
  }

  // The tab, once the job is known.
  get part() {
    return this.tabs[this.tab];
  }

  async load() {
    const {part} = this;
    const answer = await get(jobPath(this.id), {ranks_from: this.tabs.ranks?.from || ""});
    const job = answer.described.job.job_id;
    if (part !== this.part) return;  // another one was chosen meanwhile, and is loaded
    this.answer = answer;
    this.title = job;
    if (job !== this.job) {
      this.job = job;
      this.tabs = {};
      this.make();
      this.context.draw();
      this.context.reload();  // the tab
      return;
    }
    this.context.draw();
    await part.load(answer);
  }

  nodes() {
    return [...this.head(), el("nav", {class: "tabs", "aria-label": "Of this job"}, kTabs.map(([key, name]) =>
      el("a", {href: jobLink(this.id, key), "aria-current": key === this.tab ? "page" : null}, name))),
    el("section", {"data-key": this.tab},
      this.answer === null ? "" : this.tabs[this.tab].nodes(this.answer))];
  }

  head() {
    if (this.answer === null) return [el("h1", {}, this.id), el("p", {class: "soft"}, "Loading …")];
    const {described, may_change: mayChange} = this.answer;
    const job = described.job;
    const started = Number(job.started_unix_ms) > 0, ended = Number(job.ended_unix_ms) > 0;
    return [
      el("div", {class: "title"}, el("h1", {}, job.job_id, " ", el("span", {class: "name"}, job.name)), stateOf(job),
        mayChange ? buttonsOf(job, this.context.acted) : null),
      el("p", {class: "now"}, progressOf(job), " ", progressText(job)),
      job.reason ? el("p", {class: job.state === "FAILED" ? "warning" : "soft"}, job.reason) : null,
      facts(["owner", job.owner], ["ranks", job.ranks], ["priority", job.priority],
        ["place in the queue", job.queue_position || null], ["submitted", time(job.submitted_unix_ms)],
        ["started", started ? time(job.started_unix_ms) : null], ["ended", ended ? time(job.ended_unix_ms) : null],
        ["attempts", job.attempts > 1 ? job.attempts : null],
        ["checkpoint", Number(job.progress?.checkpoint_step) > 0 ? `of step ${job.progress.checkpoint_step}` : null],
        ["replaced by", described.replaced_by ? el("a", {href: jobLink(described.replaced_by)}, described.replaced_by) :
          null])];
  }
}
