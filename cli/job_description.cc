#include "cli/job_description.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/amount_text.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/text.h"
#include "cli/time_text.h"

namespace adjoin {
namespace {

std::string Millis(double seconds) { return absl::StrFormat("%.3f ms", seconds * 1000); }

// Working on R ranks is faster than on one where T_comp + T_sync < R T_comp.
void AddTimes(const DescribeJobResponse& described, std::vector<std::vector<std::string>>& rows) {
  double compute = 0, sync = 0;
  int ranks = 0;
  for (const RankStatus& rank : described.rank()) {
    if (rank.progress().compute_seconds() <= 0) continue;
    compute += rank.progress().compute_seconds();
    sync += rank.progress().sync_seconds();
    ++ranks;
  }
  if (ranks == 0) {
    rows.push_back({"times", described.job().ended_unix_ms() > 0 ? "not measured" : "not measured yet"});
    return;
  }
  compute /= ranks;
  sync /= ranks;
  rows.push_back(
      {"times", absl::StrFormat("T_comp %s, T_sync %s a step (means over ranks)", Millis(compute), Millis(sync))});
  int limit = described.rank_size() - 1;
  if (limit == 0) return;
  double ratio = sync / compute;
  rows.push_back({"speed-up", absl::StrFormat("T_sync / T_comp < R - 1 %s: it is %.3f, R - 1 is %d",
                                              ratio < limit ? "holds" : "does not hold", ratio, limit)});
}

// What the plan tells beside what the ranks report, of the rank that has most; nothing where neither is known.
void AddMemory(const DescribeJobResponse& described, std::vector<std::vector<std::string>>& rows) {
  int64_t tensors = 0, resident = 0;
  for (const RankStatus& rank : described.rank()) {
    tensors = std::max(tensors, rank.progress().peak_tensor_bytes());
    resident = std::max(resident, rank.progress().peak_resident_bytes());
  }
  const auto add = [&](const std::string& what, int64_t predicted, int64_t measured) {
    std::vector<std::string> parts;
    if (predicted > 0) parts.push_back(absl::StrCat("about ", BytesText(predicted), " predicted"));
    if (measured > 0) parts.push_back(absl::StrCat(BytesText(measured), " measured at most"));
    if (!parts.empty()) rows.push_back({what, absl::StrJoin(parts, ", ")});
  };
  add("tensors", described.predicted().tensor_bytes(), tensors);
  add("process", described.predicted().resident_bytes(), resident);
}

// "-12 %": the measured time beside the predicted one.
std::string DeviationText(double predicted, double measured) {
  if (predicted <= 0) return "-";
  return absl::StrFormat("%+.0f %%", 100 * (measured - predicted) / predicted);
}

void AddStep(const DescribeJobResponse& described, std::vector<std::vector<std::string>>& rows) {
  double longest = 0;
  for (const RankStatus& rank : described.rank()) longest = std::max(longest, rank.progress().step_seconds());
  const double predicted = described.predicted().step_seconds();
  std::vector<std::string> parts;
  if (predicted > 0) parts.push_back(absl::StrCat("about ", Millis(predicted), " predicted"));
  if (longest > 0) parts.push_back(absl::StrCat(Millis(longest), " measured (median of the last steps)"));
  if (predicted > 0 && longest > 0) parts.push_back(DeviationText(predicted, longest));
  if (!parts.empty()) rows.push_back({"step", absl::StrJoin(parts, ", ")});
  if (predicted > 0 && !described.predicted().rates().empty()) {
    rows.push_back({"rates", absl::StrCat("predicted for ", described.predicted().rates())});
  }
}

// The newest trace of the attempt.
void AddTrace(const DescribeJobResponse& described, std::vector<std::vector<std::string>>& rows) {
  const TraceProgress& trace = described.job().progress().trace();
  if (trace.first_step() == 0 && trace.error().empty()) return;
  const std::string steps = absl::StrCat("steps ", trace.first_step(), " to ", trace.last_step());
  rows.push_back({"trace", !trace.error().empty() ? absl::StrCat("none: ", trace.error())
                           : trace.file().empty() ? absl::StrCat(steps, ", being made")
                                                  : absl::StrCat(trace.file(), ", ", steps, ", ",
                                                                 BytesText(static_cast<int64_t>(trace.bytes())))});
}

// Where the step's time went, as it was last measured (Train.measure_layers_every).
std::string LayersText(const DescribeJobResponse& described) {
  const LayerTimes& times = described.job().progress().layer_times();
  if (times.layer_size() == 0) return "";
  const bool predicted = times.predicted_step_seconds() > 0;
  std::vector<std::vector<std::string>> rows = {{"LAYER"}};
  if (predicted) rows[0].insert(rows[0].end(), {"PREDICTED", "DEVIATION"});
  rows[0].insert(rows[0].end(), {"MEASURED", "LONGEST", "WAITING"});
  for (const LayerTime& layer : times.layer()) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(layer.name());
    if (predicted) row.push_back(Millis(layer.predicted_seconds()));
    // Predictions have no waiting for slower ranks and late messages.
    if (predicted) row.push_back(DeviationText(layer.predicted_seconds(), layer.mean_seconds() - layer.wait_seconds()));
    row.insert(row.end(), {Millis(layer.mean_seconds()), Millis(layer.most_seconds()), Millis(layer.wait_seconds())});
  }
  std::string text =
      absl::StrCat("\nlayers in step ", times.step(), ", which took ", Millis(times.step_seconds()),
                   "; those that took longest, over the ranks the mean and the longest\n", TextTable(rows));
  if (times.left_out() > 0) {
    absl::StrAppend(&text, "and ", times.left_out(), " more: `adjoin metrics ", described.job().job_id(),
                    " --type layers`\n");
  }
  return text;
}

// "rank 3", "rank 0 to rank 2"
std::string SlowWhere(const SlowPart& part) {
  if (part.kind() == SLOW_LINK) return absl::StrCat("rank ", part.rank(), " to rank ", part.peer());
  return absl::StrCat("rank ", part.rank());
}

// "computes enc1.conv1 in 12.000 ms, 1.8 times the median (6.667 ms)"
std::string SlowWhat(const SlowPart& part) {
  const std::string what = part.kind() == SLOW_LINK   ? "messages take"
                           : part.kind() == SLOW_DATA ? "reads its data in"
                           : part.layer().empty()     ? "is late with messages of several ranks, which take"
                                                      : absl::StrCat("computes ", part.layer(), " in");
  std::string text = absl::StrCat(what, " ", Millis(part.seconds()));
  if (part.median_seconds() > 0) {
    absl::StrAppendFormat(&text, ", %.1f times the median (%s)", part.seconds() / part.median_seconds(),
                          Millis(part.median_seconds()));
  }
  return text;
}

// Who makes the step long, as it was last measured.
std::string SlowText(const DescribeJobResponse& described) {
  const LayerTimes& times = described.job().progress().layer_times();
  if (times.replayed_seconds() <= 0) return "";
  if (times.slow_size() == 0) {
    return absl::StrCat("\nslow in step ", times.step(),
                        ": nothing; no rank, link or reading costs 1 % of it beyond the median of its like\n");
  }
  std::vector<std::vector<std::string>> rows = {{"SLOW", "COSTS", "OF THE STEP", "WHY"}};
  for (const SlowPart& part : times.slow()) {
    rows.push_back({SlowWhere(part), Millis(part.cost_seconds()),
                    absl::StrFormat("%.0f %%", 100 * part.cost_seconds() / times.replayed_seconds()), SlowWhat(part)});
  }
  return absl::StrCat("\nslow in step ", times.step(),
                      ": what it would be shorter by, were this as the median of its like", "\n", TextTable(rows));
}

// "1 NVIDIA H100 80GB HBM3"
std::string GpuText(const RankStatus& rank) {
  return rank.has_gpu() ? absl::StrCat(rank.gpu().index(), " ", rank.gpu().name()) : "-";
}

std::string RanksText(const DescribeJobResponse& described) {
  std::vector<std::vector<std::string>> rows = {
      {"RANK", "WORKER", "PID", "STATE", "PHASE", "STEP", "T_COMP", "T_SYNC", "LANES"}};
  const bool gpus = std::any_of(described.rank().begin(), described.rank().end(),
                                [](const RankStatus& rank) { return rank.has_gpu(); });
  const bool bound = std::any_of(described.rank().begin(), described.rank().end(),
                                 [](const RankStatus& rank) { return !rank.binding().empty(); });
  if (gpus) rows[0].insert(rows[0].begin() + 2, "GPU");
  if (bound) rows[0].insert(rows[0].end() - 1, "BOUND TO");
  for (const RankStatus& rank : described.rank()) {
    const JobProgress& progress = rank.progress();
    const bool timed = progress.compute_seconds() > 0;
    rows.push_back({absl::StrCat(rank.rank()), rank.worker(), rank.pid() == 0 ? "-" : absl::StrCat(rank.pid()),
                    rank.state(), progress.phase().empty() ? "-" : progress.phase(), absl::StrCat(progress.step()),
                    timed ? Millis(progress.compute_seconds()) : "-", timed ? Millis(progress.sync_seconds()) : "-",
                    rank.transport()});
    if (gpus) rows.back().insert(rows.back().begin() + 2, GpuText(rank));
    if (bound) rows.back().insert(rows.back().end() - 1, rank.binding().empty() ? "-" : rank.binding());
  }
  return absl::StrCat("\n", TextTable(rows));
}

// "3", "7 (2 so far)": the number grows over all jobs, so that no two attempts share one.
std::string AttemptText(const JobSummary& job) {
  if (job.attempts() <= 1) return job.epoch() == 0 ? "-" : absl::StrCat(job.epoch());
  return absl::StrCat(job.epoch(), " (", job.attempts(), " so far)");
}

// "6, of which 1 counts: 1 after rank_lost, 5 after node_lost"
std::string RestartsText(const JobSummary& job, const RestartCauses& causes) {
  int restarts = 0;
  for (const auto& [cause, count] : causes) restarts += count;
  const uint32_t counted = job.restarts_counted();
  return absl::StrCat(
      restarts, ", of which ", counted == 0 ? "none" : absl::StrCat(counted),
      counted > 1 ? " count: " : " counts: ", absl::StrJoin(causes, ", ", [](std::string* out, const auto& each) {
        absl::StrAppend(out, each.second, " after ", each.first);
      }));
}

// The first names, and how many more there are.
std::string ArtifactsText(const DescribeJobResponse& described) {
  constexpr int kShown = 50;
  const int shown = std::min(kShown, described.artifact_size());
  const uint64_t more = static_cast<uint64_t>(described.artifact_size() - shown) + described.artifacts_left_out();
  if (shown == 0) return more == 0 ? "-" : absl::StrCat(more, ", which are not listed");
  const std::string names = absl::StrJoin(described.artifact().begin(), described.artifact().begin() + shown, ", ");
  return more == 0 ? names : absl::StrCat(names, " and ", more, " more");
}

std::string JobText(const DescribeJobResponse& described, const RestartCauses& causes) {
  const JobSummary& job = described.job();
  std::string state = StateName(job.state());
  if (job.held()) absl::StrAppend(&state, ", held");
  if (job.queue_position() > 0) absl::StrAppend(&state, ", number ", job.queue_position(), " in the queue");
  std::vector<std::vector<std::string>> rows = {{"job", job.job_id()},
                                                {"name", job.name()},
                                                {"state", state},
                                                {"ranks", absl::StrCat(job.ranks())},
                                                {"priority", absl::StrCat(job.priority())},
                                                {"submitted", TimeText(job.submitted_unix_ms())},
                                                {"started", TimeText(job.started_unix_ms())},
                                                {"ended", TimeText(job.ended_unix_ms())},
                                                {"attempt", AttemptText(job)},
                                                {"plan", described.plan_hash().empty() ? "-" : described.plan_hash()},
                                                {"output", described.spec().output_dir()},
                                                {"artifacts", ArtifactsText(described)}};
  if (!described.replaced_by().empty()) {
    rows.push_back({"replaced", absl::StrCat("its results, by ", described.replaced_by())});
  }
  if (!causes.empty()) rows.insert(rows.begin() + 9, {"restarts", RestartsText(job, causes)});
  if (!job.reason().empty()) rows.insert(rows.begin() + 3, {job.state() == PENDING ? "waits" : "reason", job.reason()});
  if (!job.owner().empty()) rows.insert(rows.begin() + 2, {"owner", job.owner()});
  const std::string progress = ProgressText(job.progress());
  if (!progress.empty()) rows.push_back({job.state() == RUNNING ? "progress" : "last report", progress});
  if (job.progress().resumed_step() > 0) {
    rows.push_back({"resumed", absl::StrCat("from the checkpoint of step ", job.progress().resumed_step())});
  }
  if (job.state() == SUCCEEDED) rows.push_back({"result", EndLine(job)});
  for (std::vector<std::string>& row : ClassRows(job.progress())) rows.push_back(std::move(row));
  AddMemory(described, rows);
  AddStep(described, rows);
  AddTrace(described, rows);
  AddTimes(described, rows);
  return TextTable(rows);
}

}  // namespace

absl::StatusOr<RestartCauses> CausesOf(CoordinatorClient& client, const JobSummary& job) {
  RestartCauses causes;
  if (job.attempts() <= 1) return causes;
  std::string cause;
  ADJOIN_RETURN_IF_ERROR(client.ReadEvents(job.job_id(), /*follow=*/false, [&](const JobEvent& event) {
    if (event.kind() == "retried") causes.clear();
    if (event.kind() == "attempt_ended") cause = event.text().substr(0, event.text().find(':'));
    if (event.kind() == "restarting") ++causes[cause];
  }));
  return causes;
}

std::string DescriptionText(const DescribeJobResponse& described, const RestartCauses& causes) {
  return absl::StrCat(JobText(described, causes), described.rank_size() > 0 ? RanksText(described) : "",
                      LayersText(described), SlowText(described));
}

}  // namespace adjoin
