// Numbers, times and states as texts, as the command writes them.

export const kStates = ["pending", "starting", "running", "succeeded", "failed", "cancelled"];
export const isFinal = (state) => state === "SUCCEEDED" || state === "FAILED" || state === "CANCELLED";

export function duration(seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  if (seconds < 10) return seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  if (whole < 60) return whole + " s";
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

export const millis = (seconds) => (seconds > 0 ? (seconds * 1000).toFixed(3) + " ms" : "–");

export function bytes(count) {
  let value = Number(count);
  if (!(value > 0)) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024 || unit === "TiB") return (unit === "B" ? value : value.toFixed(value < 10 ? 2 : 1)) + " " + unit;
    value /= 1024;
  }
}

// Four digits.
export function number(value) {
  if (typeof value !== "number" || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (Number.isInteger(value) && size < 1e6) return String(value);
  if (size < 1e5 && size >= 1e-3) return String(Number(value.toPrecision(4)));
  return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
}

export function time(unixMs) {
  const ms = Number(unixMs);
  return ms > 0 ? new Date(ms).toLocaleString(undefined, {dateStyle: "short", timeStyle: "medium"}) : "–";
}

export const percent = (measured, predicted) => {
  if (!(measured > 0) || !(predicted > 0)) return "–";
  const off = Math.round(100 * (measured - predicted) / predicted);
  return (off >= 0 ? "+" : "−") + Math.abs(off) + " %";
};

// The part of a job that is done, from 0 to 1; null where it is not known.
export function part(progress) {
  const total = Number(progress?.total_steps ?? 0);
  return total > 0 ? Math.min(1, Number(progress.step) / total) : null;
}
