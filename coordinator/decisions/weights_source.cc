#include "coordinator/decisions/weights_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr char kField[] = "weights.from_job: ";

std::string StateOf(const JobRecord& job) { return absl::AsciiStrToLower(JobState_Name(job.state)); }

absl::Status CheckFolders(const JobTable& jobs, const JobRecord& job, const std::string& caller) {
  for (const std::string& folder : FoldersOf(job.spec)) {
    const std::optional<uint64_t> other = jobs.folders().OfAnother(folder, caller);
    if (!other.has_value()) continue;
    return absl::PermissionDeniedError(
        absl::StrCat(kField, "what ", job.id, " wrote is in \"", folder, "\", the folder of job-", *other,
                     ", which is somebody else's; copy the file below --data-root and write weights.init_from"));
  }
  return absl::OkStatus();
}

void SetPlaces(const JobRecord& job, const WorkerTable& workers, WeightsSource& source) {
  const std::string& first = job.attempt.ranks[0].worker;
  source.workers = {first};
  source.workers.insert(source.workers.end(), job.home_workers.begin(), job.home_workers.end());
  if (const WorkerRecord* worker = workers.Find(first)) source.output_id = worker->hello.output_id();
  if (source.output_id.empty()) source.output_id = job.home;  // no output_id has a blank, as other homes do
}

}  // namespace

bool WeightsSource::IsSeenBy(const std::string& name, const WorkerRecord& worker) const {
  if (!output_id.empty() && worker.hello.output_id() == output_id) return true;
  return std::find(workers.begin(), workers.end(), name) != workers.end();
}

absl::Status NameWeightsJob(const JobTable& jobs, const WorkerTable& workers, const std::string& caller,
                            bool any_folder, JobSpec& spec) {
  if (spec.weights().from_job().empty()) return absl::OkStatus();
  const absl::StatusOr<const JobRecord*> job = jobs.ResolveOne({spec.weights().from_job(), caller});
  if (!job.ok()) {
    return absl::Status(job.status().code(), absl::StrCat(kField, std::string(job.status().message())));
  }
  if (!any_folder) ADJOIN_RETURN_IF_ERROR(CheckFolders(jobs, **job, caller));
  spec.mutable_weights()->set_from_job((*job)->id);
  return FindWeights(jobs, workers, spec.weights()).status();
}

absl::StatusOr<WeightsSource> FindWeights(const JobTable& jobs, const WorkerTable& workers, const Weights& weights) {
  const JobRecord* job = jobs.Find(weights.from_job());
  if (job == nullptr || job->removing) {
    return absl::NotFoundError(absl::StrCat(kField, PrintableText(weights.from_job(), kMaxNameBytes),
                                            " is no more: it was removed, or ended and was forgotten"));
  }
  const auto lacks = [&](const std::string& what) {
    return absl::FailedPreconditionError(absl::StrCat(kField, job->id, " ", what));
  };
  if (job->spec.kind() == PREDICT || job->spec.kind() == EVALUATE) {
    return absl::InvalidArgumentError(absl::StrCat(kField, job->id, " is of kind ", Kind_Name(job->spec.kind()),
                                                   " and has no weights of its own: name the job that trained them"));
  }
  if (job->attempt.ranks.empty()) {
    return lacks(absl::StrCat("is ", StateOf(*job), " and has not started: it has left no weights",
                              IsFinal(job->state) ? "" : " yet"));
  }
  WeightsSource source;
  source.job = job->id;
  SetPlaces(*job, workers, source);
  const bool chosen = weights.best() || weights.step() > 0;
  if (!chosen && job->state == SUCCEEDED) {
    if (const uint64_t later = jobs.ReplacedBy(*job); later != 0) {
      return lacks(absl::StrCat("has no model any more: job-", later, " has replaced it in output_dir \"",
                                job->spec.output_dir(), "\"; name job-", later));
    }
    source.published = absl::StrCat(job->spec.output_dir(), "/", kModelFile);
    return source;
  }
  if (job->spec.checkpoint().dir().empty()) {
    return lacks(absl::StrCat("is ", StateOf(*job), " and writes no checkpoints (checkpoint { dir: ... }): ",
                              job->state == SUCCEEDED ? "leave out best and step, to take the model that it published"
                                                      : "its weights are there when it has succeeded"));
  }
  source.checkpoint.set_dir(job->spec.checkpoint().dir());
  source.checkpoint.set_job_tag(job->tag);
  source.checkpoint.mutable_choice()->set_best(weights.best());
  source.checkpoint.mutable_choice()->set_step(weights.step());
  source.checkpoint.set_metric(job->spec.checkpoint().keep_best());
  source.checkpoint.set_newest(!chosen);
  return source;
}

bool IsFor(const CheckpointRead& read, const std::string& path) {
  absl::string_view rest = path;
  if (path.size() > kMaxPathBytes || !absl::ConsumePrefix(&rest, absl::StrCat(read.dir(), "/step-"))) return false;
  const size_t dot = rest.find('.'), dash = rest.find('-');
  if (dot == absl::string_view::npos || dash == absl::string_view::npos || dash < dot) return false;
  uint64_t step = 0, epoch = 0;
  if (!absl::SimpleAtoi(rest.substr(0, dot), &step) ||
      !absl::SimpleAtoi(rest.substr(dot + 1, dash - dot - 1), &epoch)) {
    return false;
  }
  if (read.choice().step() != 0 && step != read.choice().step()) return false;
  return path == absl::StrFormat("%s/step-%010d.%d-%016x", read.dir(), step, epoch, read.job_tag());
}

ModelProbe ProbeOf(const Weights& weights, const WeightsSource& source, const std::vector<ModelTensor>& model) {
  ModelProbe probe;
  *probe.mutable_weights() = weights;
  *probe.mutable_tensor() = {model.begin(), model.end()};
  if (source.published.empty()) {
    *probe.mutable_checkpoint() = source.checkpoint;
  } else {
    probe.mutable_weights()->set_from_output(source.published);
  }
  return probe;
}

}  // namespace adjoin
