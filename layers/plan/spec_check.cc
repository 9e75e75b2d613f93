#include "layers/plan/spec_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "layers/plan/layer_kind.h"
#include "layers/plan/loss_rule.h"
#include "layers/plan/run_check.h"
#include "layers/plan/spec_error.h"
#include "layers/plan/supported_fields.h"

namespace adjoin {
namespace {

absl::Status CheckName(absl::string_view what, const std::string& name) {
  if (name.empty()) return InvalidSpec(what, " needs a name");
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.') {
      return AtField("name", InvalidSpec("the name \"", name, "\" may have letters, digits, '-', '_' and '.' only"));
    }
  }
  return absl::OkStatus();
}

// Paths are relative to a root that a job must not leave.
absl::Status CheckPath(absl::string_view field, absl::string_view root, const std::string& path) {
  bool leaves = !path.empty() && path[0] == '/';
  for (absl::string_view part : absl::StrSplit(path, '/')) leaves = leaves || part == "..";
  if (!leaves) return absl::OkStatus();
  return AtField(field, InvalidSpec("the path \"", path, "\" must be relative to the worker's ", root,
                                    " and stay below it: no leading '/', no '..'"));
}

absl::Status CheckOutputDir(const std::string& path) {
  ADJOIN_RETURN_IF_ERROR(CheckPath("output_dir", "--output-root", path));
  const absl::string_view reserved = ReservedName(path);
  if (reserved.empty()) return absl::OkStatus();
  return AtField("output_dir", InvalidSpec("the path \"", path, "\" holds \"", reserved, "\"; ", kReservedNames));
}

absl::Status CheckFinite(absl::string_view field, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return AtField(field, InvalidSpec(field, " is ", value, "; it must be a finite number"));
}

absl::Status CheckCount(absl::string_view what, int64_t count, int64_t most) {
  if (count <= most) return absl::OkStatus();
  return InvalidSpec("it has ", count, " ", what, "; at most ", most, " are possible");
}

