// What the plan of a job says: what was predicted beside what is measured, and the plan's pictures, which the
// coordinator draws (planner/picture). They are a document of their own, in a frame that may not run anything.
import {get, jobPath} from "./api.js";
import {el, table} from "./dom.js";
import {bytes, millis, percent} from "./text.js";

export class PlanTab {
  spec = null;
  constructor(context, job) {
    this.context = context;
    this.job = job;
  }

  async load({may_read: mayRead}) {
    if (this.spec !== null || !mayRead) return;
    this.spec = (await get(jobPath(this.job), {spec: 1})).described.spec;
    this.context.draw();
  }

  nodes({described, most: mostOf, may_read: mayRead}) {
    const predicted = described.predicted ?? {};
    const most = (field) => Number(mostOf[field] ?? 0);
    const row = (name, guess, measured, text) => ({key: name, cells: [name, text(guess), text(measured),
      percent(Number(measured), Number(guess))]});
    const sent = most("bytes_sent");
    return [
      el("h2", {}, "Predicted and measured"),
      table("Predicted and measured", [{name: "What"}, {name: "Predicted", number: true},
        {name: "Measured", number: true}, {name: "Off", number: true}], [
        row("a step", predicted.step_seconds, most("step_seconds"), millis),
        row("computing, the busiest rank", predicted.compute_seconds, most("compute_seconds"), millis),
        row("moving and waiting, likewise", (predicted.movement_seconds ?? 0) + (predicted.wait_seconds ?? 0),
          most("sync_seconds"), millis),
        row("tensors, of the rank with most", predicted.tensor_bytes, most("peak_tensor_bytes"), bytes),
        row("the process", predicted.resident_bytes, most("peak_resident_bytes"), bytes)]),
      el("p", {class: "soft"}, predicted.rates ? `Predicted for ${predicted.rates}. ` : "",
        sent > 0 ? `The rank that sends most has sent ${bytes(sent)}. ` : "",
        described.plan_hash ? `Plan ${described.plan_hash}.` : ""),
      el("h2", {}, "The plan"),
      mayRead ? this.picture(described) :
        el("p", {class: "soft"}, "Only the owner of the job and admins may see its plan and its spec."),
      this.spec === null ? null : el("p", {}, el("a", {href: "#/difference?" + new URLSearchParams({a: this.job})},
        "compare the spec with another job's")),
      this.spec === null ? null : el("details", {}, el("summary", {}, "The spec, as JSON"),
        el("pre", {tabindex: 0, "aria-label": "spec"}, JSON.stringify(this.spec, null, 2)))];
  }

  picture(described) {
    if (!described.plan_hash) return el("p", {class: "soft"}, "There is no plan yet.");
    const source = jobPath(this.job) + "/plan.html";
    return el("div", {"data-key": "plan " + described.plan_hash},
      el("p", {}, el("a", {href: source, target: "_blank", rel: "noopener"}, "in a window of its own")),
      el("iframe", {"data-own": true, src: source, sandbox: true, title: `pictures of the plan of ${this.job}`,
        loading: "lazy", class: "plan"}));
  }
}
