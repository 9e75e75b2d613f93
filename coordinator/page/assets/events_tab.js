// The history of a job.
import {get, jobPath} from "./api.js";
import {el, table} from "./dom.js";
import {time} from "./text.js";

const kKept = 2000;
const kMostRequests = 100;  // of one load

export class EventsTab {
  events = [];
  after = "0";

  constructor(context, job) {
    this.job = job;
  }

  async load() {
    for (let i = 0; i < kMostRequests; ++i) {
      const {event} = await get(jobPath(this.job) + "/events", {after: this.after});
      if (event.length === 0) return;
      this.events = [...this.events, ...event].slice(-kKept);
      this.after = event.at(-1).sequence;
    }
  }

  nodes() {
    return [el("h2", {}, "Events, the newest first"), table("Events",
      [{name: "When"}, {name: "Attempt", number: true}, {name: "What"}, {name: "Text", wide: true}],
      [...this.events].reverse().map((event) => ({key: event.sequence, cells: [time(event.unix_ms),
        event.epoch === "0" ? "–" : event.epoch, event.kind.replaceAll("_", " "), event.text]})))];
  }
}