// Far beyond what jobs have, and little enough that planning ends soon, whatever the numbers in them.
absl::Status CheckCounts(const JobSpec& spec) {
  constexpr int64_t kMostLayers = 10000, kMostLayouts = 1000, kMostLosses = 100, kMostDatasets = 1000, kMostFields = 1000;
  constexpr int64_t kMostDims = 16;
  ADJOIN_RETURN_IF_ERROR(CheckCount("layers", spec.layer_size(), kMostLayers));
  ADJOIN_RETURN_IF_ERROR(CheckCount("layouts", spec.layout_size(), kMostLayouts));
  ADJOIN_RETURN_IF_ERROR(CheckCount("losses", spec.loss_size(), kMostLosses));
  ADJOIN_RETURN_IF_ERROR(CheckCount("data sets", spec.dataset_size(), kMostDatasets));
  for (int i = 0; i < spec.layout_size(); ++i) {
    const LayoutSpec& layout = spec.layout(i);
    const std::string at = absl::StrCat("layout[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckCount("numbers in its partition", layout.partition_size(), kMostDims)));
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckCount("axes of its mesh", layout.mesh_size(), kMostDims)));
  }
  for (int i = 0; i < spec.dataset_size(); ++i) {
    const Dataset& dataset = spec.dataset(i);
    const std::string at = absl::StrCat("dataset[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckCount("fields", dataset.field_size(), kMostFields)));
    for (int k = 0; k < dataset.field_size(); ++k) {
      ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat(at, ".field[", k, "]"),
                                     CheckCount("dims in its shape", dataset.field(k).shape_size(), kMostDims)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckJob(const JobSpec& spec, uint32_t max_ranks) {
  if (!spec.name().empty()) ADJOIN_RETURN_IF_ERROR(CheckName("a job", spec.name()));
  if (spec.kind() != TRAIN) {
    if (spec.kind() == KIND_UNSPECIFIED) return AtField("kind", InvalidSpec("kind is missing; write kind: TRAIN"));
    const std::string name = Kind_IsValid(spec.kind()) ? Kind_Name(spec.kind()) : absl::StrCat(spec.kind());
    return AtField("kind", NotSupportedYet(absl::StrCat("kind ", name), "TRAIN is"));
  }
  if (spec.ranks() < 1 || spec.ranks() > max_ranks) {
    return AtField("ranks", InvalidSpec("ranks is ", spec.ranks(), "; it must be from 1 to ", max_ranks));
  }
  if (spec.layer().empty()) return InvalidSpec("the job has no layer");
  if (spec.loss().empty()) {
    return InvalidSpec("a job that trains needs a loss: loss { kind: \"cross_entropy\" input: ... target: ... }");
  }
  ADJOIN_RETURN_IF_ERROR(CheckOutputDir(spec.output_dir()));
  if (!spec.has_weights()) return absl::OkStatus();
  if (spec.weights().has_strict() && !spec.weights().strict()) {
    return AtField("weights.strict", NotSupportedYet("weights.strict: false", "every parameter must be in the file"));
  }
  if (spec.weights().init_from().empty()) {
    return AtField("weights", InvalidSpec("weights.init_from is missing: the file to start from"));
  }
  return CheckPath("weights.init_from", "--data-root", spec.weights().init_from());
}

absl::Status CheckLayers(const JobSpec& spec, const LayerRules& rules) {
  std::set<std::string> names;
  for (int i = 0; i < spec.layer_size(); ++i) {
    const Layer& layer = spec.layer(i);
    const std::string at = absl::StrCat("layer[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckName("a layer", layer.name())));
    if (!names.insert(layer.name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another layer has this name; names are unique"));
    }
    for (const Dataset& dataset : spec.dataset()) {
      if (FindField(dataset, layer.name()) == nullptr) continue;
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("data set \"", dataset.name(),
                                                            "\" has a field of this name,"
                                                            " so that `input` could mean either; rename one"));
    }
    if (layer.op_case() == Layer::OP_NOT_SET) {
      return AtField(at, InvalidSpec("says nothing of what it does; write one of these: ",
                                     absl::StrJoin(rules.Kinds(), " {}, "), " {}"));
    }
    if (layer.has_custom() && Layer::descriptor()->FindFieldByName(layer.custom().type()) != nullptr) {
      // Its rule would look into another field and take no notice of `arg`.
      return AtField(absl::StrCat(at, ".custom.type"),
                     InvalidSpec("\"", layer.custom().type(), "\" is a field of Layer, not the type of a layer of"
                                 " one's own; write ", layer.custom().type(), " { ... } instead of custom { ... }"));
    }
    if (layer.has_custom() && rules.Find(layer.custom().type()) == nullptr) {
      return AtField(absl::StrCat(at, ".custom.type"),
                     InvalidSpec("layer type \"", layer.custom().type(),
                                 "\" is not known; these are: ", absl::StrJoin(rules.Kinds(), ", ")));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLoss(const Loss& loss, const JobSpec& spec) {
  ADJOIN_RETURN_IF_ERROR(CheckLossFields(loss));
  if (loss.input().empty()) return InvalidSpec("input is missing: the layer whose output is the prediction");
  if (loss.target().empty()) return InvalidSpec("target is missing: the field of the data set to compare with");
  for (const Layer& layer : spec.layer()) {
    if (layer.name() == loss.input()) return absl::OkStatus();
  }
  return AtField("input", InvalidSpec("there is no layer \"", loss.input(), "\"; the last one is \"",
                                      spec.layer(spec.layer_size() - 1).name(), "\""));
}

absl::Status CheckField(const Field& field) {
  ADJOIN_RETURN_IF_ERROR(CheckName("a field", field.name()));
  if (field.source_case() == Field::SOURCE_NOT_SET) {
    return InvalidSpec("says nothing of where it comes from; write idx { path: ... }");
  }
  if (field.idx().path().empty()) return AtField("idx", InvalidSpec("idx.path is missing: the file"));
  for (int i = 0; i < field.idx().path_size(); ++i) {
    if (field.idx().path(i).empty()) return AtField(absl::StrCat("idx.path[", i, "]"), InvalidSpec("an empty path"));
    ADJOIN_RETURN_IF_ERROR(CheckPath(absl::StrCat("idx.path[", i, "]"), "--data-root", field.idx().path(i)));
  }
  if (!field.dtype().empty() && field.dtype() != "float32" && field.dtype() != "float64" && field.dtype() != "int64") {
    return AtField("dtype",
                   InvalidSpec("dtype \"", field.dtype(), "\" is not one of \"float32\", \"float64\", \"int64\""));
  }
  for (int i = 0; i < field.shape_size(); ++i) {
    if (field.shape(i) < 1) {
      return AtField(absl::StrCat("shape[", i, "]"),
                     InvalidSpec("shape has ", field.shape(i), "; every extent must be at least 1"));
    }
  }
  const int64_t channels = field.shape_size() > 0 ? field.shape(0) : 1;
  for (const auto* list : {&field.mean(), &field.std()}) {
    const char* name = list == &field.mean() ? "mean" : "std";
    if (list->size() > 1 && list->size() != channels) {
      return AtField(
          name, InvalidSpec(name, " has ", list->size(), " values; write one, or one per channel (", channels, ")"));
    }
    for (double value : *list) ADJOIN_RETURN_IF_ERROR(CheckFinite(name, value));
  }
  for (double value : field.std()) {
    if (value == 0) return AtField("std", InvalidSpec("std is 0; values are divided by it"));
  }
  return CheckFinite("scale", field.scale());
}

absl::Status CheckDataset(const Dataset& dataset) {
  ADJOIN_RETURN_IF_ERROR(CheckName("a data set", dataset.name()));
  if (dataset.field().empty()) return InvalidSpec("it has no field");
  if (dataset.has_limit() && dataset.limit() < 1) {
    return AtField("limit", InvalidSpec("limit is ", dataset.limit(), "; it must be at least 1"));
  }
  std::set<std::string> names;
  for (int i = 0; i < dataset.field_size(); ++i) {
    const std::string at = absl::StrCat("field[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckField(dataset.field(i))));
    if (!names.insert(dataset.field(i).name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another field has this name; names are unique"));
    }
  }
  return absl::OkStatus();
}

// The data set called `name` in `field`.
absl::Status CheckReference(const JobSpec& spec, absl::string_view field, const std::string& name) {
  if (name.empty()) return InvalidSpec(field, " is missing: the name of a data set");
  if (FindDataset(spec, name) != nullptr) return absl::OkStatus();
  std::vector<std::string> known;
  for (const Dataset& dataset : spec.dataset()) known.push_back(dataset.name());
  return AtField(
      field, InvalidSpec("there is no data set \"", name, "\"; ",
                         known.empty() ? "the job has none" : absl::StrCat("known are ", absl::StrJoin(known, ", "))));
}

absl::Status CheckSgd(const Sgd& sgd) {
  for (double value : {sgd.lr(), sgd.momentum(), sgd.dampening(), sgd.weight_decay()}) {
    ADJOIN_RETURN_IF_ERROR(CheckFinite("train.optimizer.sgd", value));
  }
  if (!(sgd.lr() > 0)) {
    return AtField("train.optimizer.sgd.lr",
                   InvalidSpec("train.optimizer.sgd.lr is ", sgd.lr(), "; it must be above 0"));
  }
  if (sgd.momentum() < 0 || sgd.weight_decay() < 0) {
    return AtField(sgd.momentum() < 0 ? "train.optimizer.sgd.momentum" : "train.optimizer.sgd.weight_decay",
                   InvalidSpec("momentum and weight_decay of train.optimizer.sgd must not be negative"));
  }
  if (sgd.nesterov() && (sgd.momentum() == 0 || sgd.dampening() != 0)) {
    return AtField("train.optimizer.sgd.nesterov",
                   InvalidSpec("nesterov of train.optimizer.sgd needs a momentum above 0 and no dampening"));
  }
  return absl::OkStatus();
}

// Counted exactly, also where they are written as JSON.
constexpr uint64_t kMostSteps = uint64_t{1} << 53;

absl::Status CheckTrain(const JobSpec& spec) {
  if (!spec.has_train())
    return InvalidSpec("train is missing: train { dataset: ... batch: ... epochs: ... optimizer {...} }");
  const Train& train = spec.train();
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "train.dataset", train.dataset()));
  if (train.batch() < 1) return AtField("train.batch", InvalidSpec("train.batch is 0; it must be at least 1"));
  if (train.length_case() == Train::LENGTH_NOT_SET) {
    return AtField("train", InvalidSpec("train.epochs or train.steps is missing: when to stop"));
  }
  if (train.has_epochs() ? train.epochs() < 1 : train.steps() < 1) {
    const char* field = train.has_epochs() ? "train.epochs" : "train.steps";
    return AtField(field, InvalidSpec(field, " is 0; it must be at least 1"));
  }
  if (train.has_steps() && train.steps() > kMostSteps) {
    return AtField("train.steps", InvalidSpec("train.steps is ", train.steps(), "; at most 2^53 are possible"));
  }
  if (train.microbatches() > 1) {
    return AtField("train.microbatches",
                   NotSupportedYet(absl::StrCat("train.microbatches: ", train.microbatches()), "1 is"));
  }
  if (!train.has_optimizer() || !train.optimizer().has_sgd()) {
    return AtField("train", InvalidSpec("train.optimizer is missing: optimizer { sgd { lr: 0.01 } }"));
  }
  return CheckSgd(train.optimizer().sgd());
}

absl::Status CheckEvaluate(const JobSpec& spec) {
  if (!spec.has_evaluate()) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "evaluate.dataset", spec.evaluate().dataset()));
  if (spec.evaluate().metric().empty()) {
    return AtField("evaluate", InvalidSpec("evaluate.metric is missing; write metric: \"accuracy\""));
  }
  for (int i = 0; i < spec.evaluate().metric_size(); ++i) {
    const std::string at = absl::StrCat("evaluate.metric[", i, "]");
    const std::string& metric = spec.evaluate().metric(i);
    if (metric == "loss") continue;
    if (metric != "accuracy") {
      return AtField(at, NotSupportedYet(absl::StrCat("metric \"", metric, "\""), "\"accuracy\" and \"loss\" are"));
    }
    if (std::none_of(spec.loss().begin(), spec.loss().end(), IsClassification)) {
      return AtField(at, InvalidSpec("metric \"accuracy\" needs a loss that says what is right, of kind"
                                     " \"cross_entropy\" or \"nll\"; the job has none: write metric: \"loss\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSpec(const JobSpec& spec, const LayerRules& rules, uint32_t max_ranks) {
  ADJOIN_RETURN_IF_ERROR(CheckCounts(spec));
  ADJOIN_RETURN_IF_ERROR(CheckJob(spec, max_ranks));
  ADJOIN_RETURN_IF_ERROR(CheckSupportedFields(spec, rules));
  ADJOIN_RETURN_IF_ERROR(ComputeType(spec).status());
  ADJOIN_RETURN_IF_ERROR(CheckLayers(spec, rules));
  for (int i = 0; i < spec.loss_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("loss[", i, "]"), CheckLoss(spec.loss(i), spec)));
  }
  std::set<std::string> names;
  for (int i = 0; i < spec.dataset_size(); ++i) {
    const std::string at = absl::StrCat("dataset[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckDataset(spec.dataset(i))));
    if (!names.insert(spec.dataset(i).name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another data set has this name; names are unique"));
    }
  }
  ADJOIN_RETURN_IF_ERROR(CheckRuns(spec));
  ADJOIN_RETURN_IF_ERROR(CheckTrain(spec));
  return CheckEvaluate(spec);
}

absl::StatusOr<DType> ComputeType(const JobSpec& spec) {
  const Precision& precision = spec.precision();
  const std::string compute = precision.compute().empty() ? "float32" : precision.compute();
  const std::string params = precision.params().empty() ? compute : precision.params();
  if (compute != "float32" && compute != "float64") {
    return AtField("precision.compute", NotSupportedYet(absl::StrCat("precision.compute \"", compute, "\""),
                                                        "\"float32\" and \"float64\" are"));
  }
  if (params != compute) {
    return AtField("precision.params",
                   NotSupportedYet(absl::StrCat("precision.params \"", params, "\" with compute \"", compute, "\""),
                                   "both must be the same"));
  }
  return ParseDType(compute);
}

const Dataset* FindDataset(const JobSpec& spec, const std::string& name) {
  for (const Dataset& dataset : spec.dataset()) {
    if (dataset.name() == name) return &dataset;
  }
  return nullptr;
}

const Field* FindField(const Dataset& dataset, const std::string& name) {
  for (const Field& field : dataset.field()) {
    if (field.name() == name) return &field;
  }
  return nullptr;
}

}  // namespace adjoin
