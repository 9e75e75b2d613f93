// ClusterReport: what a job waits for.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "coordinator/decisions/cluster_report.h"
#include "coordinator/decisions/memory_need.h"
#include "coordinator/decisions/user_limits.h"
#include "coordinator/placement/assignment.h"
#include "coordinator/placement/rank_programs.h"
#include "coordinator/placement/shared_output.h"

namespace adjoin {
namespace {

constexpr size_t kMaxConditionInReason = 256;  // bytes: every job that waits repeats it

std::string Count(int64_t n, const std::string& noun) { return absl::StrCat(n, " ", noun, n == 1 ? "" : "s"); }

// Two jobs that ask for the same labels have the same text.
std::string LabelsText(const Resources& resources) {
  std::vector<std::string> labels;
  for (const auto& [label, value] : resources.node_label()) {
    labels.push_back(absl::StrCat(label.size(), ":", label, value.size(), ":", value));
  }
  std::sort(labels.begin(), labels.end());
  return absl::StrJoin(labels, " ");
}

// " with disk=ssd, zone=a"; "" where any worker may run the job.
std::string WithLabels(const Resources& resources) {
  std::vector<std::string> labels;
  for (const auto& [label, value] : resources.node_label()) labels.push_back(absl::StrCat(label, "=", value));
  std::sort(labels.begin(), labels.end());
  return labels.empty() ? "" : absl::StrCat(" with ", absl::StrJoin(labels, ", "));
}

// Two jobs that may take the same slots, were all of them free, have the same text.
std::string SlotsText(const JobSpec& spec) {
  const Resources& wanted = spec.resources();
  return absl::StrCat(spec.ranks(), " ", wanted.max_ranks_per_node(), " ", wanted.gpus(), " ", LabelsText(wanted));
}

}  // namespace

std::string ClusterReport::PendingReason(const JobRecord& job, ReasonContext& context) const {
  const std::string after = job.reason.empty() ? "" : absl::StrCat(" after: ", job.reason);
  if (job.held) return absl::StrCat("held: `adjoin release ", job.id, "` lets it start", after);
  if (!job.attempt.holders.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, holder] : job.attempt.holders) names.push_back(name);
    return absl::StrCat("starts again when no process of attempt ", job.attempt.epoch, " is left on ",
                        absl::StrJoin(names, ", "), after);
  }
  if (!parts_.queue.is_open()) {
    return absl::StrCat("no job starts while ", parts_.queue.why_closed(), after);
  }
  const absl::Duration now = parts_.options.Now();
  if (job.not_before > now) {
    return absl::StrCat("starts again in ", absl::FormatDuration(absl::Ceil(job.not_before - now, absl::Seconds(1))),
                        after);
  }
  if (TotalsIn(context).workers == 0) {
    const std::string& unfit = TotalsIn(context).unfit;
    return unfit.empty() ? "no worker is connected" : absl::StrCat(unfit, after);
  }
  if (job.data_check == DataCheck::kAsked) return absl::StrCat("its data files are being checked by ", job.checked_by);
  if (job.data_check != DataCheck::kDone) {
    return absl::StrCat("its data files are to be checked",
                        job.check_problem.empty() ? "" : " again: ", job.check_problem);
  }
  if (!parts_.homes.HomeOf(job).empty() && !parts_.homes.CouldEverStart(job)) {
    return absl::StrCat("waits for ", parts_.homes.Reason(job), after);
  }
  if (IsLimited(job)) {
    const std::string limit =
        SlotLimitReason(parts_.options.user_limits, job.owner, job.spec.ranks(), parts_.jobs.SlotsOfUserOf(job));
    if (!limit.empty()) return absl::StrCat(limit, after);
  }
  return absl::StrCat(SlotsReason(job, context), after);
}

std::string ClusterReport::UnfitReason() const {
  const WorkerRecord* first = nullptr;
  int64_t unfit = 0;
  for (const auto& [name, worker] : parts_.workers.All()) {
    const std::string state = parts_.workers.StateOf(worker);
    if (state != "unfit" && state != "set aside") continue;
    if (++unfit == 1) first = &worker;
  }
  if (unfit == 0) return "";
  return absl::StrCat(Count(unfit, "worker"), " can run no ranks (", first->hello.name(), ": ",
                      PrintableText(parts_.workers.ConditionOf(*first), kMaxConditionInReason),
                      unfit == 1 ? ")" : ", ...)");
}

const SlotTotals& ClusterReport::TotalsIn(ReasonContext& context) const {
  if (context.totals.has_value()) return *context.totals;
  SlotTotals& totals = context.totals.emplace();
  for (const auto& [name, worker] : parts_.workers.All()) {
    if (!parts_.workers.IsUsable(worker)) continue;
    totals.slots += worker.hello.slots();
    totals.free += worker.free.slots;
    totals.gpus += worker.hello.gpu_size();
    totals.free_gpus += worker.free.gpus;
    totals.gpu_workers += worker.hello.gpu_size() > 0 ? 1 : 0;
    ++totals.workers;
  }
  totals.unfit = UnfitReason();
  return totals;
}

