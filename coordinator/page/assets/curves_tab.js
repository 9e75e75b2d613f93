// The loss and all other metrics of a job over its steps, beside those of other jobs.
import {get, jobPath} from "./api.js";
import {chart} from "./chart.js";
import {el} from "./dom.js";
import {jobLink} from "./parts.js";
import {isFinal} from "./text.js";
import {Run} from "./runs.js";

const kMostRuns = 6;
const kLeast = 480, kGap = 14, kFrame = 18;  // pixels: a chart's least width and what is around it, as style.css has it
const kFirst = ["loss", "steps_per_second", "t_comp", "t_sync", "lr", "grad_norm"];  // in this order, then the others
const kShownAtFirst = 6;
const kTitles = {t_comp: "T_comp of a step, seconds", t_sync: "T_sync of a step, seconds", lr: "learning rate",
  steps_per_second: "steps a second", grad_norm: "norm of the gradient"};

export class CurvesTab {
  log = false;
  weight = 0;
  mark = null;
  chosen = null;  // metrics that are shown; null: the first ones
  names = [];     // of jobs that could be added
  wrong = "";

  constructor(context, job) {
    this.context = context;
    this.runs = [new Run(job)];
  }

  async load({described}) {
    const settled = isFinal(described.job.state);
    const begun = settled || Number(described.job.progress?.step ?? 0) > 0;
    if (!begun && this.runs.length === 1) return;
    this.runs[0].ended = settled;
    for (const [i, run] of this.runs.entries()) {
      if (i > 0) await run.look();
      await run.load();
    }
  }

  metrics() {
    const all = new Set(this.runs.flatMap(({series}) => [...series.keys()]));
    const first = kFirst.filter((name) => all.has(name));
    return [...first, ...[...all].filter((name) => !kFirst.includes(name)).sort()];
  }

  async add(form) {
    const name = form.elements.job.value.trim();
    if (name === "") return;
    try {
      const {job_id: job} = (await get(jobPath(name))).described.job;
      const many = this.runs.length >= kMostRuns;
      this.wrong = many ? `at most ${kMostRuns} jobs over each other` : "";
      if (!many && !this.runs.some((run) => run.job === job)) this.runs.push(new Run(job));
      if (!many) form.reset();
    } catch (error) {
      this.wrong = error.message;
    }
    this.context.draw();
    this.context.reload();
  }

  async offer() {
    if (this.names.length > 0) return;
    const {job} = await get("/api/jobs", {page_size: 100});
    this.names = job.map(({job_id: id}) => id);
    this.context.draw();
  }

  set(name, value) {
    this[name] = value;
    this.context.draw();
  }

  nodes() {
    const metrics = this.metrics();
    const shown = this.chosen ?? metrics.slice(0, kShownAtFirst);
    return [
      el("h2", {}, "Curves"),
      el("form", {class: "choice", onsubmit: (event) => {
        event.preventDefault();
        this.add(event.target);
      }},
      el("label", {}, el("input", {type: "checkbox", checked: this.log, onchange: (event) =>
        this.set("log", event.target.checked)}), " logarithmic"),
      el("label", {}, "Smoothing ", el("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: this.weight,
        oninput: (event) => this.set("weight", Number(event.target.value))}), ` ${this.weight.toFixed(2)}`),
      el("label", {}, "Beside ", el("input", {name: "job", list: "jobs", size: 12, maxlength: 256, autocomplete: "off",
        onclick: () => this.offer().catch(() => {})})),
      el("datalist", {id: "jobs"}, this.names.map((name) => el("option", {value: name}))),
      el("button", {type: "submit"}, "add")),
      this.wrong ? el("p", {class: "warning"}, this.wrong) : null,
      this.runs.length > 1 ? el("ul", {class: "chips", "aria-label": "Jobs in the curves"}, this.runs.map((run, i) =>
        el("li", {"data-key": run.job}, el("a", {href: jobLink(run.job)}, run.job), i === 0 ? null :
          el("button", {type: "button", "aria-label": `remove ${run.job}`, onclick: () =>
            this.set("runs", this.runs.filter((other) => other !== run))}, "×")))) : null,
      this.runs.filter(({error}) => error !== "").map(({job, error}) =>
        el("p", {class: "soft"}, this.runs.length > 1 ? `${job}: ${error}` : error)),
      this.runs.every(({series}) => series.size === 0) && this.runs[0].error === "" ?
        el("p", {class: "soft"}, "No step is written yet.") : null,
      el("div", {class: "charts"}, shown.filter((name) => metrics.includes(name)).map((name) => this.draw(name))),
      metrics.length > 1 ? el("fieldset", {class: "metrics"}, el("legend", {}, "Shown"), metrics.map((name) =>
        el("label", {"data-key": name}, el("input", {type: "checkbox", checked: shown.includes(name),
          onchange: (event) => this.set("chosen", event.target.checked ? [...shown, name] :
            shown.filter((other) => other !== name))}), " ", name))) : null];
  }

  draw(name) {
    const style = getComputedStyle(document.getElementById("main"));
    const wide = document.getElementById("main").clientWidth - parseFloat(style.paddingLeft) * 2;
    const columns = Math.max(1, Math.floor((wide + kGap) / (kLeast + kGap)));
    const width = Math.floor((wide - kGap * (columns - 1)) / columns) - kFrame;
    const runs = this.runs.filter(({series}) => series.has(name)).map(({job, series}) =>
      ({name: job, points: series.get(name).points}));
    return chart({title: kTitles[name] ?? name, runs, width: Math.max(200, width), log: this.log, weight: this.weight,
      mark: this.mark, onMark: (step) => this.set("mark", step)});
  }
}
