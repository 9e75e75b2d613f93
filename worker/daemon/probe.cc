#include "worker/daemon/probe.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/extent_plan.h"
#include "planner/spec/field_files.h"
#include "planner/spec/sample_shape.h"
#include "worker/data/array_file.h"
#include "worker/data/path_rules.h"
#include "worker/samples/sample_extents.h"
#include "worker/samples/sample_rule.h"

namespace adjoin {
namespace {

absl::Status Within(const std::string& where, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(where, ": ", std::string(status.message())));
}

absl::StatusOr<HeldPath> Find(const std::string& root, const std::string& path) {
  absl::StatusOr<HeldPath> file = HoldBelow(root, path);
  if (!absl::IsNotFound(file.status())) return file;
  return absl::NotFoundError(absl::StrCat(std::string(file.status().message()), " below the worker's data root"));
}

bool Stopped(const ProbeLimits& limits) { return limits.stop != nullptr && limits.stop->load(); }

// `where` names the field; `place` gets the part of it that an error speaks of.
absl::StatusOr<int64_t> SamplesOf(const std::string& root, const Field& field, const std::string& where,
                                  const ProbeLimits& limits, CheckLimits& left, SampleExtents& extents,
                                  std::string& place) {
  if (field.has_synthetic()) return field.synthetic().samples();
  const File* files = FilesOf(field);
  if (files == nullptr) return absl::InvalidArgumentError("it says nothing of where it comes from");
  std::optional<std::vector<int64_t>> sample_shape;
  if (!field.shape().empty()) sample_shape.emplace(field.shape().begin(), field.shape().end());
  int64_t samples = 0;
  for (int i = 0; i < files->path_size(); ++i) {
    const std::string& path = files->path(i);
    place = absl::StrCat(SourceName(field), ".path[", i, "]");
    if (Stopped(limits)) return absl::CancelledError("the worker stops");
    if (limits.at) limits.at(absl::StrCat("'", path, "' (", where, ")"), absl::StrCat(root, "/", path));
    ADJOIN_ASSIGN_OR_RETURN(const HeldPath file, Find(root, path));
    ArrayFileOptions options;
    options.format = SourceName(field);
    options.object = files->object();
    options.name = absl::StrCat("'", path, "'");
    ADJOIN_ASSIGN_OR_RETURN(const ArrayHeader header, CheckArrayFile(file.path(), options, &left));
    const absl::StatusOr<int64_t> own = SamplesIn(header, sample_shape);
    if (!own.ok()) return Within(options.name, own.status());
    samples += *own;
    if (!HasVaryingExtents(field)) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, SampleShapeIn(header, *sample_shape));
    ADJOIN_RETURN_IF_ERROR(extents.Add(field.name(), options.name, shape));
  }
  return samples;
}

absl::StatusOr<int64_t> SamplesOf(const std::string& root, const Dataset& dataset, const ProbeLimits& limits,
                                  CheckLimits& left, SampleExtents& extents, std::string& place) {
  int64_t samples = 0;
  for (int i = 0; i < dataset.field_size(); ++i) {
    std::string where = absl::StrCat("data set '", dataset.name(), "', field '", dataset.field(i).name(), "'");
    std::string within;
    absl::StatusOr<int64_t> own = SamplesOf(root, dataset.field(i), where, limits, left, extents, within);
    place = absl::StrCat("field[", i, "]", own.ok() || within.empty() ? "" : ".", own.ok() ? "" : within);
    if (!own.ok()) return Within(where, own.status());
    if (i > 0 && *own != samples) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has ", *own, " samples, field '", dataset.field(0).name(),
                                                     "' has ", samples, ": they have to be as many"));
    }
    samples = *own;
  }
  return samples;
}

// Plans the job's network for the extents of each file, while there is time. What there is no time for, and layers of a
// user's own, the ranks check.
class ExtentChecks {
 public:
  ExtentChecks(const JobSpec& job, const ProbeLimits& limits) : job_(job), limits_(limits) {}

  absl::Status Check(const Dataset& dataset, const SampleExtents& extents, std::string& place) {
    const LayerRules& rules = BuiltinLayerRules();
    if (IsOver() || !ExtentCheck::Concerns(job_, dataset) || !ExtentCheck::KnowsAllLayers(job_, rules)) {
      return absl::OkStatus();
    }
    if (check_ == nullptr) {
      if (limits_.at) limits_.at("planning the job", "");
      ADJOIN_ASSIGN_OR_RETURN(check_, ExtentCheck::Create(job_, rules));
    }
    int varying = 0;
    while (!HasVaryingExtents(dataset.field(varying))) ++varying;
    const Field& field = dataset.field(varying);
    const std::string where = absl::StrCat("data set '", dataset.name(), "', field '", field.name(), "'");
    const int64_t used = UsedSamples(dataset, extents.size());
    for (int64_t sample = 0; sample < used && !IsOver(); ++sample) {
      if (limits_.at) {
        limits_.at(absl::StrCat("planning the job for the extents of ", extents.FileOf(sample), " (", where, ")"), "");
      }
      const absl::Status status = check_->Check(dataset.name(), extents.FileOf(sample), extents[sample]);
      if (status.ok()) continue;
      place = absl::StrCat("field[", varying, "].", SourceName(field), ".path[", sample, "]");
      return Within(where, status);
    }
    return absl::OkStatus();
  }

 private:
  bool IsOver() const { return Stopped(limits_) || limits_.deadline.Expired(); }

  const JobSpec& job_;
  const ProbeLimits& limits_;
  std::unique_ptr<ExtentCheck> check_;  // made where it is needed first
};

absl::Status ProbeAll(const std::string& root, const ProbeData& request, const ProbeLimits& limits,
                      ProbeResult& result) {
  CheckLimits left;
  left.bytes = limits.bytes;
  left.enough = [&limits] { return Stopped(limits) || limits.deadline.Expired(); };
  ExtentChecks checks(request.job(), limits);
  for (int i = 0; i < request.dataset_size(); ++i) {
    const Dataset& dataset = request.dataset(i);
    std::string within;
    SampleExtents extents(dataset);
    const absl::StatusOr<int64_t> samples = SamplesOf(root, dataset, limits, left, extents, within);
    absl::Status status = samples.status();
    if (status.ok()) status = checks.Check(dataset, extents, within);
    if (!status.ok()) {
      result.set_field(absl::StrCat("dataset[", i, "].", within));
      return status;
    }
    DatasetSize& size = *result.add_dataset();
    size.set_name(dataset.name());
    size.set_samples(*samples);
    if (!extents.empty()) size.set_extents(extents.Hash());
  }
  return absl::OkStatus();
}

}  // namespace

ProbeResult Probe(const std::string& data_root, const ProbeData& request, const ProbeLimits& limits) {
  ProbeResult result;
  absl::Status status = ProbeAll(data_root, request, limits, result);
  if (!status.ok()) result.set_error(std::string(status.message()));
  result.set_request_id(request.request_id());
  return result;
}

}  // namespace adjoin
