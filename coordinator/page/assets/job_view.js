// One job: what it does now, and tabs with all else of it. A further tab is a line of kTabs and a module beside this
// one: a class with load() and nodes(), as a view has, made once and given the job's newest description.
import {get, jobPath} from "./api.js";
import {CurvesTab} from "./curves_tab.js";
import {el, facts} from "./dom.js";
import {EventsTab} from "./events_tab.js";
import {LogsTab} from "./logs_tab.js";
import {buttonsOf, jobLink, progressOf, progressText, stateOf} from "./parts.js";
import {PlanTab} from "./plan_tab.js";
import {RanksTab} from "./ranks_tab.js";
import {time} from "./text.js";

const kTabs = [["curves", "Curves", CurvesTab], ["ranks", "Ranks", RanksTab], ["plan", "Plan", PlanTab],
  ["logs", "Logs", LogsTab], ["events", "Events", EventsTab]];

export class JobView {
  answer = null;
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
    const [key, , Tab] = kTabs.find(([known]) => known === name) ?? kTabs[0];
    this.tab = key;
    this.tabs[key] ??= new Tab(this.context, this.id);
  }

  async load() {
    const answer = await get(jobPath(this.id));
    this.answer = answer;
    this.title = answer.described.job.job_id;
    this.context.draw();
    await this.tabs[this.tab].load(answer);
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
