// What differs in the specs of two jobs.
import {get} from "./api.js";
import {el, table} from "./dom.js";
import {jobLink} from "./parts.js";

export class DifferenceView {
  title = "Compare";
  answer = null;

  constructor(context, {query}) {
    this.context = context;
    this.a = query.get("a") ?? "";
    this.b = query.get("b") ?? "";
  }

  async load() {
    if (this.answer !== null || this.a === "" || this.b === "") return;  // a spec does not change
    this.answer = await get("/api/difference", {a: this.a, b: this.b});
  }

  nodes() {
    const field = (name, value) => el("label", {}, name === "a" ? "Job " : "and job ", el("input", {name, value,
      size: 14, maxlength: 256, autocomplete: "off", required: true}));
    return [
      el("h1", {}, "Compare two specs"),
      el("form", {class: "choice", onsubmit: (event) => {
        event.preventDefault();
        const {a, b} = event.target.elements;
        location.hash = "#/difference?" + new URLSearchParams({a: a.value.trim(), b: b.value.trim()});
      }}, field("a", this.a), field("b", this.b), el("button", {type: "submit"}, "compare")),
      ...this.list()];
  }

  list() {
    if (this.a === "" || this.b === "") {
      return [el("p", {class: "soft"}, "Names or ids. Curves of several jobs over each other are in the tab Curves of ",
        "any of them.")];
    }
    if (this.answer === null) return [];
    const {difference, left_out: leftOut} = this.answer;
    if (difference.length === 0) return [el("p", {}, "The specs are alike.")];
    const value = (text, written) => (text === null ? el("i", {}, "none") :
      [el("code", {}, text), written ? null : el("span", {class: "soft"}, " by default")]);
    return [
      el("p", {}, el("a", {href: jobLink(this.a)}, this.a), " and ", el("a", {href: jobLink(this.b)}, this.b),
        ` differ in ${difference.length + leftOut} ${difference.length + leftOut === 1 ? "field" : "fields"}.`),
      table("Differences", [{name: "Field", wide: true}, {name: this.a, wide: true}, {name: this.b, wide: true}],
        difference.map((each) => ({key: each.path, cells: [el("code", {}, each.path), value(each.a, each.a_written),
          value(each.b, each.b_written)]}))),
      leftOut > 0 ? el("p", {class: "soft"}, `and ${leftOut} more: adjoin compare ${this.a} ${this.b}`) : null];
  }
}
