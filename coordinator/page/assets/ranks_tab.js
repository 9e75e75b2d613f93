// What each rank does, and where the time of a step goes.
import {el, table} from "./dom.js";
import {bytes, millis, number, percent} from "./text.js";

const kMost = 500;  // ranks in the table

export class RanksTab {
  all = false;
  constructor(context) {
    this.context = context;
  }

  async load() {}

  nodes({described}) {
    const ranks = described.rank;
    const shown = this.all ? ranks : ranks.slice(0, kMost);
    const longest = Math.max(0, ...ranks.map(({progress}) =>
      (progress?.compute_seconds ?? 0) + (progress?.sync_seconds ?? 0)));
    const gpus = ranks.some((rank) => rank.gpu);
    const rows = shown.map((rank) => {
      const progress = rank.progress ?? {};
      return {key: "rank " + rank.rank, cells: [rank.rank, rank.worker, rank.state, progress.phase ?? "",
        progress.step ?? "", progress.steps_per_second > 0 ? number(progress.steps_per_second) : "–",
        millis(progress.compute_seconds), millis(progress.sync_seconds), bar(progress, longest),
        bytes(progress.peak_tensor_bytes), bytes(progress.peak_resident_bytes), bytes(progress.bytes_sent),
        ...(gpus ? [rank.gpu ? `${rank.gpu.index} ${rank.gpu.name}` : "–"] : []), rank.transport]};
    });
    return [
      el("h2", {}, "Ranks"),
      ranks.length === 0 ? el("p", {class: "soft"}, "No rank runs, or has run.") : table("Ranks",
        [{name: "Rank", number: true}, {name: "Worker"}, {name: "State"}, {name: "Phase"}, {name: "Step", number: true},
          {name: "Steps/s", number: true}, {name: "T_comp", number: true}, {name: "T_sync", number: true},
          {name: "Share of a step"}, {name: "Tensors", number: true}, {name: "Process", number: true},
          {name: "Sent", number: true}, ...(gpus ? [{name: "GPU"}] : []), {name: "Lanes", wide: true}], rows),
      shown.length < ranks.length ? el("button", {type: "button", onclick: () => {
        this.all = true;
        this.context.draw();
      }}, `all ${ranks.length} ranks`) : null,
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
