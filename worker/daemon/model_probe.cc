#include "worker/daemon/model_probe.h"

#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/checks/metric_rule.h"
#include "worker/checkpoint/checkpoint_model.h"
#include "worker/checkpoint/checkpoint_place.h"
#include "worker/checkpoint/file_system.h"
#include "worker/data/path_rules.h"
#include "worker/model/file_sums.h"
#include "worker/model/model_differences.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

// `as_home`: the tensors of a checkpoint.
absl::Status Compare(const std::string& path, const std::vector<SafetensorsEntry>& file, const ModelProbe& request,
                     bool as_home) {
  if (request.tensor().empty()) return absl::OkStatus();
  std::vector<NamedShape> model;
  for (const ModelTensor& tensor : request.tensor()) {
    const auto& shape = as_home && !tensor.home_shape().empty() ? tensor.home_shape() : tensor.shape();
    model.push_back({tensor.name(), {shape.begin(), shape.end()}});
  }
  const bool strict = !request.weights().has_strict() || request.weights().strict();
  return CheckDifferences(path, CompareModel(file, model), strict);
}

// `found`: gets the file.
absl::Status Check(const std::string& root, const std::string& path, const char* root_name, const ModelProbe& request,
                   std::optional<HeldPath>& found) {
  absl::StatusOr<HeldPath> held = HoldBelow(root, path);
  if (absl::IsNotFound(held.status())) {
    return absl::NotFoundError(
        absl::StrCat(std::string(held.status().message()), " below the worker's ", root_name, " root"));
  }
  ADJOIN_RETURN_IF_ERROR(held.status());
  const absl::StatusOr<std::unique_ptr<SafetensorsReader>> file = SafetensorsReader::Open(held->path(), path);
  if (!file.ok()) return held->AsShown(file.status());
  ADJOIN_RETURN_IF_ERROR(Compare(path, (*file)->entries(), request, /*as_home=*/false));
  found = *std::move(held);
  return absl::OkStatus();
}

absl::Status CheckCheckpoint(const std::string& root, const std::string& path, const ModelProbe& request) {
  const std::optional<CheckpointPlace> place = CheckpointPlace::Parse(path);
  DiskFiles files(root);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, place->dir, place->name);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(absl::StrCat("'", path, "': no such checkpoint below the worker's output root"));
  }
  ADJOIN_RETURN_IF_ERROR(manifest.status());
  return Compare(path, WeightsIn(*manifest), request, /*as_home=*/true);
}

// Chooses one of the checkpoints of weights.from_job.
absl::Status CheckOneOf(const std::string& root, const ModelProbe& request, ProbeResult& result) {
  const CheckpointRead& read = request.checkpoint();
  ADJOIN_ASSIGN_OR_RETURN(const Metric metric, ParseMetric(read.metric().empty() ? "loss" : read.metric()));
  DiskFiles files(root);
  const CheckpointModel::Source source = {
      .files = &files,
      .dir = read.dir(),
      .tag = read.job_tag(),
      .validation = {.keep_best = metric.name, .larger_is_better = metric.LargerIsBetter()}};
  const CheckpointModel::Choice choice = {
      .best = read.choice().best(), .step = static_cast<int64_t>(read.choice().step()), .newest = read.newest()};
  ADJOIN_ASSIGN_OR_RETURN(const Manifest manifest, CheckpointModel::Find(source, choice));
  const std::string path = CheckpointPlace{read.dir(), manifest.name}.ToString();
  ADJOIN_RETURN_IF_ERROR(Compare(path, WeightsIn(manifest), request, /*as_home=*/true));
  result.set_weights(path);
  return absl::OkStatus();
}

}  // namespace

std::string ModelProbePath(const std::string& data_root, const std::string& output_root, const ModelProbe& request) {
  const Weights& weights = request.weights();
  if (request.has_checkpoint()) return absl::StrCat(output_root, "/", request.checkpoint().dir());
  if (!weights.from_output().empty()) return absl::StrCat(output_root, "/", weights.from_output());
  return absl::StrCat(data_root, "/", weights.init_from());
}

void ProbeModel(const std::string& data_root, const std::string& output_root, const ModelProbe& request,
                ProbeResult& result, const ProbeLimits& limits) {
  const Weights& weights = request.weights();
  const bool of_job = request.has_checkpoint();
  const bool written = !weights.from_output().empty();
  const std::string field = of_job || !weights.from_job().empty() ? "weights.from_job"
                            : written                             ? "weights.from_output"
                                                                  : "weights.init_from";
  const std::string& file = written ? weights.from_output() : weights.init_from();
  if (limits.at) {
    limits.at(of_job ? absl::StrCat("the checkpoints in '", request.checkpoint().dir(), "' (", field, ")")
                     : absl::StrCat("'", file, "' (", field, ")"),
              ModelProbePath(data_root, output_root, request));
  }
  absl::Status status;
  std::optional<HeldPath> found;
  if (of_job) {
    status = CheckOneOf(output_root, request, result);
  } else if (CheckpointPlace::Parse(weights.from_output()).has_value()) {
    status = CheckCheckpoint(output_root, weights.from_output(), request);
  } else {
    status = Check(written ? output_root : data_root, file, written ? "output" : "data", request, found);
  }
  if (status.ok() && written && found.has_value()) {
    const absl::StatusOr<FileSums> sums = SumFile(found->path(), limits.deadline);
    status = sums.ok() ? absl::OkStatus() : found->AsShown(sums.status());
    if (sums.ok()) *result.mutable_weights_file() = *sums;
  }
  if (status.ok()) return;
  const std::string job = weights.from_job().empty() ? "" : absl::StrCat(weights.from_job(), ": ");
  result.set_error(absl::StrCat(field, ": ", job, std::string(status.message())));
  result.set_field(field);
}

}  // namespace adjoin
