// What each rank does, and where the time of a step goes.
import {el, table} from "./dom.js";
import {bytes, millis, number, percent} from "./text.js";

export class RanksTab {
  from = 0;     // the first one of this page
  before = [];  // the first ones of the pages before it
  constructor(context) {
    this.context = context;
  }

  async load() {}

  turn(from, before) {
    this.from = from;
    this.before = before;
    this.context.reload();
  }

  nodes({described, ranks_from: first, ranks_total: total}) {
    const ranks = described.rank;
    const end = first + ranks.length;
    const longest = Math.max(0, ...ranks.map(({progress}) =>
      (progress?.compute_seconds ?? 0) + (progress?.sync_seconds ?? 0)));
    const gpus = ranks.some((rank) => rank.gpu);
    const rows = ranks.map((rank) => {
      const progress = rank.progress ?? {};
      return {key: "rank " + rank.rank, cells: [rank.rank, rank.worker, rank.state, progress.phase ?? "",
        progress.step ?? "", progress.steps_per_second > 0 ? number(progress.steps_per_second) : "–",
        millis(progress.compute_seconds), millis(progress.sync_seconds), bar(progress, longest),
        bytes(progress.peak_tensor_bytes), bytes(progress.peak_resident_bytes), bytes(progress.bytes_sent),
        ...(gpus ? [rank.gpu ? `${rank.gpu.index} ${rank.gpu.name}` : "–"] : []), rank.transport]};
    });
    return [
      el("h2", {}, "Ranks"),
      total === 0 ? el("p", {class: "soft"}, "No rank runs, or has run.") : table("Ranks",
        [{name: "Rank", number: true}, {name: "Worker"}, {name: "State"}, {name: "Phase"}, {name: "Step", number: true},
          {name: "Steps/s", number: true}, {name: "T_comp", number: true}, {name: "T_sync", number: true},
          {name: "Share of a step"}, {name: "Tensors", number: true}, {name: "Process", number: true},
          {name: "Sent", number: true}, ...(gpus ? [{name: "GPU"}] : []), {name: "Lanes", wide: true}], rows),
      ranks.length < total ? el("nav", {class: "pages", "aria-label": "Pages of ranks"},
        el("button", {type: "button", disabled: this.before.length === 0,
          onclick: () => this.turn(this.before.at(-1), this.before.slice(0, -1))}, "previous"),
        el("span", {}, `${first + 1} to ${end} of ${total}`),
        el("button", {type: "button", disabled: end >= total, onclick: () => this.turn(end, [...this.before, first])},
          "next")) : null,
      ...layers(described.job.progress?.layer_times)];
  }
}

// Computing and waiting beside each other, of a step as long as the longest one.
function bar(progress, longest) {
  const compute = progress.compute_seconds ?? 0, sync = progress.sync_seconds ?? 0;
  if (!(longest > 0) || !(compute > 0)) return "–";
  const width = 100, at = Math.round(width * compute / longest), end = Math.round(width * (compute + sync) / longest);
  return [el("svg", {class: "bar", viewBox: `0 0 ${width} 10`, width, height: 10, "aria-hidden": "true"},
    el("rect", {class: "compute", width: at, height: 10}), el("rect", {class: "sync", x: at, width: end - at, height: 10})),
  ` ${Math.round(100 * compute / (compute + sync))} % computing`];
}

// The last step whose layers were measured.
function layers(times) {
  if (!times || times.layer.length === 0) return [];
  const predicted = times.predicted_step_seconds > 0;
  return [
    el("h2", {}, `Layers of step ${times.step}, which took ${millis(times.step_seconds)}`),
    table("Layers", [{name: "Layer", wide: true}, ...(predicted ? [{name: "Predicted", number: true}] : []),
      {name: "Mean", number: true}, {name: "Longest", number: true}, {name: "Waiting", number: true},
      ...(predicted ? [{name: "Off", number: true}] : [])],
    times.layer.map((layer) => ({key: layer.name, cells: [layer.name,
      ...(predicted ? [millis(layer.predicted_seconds)] : []), millis(layer.mean_seconds), millis(layer.most_seconds),
      millis(layer.wait_seconds), ...(predicted ? [percent(layer.mean_seconds, layer.predicted_seconds)] : [])]}))),
    times.left_out > 0 ? el("p", {class: "soft"}, `and ${times.left_out} more`) : null];
}
