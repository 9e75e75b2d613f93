#include "cli/derived_job.h"

#include <algorithm>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "planner/spec/whole_volumes.h"

namespace adjoin {
namespace {

template <typename... Args>
absl::Status Wrong(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckData(const JobSpec& data) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  data.GetReflection()->ListFields(data, &fields);
  for (const auto* field : fields) {
    if (field->number() == JobSpec::kDatasetFieldNumber) continue;
    return Wrong("--data: the file has ", field->name(), "; only dataset { ... } belongs there");
  }
  return absl::OkStatus();
}

// Returns the job's data sets with those of `data` in place of, or after, its own.
std::vector<Dataset> DatasetsOf(const JobSpec& trained, const JobSpec& data) {
  std::vector<Dataset> datasets(trained.dataset().begin(), trained.dataset().end());
  for (const Dataset& each : data.dataset()) {
    const auto same =
        std::find_if(datasets.begin(), datasets.end(), [&](const Dataset& own) { return own.name() == each.name(); });
    if (same == datasets.end()) {
      datasets.push_back(each);
    } else {
      *same = each;
    }
  }
  return datasets;
}

absl::StatusOr<Dataset> ChooseDataset(const JobSpec& trained, const DerivedJobOptions& options) {
  const std::vector<Dataset> datasets = DatasetsOf(trained, options.data);
  std::string name = options.dataset;
  if (name.empty() && options.data.dataset_size() == 1) name = options.data.dataset(0).name();
  if (name.empty() && options.data.dataset().empty()) {
    name = trained.has_evaluate() ? trained.evaluate().dataset() : trained.train().validate_on();
    if (name.empty() && datasets.size() == 1) name = datasets[0].name();
  }
  std::vector<std::string> names;
  for (const Dataset& dataset : datasets) {
    if (!name.empty() && dataset.name() == name) return dataset;
    names.push_back(dataset.name());
  }
  const std::string known = absl::StrCat("; there are: ", absl::StrJoin(names, ", "));
  if (name.empty()) return Wrong("say which data set with --dataset", known);
  return Wrong("--dataset: there is no data set \"", name, "\"", known);
}

absl::Status SetPredict(const JobSpec& trained, const DerivedJobOptions& options, DerivedJob& derived) {
  Predict& predict = *derived.spec.mutable_predict();
  Dataset& dataset = *derived.spec.mutable_dataset(0);
  predict.set_dataset(dataset.name());
  predict.set_format(options.format);
  predict.set_classes(options.classes);
  predict.set_batch(options.batch);
  *predict.mutable_input() = {options.input.begin(), options.input.end()};
  for (const Loss& loss : trained.loss()) {
    const bool named = std::find(predict.input().begin(), predict.input().end(), loss.input()) != predict.input().end();
    if (options.input.empty() && !named) predict.add_input(loss.input());
  }
  if (predict.input().empty()) return Wrong("the job has no loss, so say with --input which layer's output is written");
  derived.spec.clear_loss();
  if (dataset.has_blocks()) {
    derived.notices.push_back(
        absl::StrCat("data set \"", dataset.name(), "\" is predicted in whole samples, not in blocks of ",
                     absl::StrJoin(dataset.blocks().size(), "x"),
                     ": each rank needs the memory for its part of a sample; `adjoin plan` of what --dry-run prints "
                     "shows it"));
  }
  dataset.clear_blocks();
  dataset.clear_augment();
  dataset.clear_shuffle();
  return absl::OkStatus();
}

void SetEvaluate(const JobSpec& trained, const DerivedJobOptions& options, DerivedJob& derived) {
  Evaluate& evaluate = *derived.spec.mutable_evaluate();
  evaluate.set_dataset(derived.spec.dataset(0).name());
  const uint32_t own = trained.evaluate().batch() > 0 ? trained.evaluate().batch() : trained.train().batch();
  const bool one_by_one = HasWholeVolumes(derived.spec.dataset(0));
  evaluate.set_batch(options.batch > 0 ? options.batch : one_by_one ? 1 : own);
  if (options.metric.empty()) {
    *evaluate.mutable_metric() = trained.evaluate().metric();
    if (evaluate.metric().empty()) evaluate.add_metric("loss");
  } else {
    *evaluate.mutable_metric() = {options.metric.begin(), options.metric.end()};
  }
  const bool psnr = std::find(evaluate.metric().begin(), evaluate.metric().end(), "psnr") != evaluate.metric().end();
  if (psnr) evaluate.set_range(trained.evaluate().range());
}

}  // namespace

absl::StatusOr<DerivedJob> DeriveJob(const JobSpec& trained, const DerivedJobOptions& options) {
  if (trained.kind() != TRAIN) {
    return Wrong("the job is of kind ", Kind_Name(trained.kind()), " and has no model: name the job that trained it");
  }
  if (trained.output_dir().empty()) return Wrong("the job has no output_dir, in which its model would be");
  ADJOIN_RETURN_IF_ERROR(CheckData(options.data));
  ADJOIN_ASSIGN_OR_RETURN(Dataset dataset, ChooseDataset(trained, options));
  const std::string suffix = options.kind == PREDICT ? "-predict" : "-evaluate";
  DerivedJob derived;
  derived.spec = trained;
  JobSpec& spec = derived.spec;
  spec.set_kind(options.kind);
  spec.set_name(!options.name.empty() ? options.name : trained.name().empty() ? "" : trained.name() + suffix);
  spec.set_output_dir(options.output_dir.empty() ? trained.output_dir() + suffix : options.output_dir);
  spec.clear_train();
  spec.clear_checkpoint();
  spec.clear_evaluate();
  spec.clear_predict();
  spec.clear_verify();
  spec.clear_dataset();
  *spec.add_dataset() = std::move(dataset);
  spec.clear_weights();
  if (options.from_job.empty()) {
    spec.mutable_weights()->set_from_output(absl::StrCat(trained.output_dir(), "/", kModelFile));
  } else {
    spec.mutable_weights()->set_from_job(options.from_job);
    spec.mutable_weights()->set_best(options.best);
    spec.mutable_weights()->set_step(options.step);
  }
  if (options.kind == PREDICT) {
    ADJOIN_RETURN_IF_ERROR(SetPredict(trained, options, derived));
  } else {
    SetEvaluate(trained, options, derived);
  }
  return derived;
}

}  // namespace adjoin
