// Chooses the view that the address names ("#/jobs/job-17/logs"), and keeps it current: it is loaded again every two
// seconds while the page is seen. A view is a class with
//   title              for the window
//   async load()       gets what has changed
//   nodes()            what to show of it
//   part               what load() loads now, where that is a part of the view
import {get} from "./api.js";
import {show} from "./dom.js";
import {JobView} from "./job_view.js";
import {JobsView} from "./jobs_view.js";
import {DifferenceView} from "./difference_view.js";
import {forgetAsked} from "./parts.js";
import {WorkersView} from "./workers_view.js";

const kViews = {jobs: JobsView, job: JobView, workers: WorkersView, difference: DifferenceView};
const kBetween = 2000, kAfterError = 5000;  // milliseconds

const main = document.getElementById("main");
const alertLine = document.getElementById("alert");
const live = document.getElementById("live");
let view = null;
let timer = 0;
const loading = new Map();  // views and parts that are being loaded, and whether they have to be once more

function showAlert(text) {
  alertLine.hidden = text === "";
  if (alertLine.textContent !== text) alertLine.textContent = text;
}

// For views: shows them again after a change of their own, or loads them again at once.
const context = {
  me: null,
  draw() {
    show(main, view.nodes());
  },
  reload() {
    load();
  },
  // After an action: `error` or null, and a line for people.
  acted(error, line) {
    showAlert(error === null ? "" : error.message);
    if (line) live.textContent = line;
    context.draw();
    if (error !== null || line.endsWith("is done")) load();
  },
};

const shown = () => view.part ?? view;

// One at a time of each view or part. What is not shown any more when it has come is dropped.
async function load() {
  clearTimeout(timer);
  const of = shown();
  if (loading.has(of)) {
    loading.set(of, true);
    return;
  }
  loading.set(of, false);
  let next = kBetween;
  try {
    await view.load();
    if (of === shown()) {
      showAlert("");
      context.draw();
      document.title = view.title + " · Adjoin";
    }
  } catch (error) {
    if (of === shown()) {
      if (error.status === 401) return location.reload();  // the answer has the form to sign in with
      showAlert(error.message);
      if (error.status === undefined) console.error(error);
      next = kAfterError;
    }
  }
  const again = loading.get(of);
  loading.delete(of);
  if (of !== shown()) return;
  clearTimeout(timer);
  if (again) return load();
  if (!document.hidden) timer = setTimeout(load, next);
}

function open() {
  let {hash} = location;
  if (hash !== "" && !hash.startsWith("#/")) {  // a place within the view
    if (view !== null) return;
    hash = "";
  }
  const [path, query] = (hash.slice(2) || "jobs").split("?");
  const parts = path.split("/").map((text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  });
  const name = parts[0] === "jobs" && parts.length > 1 ? "job" : parts[0];
  const next = {name, parts: parts.slice(1), query: new URLSearchParams(query ?? "")};
  for (const link of document.querySelectorAll("nav[aria-label=Views] a")) {
    if (link.hash === "#/" + parts[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  forgetAsked();
  showAlert("");
  live.textContent = "";
  if (view !== null && view.goTo !== undefined && view.name === name && view.goTo(next)) return load();
  const first = view === null;
  const View = kViews[name] ?? JobsView;
  view = new View(context, next);
  view.name = name;
  show(main, view.nodes());
  if (!first) main.focus();
  load();
}

async function begin() {
  try {
    context.me = await get("/api/me");
  } catch (error) {
    showAlert(error.message);
    setTimeout(begin, kAfterError);
    return;
  }
  document.getElementById("caller").textContent =
    context.me.local ? "this machine, without TLS" : context.me.caller;
  document.getElementById("sign-out").hidden = !context.me.token;
  open();
}

addEventListener("hashchange", open);
addEventListener("resize", () => view !== null && context.draw());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && view !== null) load();
});
begin();