const SlotTotals& ClusterReport::TotalsFor(ReasonContext& context, const Resources& wanted) const {
  if (wanted.node_label().empty()) return TotalsIn(context);
  auto [found, is_new] = context.labelled.try_emplace(LabelsText(wanted));
  SlotTotals& totals = found->second;
  if (!is_new) return totals;
  for (const FreeSlots& worker : parts_.workers.AllFor(wanted)) {
    totals.slots += worker.slots;
    totals.gpus += worker.gpus;
    totals.gpu_workers += worker.gpus > 0 ? 1 : 0;
    ++totals.workers;
  }
  for (const FreeSlots& worker : parts_.workers.FreeFor(wanted)) {
    totals.free += worker.slots;
    totals.free_gpus += worker.gpus;
  }
  return totals;
}

const std::string& ClusterReport::SharedOutputIn(ReasonContext& context, const JobSpec& spec) const {
  static const std::string* const kNothing = new std::string();
  if (!NeedsSharedOutput(spec)) return *kNothing;
  const std::string key = absl::StrCat(spec.kind(), " ", SlotsText(spec));
  auto [found, is_new] = context.shared_output.try_emplace(key);
  if (is_new) {
    found->second = std::string(CheckSharedOutput(spec, parts_.workers.AllInTimeFor(spec.resources())).message());
  }
  return found->second;
}

const std::string& ClusterReport::ProgramsIn(ReasonContext& context, const JobSpec& spec) const {
  auto [found, is_new] = context.programs.try_emplace(SlotsText(spec));
  if (is_new) found->second = ProgramsReason(spec, parts_.workers.AllInTimeFor(spec.resources()));
  return found->second;
}

const std::string& ClusterReport::MemoryIn(ReasonContext& context, const JobRecord& job) const {
  const RankNeed need = NeedOf(job);
  const Resources& wanted = job.spec.resources();
  const std::string key = absl::StrCat(need.memory, " ", need.gpu, " ", SlotsText(job.spec));
  auto [found, is_new] = context.memory.try_emplace(key);
  if (is_new) {
    found->second = MemoryReason(job.spec, need, parts_.workers.FreeFor(wanted), parts_.workers.AllInTimeFor(wanted));
  }
  return found->second;
}

std::string ClusterReport::SlotsReason(const JobRecord& job, ReasonContext& context) const {
  const Resources& resources = job.spec.resources();
  const SlotTotals& totals = TotalsFor(context, resources);
  const std::string with = WithLabels(resources);
  std::string reason = absl::StrCat("needs ", Count(job.spec.ranks(), "slot"), ", ");
  if (totals.workers == 0) {
    absl::StrAppend(&reason, "and no worker is there", with);
  } else {
    absl::StrAppend(&reason, totals.free, " of ", totals.slots, " free on ", Count(totals.workers, "worker"), with);
  }
  if (resources.gpus() > 0) {
    absl::StrAppend(&reason, ", and ", Count(int64_t{job.spec.ranks()} * resources.gpus(), "GPU"), ", ",
                    totals.free_gpus, " of ", totals.gpus, " free on ", Count(totals.gpu_workers, "worker"));
  }
  const std::string& unfit = TotalsIn(context).unfit;
  if (!unfit.empty()) absl::StrAppend(&reason, "; ", unfit);
  if (resources.max_ranks_per_node() > 0) {
    absl::StrAppend(&reason, ", at most ", resources.max_ranks_per_node(), " a node");
  }
  if (!parts_.homes.HomeOf(job).empty()) absl::StrAppend(&reason, ", on ", parts_.homes.Reason(job));
  const std::string& memory = MemoryIn(context, job);
  if (!memory.empty()) absl::StrAppend(&reason, "; ", memory);
  const std::string& shared = SharedOutputIn(context, job.spec);
  if (!shared.empty()) absl::StrAppend(&reason, "; ", shared);
  const std::string& programs = ProgramsIn(context, job.spec);
  if (!programs.empty()) absl::StrAppend(&reason, "; ", programs);
  if (!job.unassigned.empty()) absl::StrAppend(&reason, "; ", job.unassigned);
  const auto avoids = [&](const std::map<std::string, FailedStarts::Place>& places, absl::string_view why) {
    for (const auto& [worker, there] : places) {
      const absl::Duration left = absl::Ceil(there.avoid_until - parts_.options.Now(), absl::Seconds(1));
      if (left <= absl::ZeroDuration()) continue;
      absl::StrAppend(&reason, "; rather not on ", worker, " for ", absl::FormatDuration(left), ", where ", why);
    }
  };
  avoids(job.failed_starts.workers, "it failed to start");
  avoids(job.failed_starts.without_files, "file systems did not answer");
  if (job.spec.ranks() > totals.slots) {
    absl::StrAppend(&reason, "; it starts when more workers connect");
  } else if (int64_t{job.spec.ranks()} * resources.gpus() > totals.gpus) {
    absl::StrAppend(&reason, "; it starts when workers with more GPUs connect");
  }
  const uint32_t queue_position = parts_.jobs.QueuePosition(job);
  if (queue_position > 1) absl::StrAppend(&reason, "; behind ", Count(queue_position - 1, "other job"));
  const std::string& head = parts_.queue.blocked_head();
  if (!head.empty() && head != job.id) absl::StrAppend(&reason, "; it could delay ", head);
  return reason;
}

}  // namespace adjoin
