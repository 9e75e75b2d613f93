// What several views show alike: states, progress, buttons that change a job.
import {act} from "./api.js";
import {el} from "./dom.js";
import {duration, number, part} from "./text.js";

// A sign of its own for each state: colour is not all that tells them apart.
const kSigns = {PENDING: "◷", STARTING: "◔", RUNNING: "▶", SUCCEEDED: "✓", FAILED: "✕", CANCELLED: "◻"};

export function stateOf(job) {
  const held = job.held && job.state === "PENDING";
  return el("span", {class: "state " + job.state.toLowerCase()},
    el("span", {"aria-hidden": "true"}, held ? "⏸" : kSigns[job.state] ?? "?"), " ",
    held ? "held" : job.state.toLowerCase());
}

export function progressOf(job) {
  const done = part(job.progress);
  if (done === null || job.state === "PENDING") return "";
  const percent = Math.floor(100 * done);
  const left = job.state === "RUNNING" && job.progress.seconds_left > 0;
  return el("span", {class: "progress"},
    el("progress", {max: 1, value: done, "aria-label": `progress of ${job.job_id}`}),
    el("span", {}, `${percent} %`, left ? ` · ${duration(job.progress.seconds_left)} left` : ""));
}

// "training, step 30 of 100, loss 0.25"
export function progressText(job) {
  const progress = job.progress;
  if (!progress) return "";
  const texts = [];
  if (progress.phase) texts.push(progress.phase);
  if (Number(progress.total_steps) > 0) texts.push(`step ${progress.step} of ${progress.total_steps}`);
  const training = !progress.phase || progress.phase === "training";
  if (training && Number(progress.step) > Number(progress.resumed_step)) texts.push("loss " + number(progress.loss));
  if (job.state === "RUNNING" && progress.steps_per_second > 0) texts.push(number(progress.steps_per_second) + " steps/s");
  return texts.join(", ");
}

// The actions that a job's state allows.
export function actionsOf(job) {
  if (job.state === "PENDING") return [job.held ? "release" : "hold", "cancel"];
  if (job.state === "STARTING" || job.state === "RUNNING") return ["cancel"];
  return job.state === "FAILED" || job.state === "CANCELLED" ? ["retry"] : [];
}

// Buttons. Cancelling is asked for twice, in the page itself: `asked` remembers for which jobs, for a while.
const kAskedFor = 10000;  // milliseconds
const asked = new Map();  // timers by job

function forget(job) {
  clearTimeout(asked.get(job));
  asked.delete(job);
}

// The view has changed.
export function forgetAsked() {
  for (const job of [...asked.keys()]) forget(job);
}

export function buttonsOf(job, after) {
  const run = async (action) => {
    forget(job.job_id);
    try {
      await act(job.job_id, action);
      after(null, `${job.job_id}: ${action} is done`);
    } catch (error) {
      after(error, "");
    }
  };
  const actions = actionsOf(job);
  if (actions.length === 0) return "";
  return el("span", {class: "actions"}, actions.map((action) => {
    const sure = action !== "cancel" || asked.has(job.job_id);
    const text = action === "cancel" && sure ? "really cancel" : action;
    return el("button", {type: "button", class: action === "cancel" ? "danger" : null,
      "aria-label": `${text} ${job.job_id}`, onclick: () => {
        if (sure) return run(action);
        asked.set(job.job_id, setTimeout(() => {
          forget(job.job_id);
          after(null, `${job.job_id} is not cancelled`);
        }, kAskedFor));
        after(null, `press again to cancel ${job.job_id}`);
      }}, text);
  }));
}

export const jobLink = (id, tab = "") => "#/jobs/" + encodeURIComponent(id) + (tab ? "/" + tab : "");
