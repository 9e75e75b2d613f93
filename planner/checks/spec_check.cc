#include "planner/checks/spec_check.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/output_dir.h"
#include "base/status_macros.h"
#include "layers/loss/loss_rule.h"
#include "layers/rules/compute_type.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/checkpoint_check.h"
#include "planner/checks/dataset_check.h"
#include "planner/checks/evaluate_check.h"
#include "planner/checks/name_check.h"
#include "planner/checks/predict_check.h"
#include "planner/checks/run_check.h"
#include "planner/checks/shared_weights_check.h"
#include "planner/checks/supported_fields.h"
#include "planner/checks/text_check.h"
#include "planner/checks/train_check.h"
#include "planner/checks/weights_check.h"

namespace adjoin {
namespace {

absl::Status CheckOutputDir(const std::string& path) {
  ADJOIN_RETURN_IF_ERROR(CheckPath("output_dir", "--output-root", path));
  const absl::string_view reserved = ReservedName(path);
  if (reserved.empty()) return absl::OkStatus();
  return AtField("output_dir", InvalidSpec("the path \"", path, "\" holds \"", reserved, "\"; ", kReservedNames));
}

absl::Status CheckCount(absl::string_view what, int64_t count, int64_t most) {
  if (count <= most) return absl::OkStatus();
  return InvalidSpec("it has ", count, " ", what, "; at most ", most, " are possible");
}

// Far more than jobs have, and few enough that planning ends soon, whatever numbers the job contains.
absl::Status CheckCounts(const JobSpec& spec) {
  constexpr int64_t kMostLayers = 10000, kMostLayouts = 1000, kMostLosses = 1000, kMostDatasets = 1000,
                    kMostFields = 1000;
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
  if (!spec.include().empty()) {
    return AtField("include[0]",
                   InvalidSpec("include \"", spec.include(0),
                               "\" is still in the job: `adjoin plan`, `submit` and `verify` read included"
                               " files where they run, and nothing else does"));
  }
  if (!spec.name().empty()) ADJOIN_RETURN_IF_ERROR(CheckName("a job", spec.name()));
  if (spec.kind() == KIND_UNSPECIFIED) return AtField("kind", InvalidSpec("kind is missing; write kind: TRAIN"));
  if (!Kind_IsValid(spec.kind())) {
    return AtField("kind", InvalidSpec("kind ", spec.kind(), " is not known; write TRAIN, EVALUATE or PREDICT"));
  }
  if (spec.ranks() < 1 || spec.ranks() > max_ranks) {
    return AtField("ranks", InvalidSpec("ranks is ", spec.ranks(), "; it must be from 1 to ", max_ranks));
  }
  if (spec.layer().empty()) return InvalidSpec("the job has no layer");
  if (spec.kind() == TRAIN && spec.loss().empty()) {
    return InvalidSpec("a job that trains needs a loss: loss { kind: \"cross_entropy\" input: ... target: ... }");
  }
  return CheckOutputDir(spec.output_dir());
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
      return AtField(at, InvalidSpec("its operation is missing; write one of these: ",
                                     absl::StrJoin(rules.Kinds(), " {}, "), " {}, transformer {}"));
    }
    if (layer.has_custom() && Layer::descriptor()->FindFieldByName(layer.custom().type()) != nullptr) {
      // The built-in rule reads another field and would ignore `arg`.
      return AtField(absl::StrCat(at, ".custom.type"),
                     InvalidSpec("\"", layer.custom().type(),
                                 "\" is a field of Layer, not the type of a layer of"
                                 " one's own; write ",
                                 layer.custom().type(), " { ... } instead of custom { ... }"));
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
  for (const auto& [field, name] : {std::pair("input", loss.input()), std::pair("variance", loss.variance())}) {
    const auto is_named = [name = name](const Layer& layer) { return layer.name() == name; };
    if (name.empty() || std::any_of(spec.layer().begin(), spec.layer().end(), is_named)) continue;
    return AtField(field, InvalidSpec("there is no layer \"", name, "\"; the last one is \"",
                                      spec.layer(spec.layer_size() - 1).name(), "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSpec(const JobSpec& spec, const LayerRules& rules, uint32_t max_ranks) {
  ADJOIN_RETURN_IF_ERROR(CheckTexts(spec));  // first: the other errors quote the job's text
  ADJOIN_RETURN_IF_ERROR(CheckCounts(spec));
  ADJOIN_RETURN_IF_ERROR(CheckJob(spec, max_ranks));
  ADJOIN_RETURN_IF_ERROR(CheckSupportedFields(spec, rules));
  ADJOIN_RETURN_IF_ERROR(NumberTypesOf(spec).status());
  ADJOIN_RETURN_IF_ERROR(CheckLayers(spec, rules));
  ADJOIN_RETURN_IF_ERROR(CheckSharedWeights(spec));
  for (int i = 0; i < spec.loss_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("loss[", i, "]"), CheckLoss(spec.loss(i), spec)));
  }
  ADJOIN_RETURN_IF_ERROR(CheckDatasets(spec));
  ADJOIN_RETURN_IF_ERROR(CheckRuns(spec));
  ADJOIN_RETURN_IF_ERROR(CheckWeights(spec));
  ADJOIN_RETURN_IF_ERROR(CheckTrain(spec));
  ADJOIN_RETURN_IF_ERROR(CheckCheckpoint(spec));
  ADJOIN_RETURN_IF_ERROR(CheckEvaluate(spec));
  return CheckPredict(spec);
}

}  // namespace adjoin
