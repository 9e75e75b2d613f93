// What the ranks of a job have written, and go on to write.
import {get, jobPath} from "./api.js";
import {el} from "./dom.js";

const kKept = 3000, kMost = 12000;  // lines: while it follows, and with earlier ones that were asked for
const kAtFirst = 500;               // that are looked for at the end
const kMostRequests = 100;          // of one load
const kMostPieces = 8;              // that are looked through for earlier lines, of 256 KiB each

export class LogsTab {
  pieces = [];   // {begin, lines}, the oldest first
  from = "end";  // where new lines are; "end": nothing is read yet
  kept = kKept;
  whole = false;  // nothing is before the first piece
  rank = "";
  find = "";
  follow = true;
  loading = true;
  reading = false;  // earlier lines: until they are there, nothing is dropped
  toBottom = 0;     // before earlier lines were put before the others
  turn = 0;  // grows with every choice: what came for an earlier one is dropped

  constructor(context, job) {
    this.context = context;
    this.job = job;
  }

  async load({described}) {
    this.ranks = described.job.ranks;
    const {rank, turn} = this;
    if (this.from === "end") await this.earlier(kAtFirst);
    if (turn !== this.turn) return;
    for (let i = 0; i < kMostRequests; ++i) {
      const answer = await get(jobPath(this.job) + "/logs", {from: this.from, rank});
      if (turn !== this.turn) return;
      if (answer.next === this.from) break;
      this.pieces.push({begin: this.from, lines: answer.line});
      this.from = answer.next;
      this.dropOldest();
    }
    this.loading = false;
    if (this.follow) requestAnimationFrame(() => this.toEnd());
  }

  count() {
    return this.pieces.reduce((sum, {lines}) => sum + lines.length, 0);
  }

  dropOldest() {
    while (!this.reading && this.pieces.length > 1 && this.count() - this.pieces[0].lines.length >= this.kept) {
      this.pieces.shift();
      this.whole = false;
    }
  }

  // Reads what is before the first piece, until there are so many more lines.
  async earlier(wanted) {
    if (this.reading) return;
    const {rank, turn} = this;
    this.reading = true;
    try {
      const read = [];
      let whole = this.whole;
      for (let found = 0; read.length < kMostPieces && found < wanted && !whole;) {
        const before = (read[0] ?? this.pieces[0])?.begin ?? this.from;
        const answer = await get(jobPath(this.job) + "/logs", {before, rank});
        if (turn !== this.turn) return;
        if (this.from === "end") this.from = answer.next;
        whole = answer.begin === answer.next || answer.begin === "0";
        read.unshift({begin: answer.begin, lines: answer.line});
        found += answer.line.length;
      }
      this.toBottom = this.fromBottom();
      this.pieces.unshift(...read);
      this.whole = whole;
      this.kept = Math.max(this.kept, this.count());
    } finally {
      if (turn === this.turn) this.reading = false;
    }
  }

  // What is seen stays where it is.
  async showEarlier() {
    this.follow = false;
    await this.earlier(kAtFirst);
    this.context.draw();
    const pane = document.getElementById("log");
    if (pane !== null) pane.scrollTop = pane.scrollHeight - this.toBottom;
  }

  // How far the end of the log is below the upper edge of the pane.
  fromBottom() {
    const pane = document.getElementById("log");
    return pane === null ? 0 : pane.scrollHeight - pane.scrollTop;
  }

  toEnd() {
    const pane = document.getElementById("log");
    if (pane !== null) pane.scrollTop = pane.scrollHeight;
  }

  choose(rank) {
    ++this.turn;
    this.rank = rank;
    this.pieces = [];
    this.from = "end";
    this.kept = kKept;
    this.whole = false;
    this.reading = false;
    this.loading = true;
    this.context.reload();
  }

  nodes() {
    const wanted = this.find.toLowerCase();
    const lines = this.pieces.flatMap((piece) => piece.lines);
    const shown = wanted === "" ? lines : lines.filter(({text}) => text.toLowerCase().includes(wanted));
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
      this.loading || this.whole ? null : lines.length < kMost ? el("p", {}, el("button", {type: "button",
        onclick: () => this.showEarlier().catch((error) => this.context.acted(error, ""))}, "earlier lines")) :
        el("p", {class: "soft"}, `The last ${lines.length} lines; adjoin logs ${this.job} shows all.`),
      shown.length === 0 ? el("p", {class: "soft"}, this.loading ? "Loading …" : "No lines.") : null,
      el("div", {id: "log", class: "log", tabindex: 0, role: "log", "aria-label": `log of ${this.job}`,
        "aria-live": "off"}, shown.map((line) => el("p", {},
        el("span", {class: "soft"}, new Date(Number(line.unix_ms)).toLocaleTimeString(), ` rank ${line.rank} `),
        line.text)))];
  }
}
