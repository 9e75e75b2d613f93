// What the ranks of a job have written, and go on to write.
import {get, jobPath} from "./api.js";
import {el} from "./dom.js";

const kKept = 3000;         // lines
const kMostRequests = 100;  // of one load

export class LogsTab {
  lines = [];
  from = "0";
  rank = "";
  find = "";
  follow = true;
  dropped = false;
  loading = true;
  turn = 0;  // grows with every choice: what came for an earlier one is dropped

  constructor(context, job) {
    this.context = context;
    this.job = job;
  }

  async load({described}) {
    this.ranks = described.job.ranks;
    const {rank, turn} = this;
    for (let i = 0; i < kMostRequests; ++i) {
      const answer = await get(jobPath(this.job) + "/logs", {from: this.from, rank});
      if (turn !== this.turn) return;
      if (answer.next === this.from) break;
      this.from = answer.next;
      this.lines.push(...answer.line);
      if (this.lines.length > kKept) {
        this.dropped = true;
        this.lines = this.lines.slice(-kKept);
      }
    }
    this.loading = false;
    if (this.follow) requestAnimationFrame(() => this.toEnd());
  }

  toEnd() {
    const pane = document.getElementById("log");
    if (pane !== null) pane.scrollTop = pane.scrollHeight;
  }

  choose(rank) {
    ++this.turn;
    this.rank = rank;
    this.lines = [];
    this.from = "0";
    this.dropped = false;
    this.loading = true;
    this.context.reload();
  }

  nodes() {
    const wanted = this.find.toLowerCase();
    const shown = wanted === "" ? this.lines : this.lines.filter(({text}) => text.toLowerCase().includes(wanted));
    return [
      el("h2", {}, "Logs"),
      el("form", {class: "choice", onsubmit: (event) => event.preventDefault()},
        el("label", {}, "Rank ", el("input", {type: "number", min: 0, max: (this.ranks ?? 1) - 1, value: this.rank,
          placeholder: "all", onchange: (event) => this.choose(event.target.value)})),
        el("label", {}, "With the text ", el("input", {type: "search", value: this.find, autocomplete: "off",
          oninput: (event) => {
            this.find = event.target.value;
            this.context.draw();
          }})),
        el("label", {}, el("input", {type: "checkbox", checked: this.follow, onchange: (event) => {
          this.follow = event.target.checked;
          if (this.follow) this.toEnd();
        }}), " follow")),
      this.dropped ? el("p", {class: "soft"}, `The last ${kKept} lines; adjoin logs ${this.job} shows all.`) : null,
      shown.length === 0 ? el("p", {class: "soft"}, this.loading ? "Loading …" : "No lines.") : null,
      el("div", {id: "log", class: "log", tabindex: 0, role: "log", "aria-label": `log of ${this.job}`,
        "aria-live": "off"}, shown.map((line) => el("p", {},
        el("span", {class: "soft"}, new Date(Number(line.unix_ms)).toLocaleTimeString(), ` rank ${line.rank} `),
        line.text)))];
  }
}
