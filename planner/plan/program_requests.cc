#include "planner/plan/program_requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"
#include "planner/spec/sample_shape.h"
#include "planner/spec/whole_volumes.h"

namespace adjoin {

absl::StatusOr<std::optional<int64_t>> SamplesOf(const JobSpec& spec, const std::string& name,
                                                 const DatasetSizes& sizes) {
  const auto known = sizes.find(name);
  if (known == sizes.end()) return std::optional<int64_t>();
  int index = 0;
  while (spec.dataset(index).name() != name) ++index;
  if (known->second.samples < 1)
    return AtField(absl::StrCat("dataset[", index, "]"), InvalidSpec("its files hold no samples"));
  return std::optional<int64_t>(SampleCount(spec.dataset(index), known->second.samples));
}

namespace {

// Adds the program `request.name` for a data set that is evaluated or predicted, and its tail for the samples left
// over.
absl::Status AddForward(const JobSpec& spec, const DatasetSizes& sizes, const std::string& dataset, int64_t batch,
                        ProgramRequest request, std::vector<ProgramRequest>& programs) {
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, dataset, sizes));
  request.dataset = FindDataset(spec, dataset);
  if (HasWholeVolumes(*request.dataset)) {  // one at a time, each by a program for its extents
    request.batch = 1;
    programs.push_back(std::move(request));
    return absl::OkStatus();
  }
  request.batch = samples.has_value() ? std::min(batch, *samples) : batch;
  const int64_t left_over = samples.has_value() ? *samples % request.batch : 0;
  programs.push_back(request);
  if (left_over == 0) return absl::OkStatus();
  request.name += "_tail";
  request.batch = left_over;
  programs.push_back(std::move(request));
  return absl::OkStatus();
}

// Refuses a batch of whole volumes of different extents, which are no one tensor.
absl::Status CheckBatch(const JobSpec& spec, const std::string& dataset, const char* field, int64_t batch) {
  if (batch <= 1 || !HasWholeVolumes(*FindDataset(spec, dataset))) return absl::OkStatus();
  return AtField(
      field, InvalidSpec(field, " is ", batch, ", but the volumes of data set \"", dataset,
                         "\" differ in their extents (shape has -1), so they are taken one at a time; leave ", field,
                         " out, or write 1"));
}

absl::Status AddTraining(const JobSpec& spec, const DatasetSizes& sizes, std::vector<ProgramRequest>& programs) {
  const Train& train = spec.train();
  const int64_t batch = train.batch();
  const int64_t parts = std::max<int64_t>(1, train.microbatches());
  if (batch % parts != 0) {
    return AtField("train.microbatches",
                   InvalidSpec("train.microbatches is ", parts, ", which does not divide train.batch, ", batch));
  }
  const int64_t part = batch / parts;
  const Dataset* dataset = FindDataset(spec, train.dataset());
  ADJOIN_ASSIGN_OR_RETURN(const std::optional<int64_t> samples, SamplesOf(spec, train.dataset(), sizes));
  programs.push_back({.name = "train", .training = true, .dataset = dataset, .batch = part});
  if (samples.has_value() && train.drop_last() && *samples < batch) {
    return AtField("train.drop_last",
                   InvalidSpec("train.drop_last leaves nothing to train on: data set \"", train.dataset(), "\" has ",
                               *samples, " samples, less than a batch of ", batch));
  }
  const int64_t left_over = samples.has_value() && !train.drop_last() ? *samples % batch % part : 0;
  if (left_over > 0) {
    programs.push_back({.name = "train_tail", .training = true, .dataset = dataset, .batch = left_over});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ProgramRequest>> ProgramRequests(const JobSpec& spec, const DatasetSizes& sizes) {
  std::vector<ProgramRequest> programs;
  if (spec.kind() == TRAIN) ADJOIN_RETURN_IF_ERROR(AddTraining(spec, sizes, programs));
  const int64_t judged =
      spec.evaluate().batch() > 0 ? spec.evaluate().batch() : std::max<int64_t>(1, spec.train().batch());
  if (spec.kind() == TRAIN && !spec.train().validate_on().empty()) {
    ADJOIN_RETURN_IF_ERROR(AddForward(spec, sizes, spec.train().validate_on(), judged, {"validate"}, programs));
  }
  if (spec.kind() != PREDICT && spec.has_evaluate()) {
    ADJOIN_RETURN_IF_ERROR(CheckBatch(spec, spec.evaluate().dataset(), "evaluate.batch", spec.evaluate().batch()));
    ADJOIN_RETURN_IF_ERROR(AddForward(spec, sizes, spec.evaluate().dataset(), judged, {"evaluate"}, programs));
  }
  if (spec.kind() == PREDICT) {
    ADJOIN_RETURN_IF_ERROR(CheckBatch(spec, spec.predict().dataset(), "predict.batch", spec.predict().batch()));
    ProgramRequest predict = {"predict"};
    predict.with_losses = false;
    predict.with_outputs = true;
    ADJOIN_RETURN_IF_ERROR(AddForward(spec, sizes, spec.predict().dataset(),
                                      std::max<int64_t>(1, spec.predict().batch()), std::move(predict), programs));
  }
  return programs;
}

}  // namespace adjoin
