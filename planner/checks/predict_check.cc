#include "planner/checks/predict_check.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/rules/rule_checks.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"
#include "planner/spec/file_formats.h"

namespace adjoin {
namespace {

constexpr int64_t kMostClasses = 256;
constexpr int kVolumeDims = 5;

absl::Status CheckWritten(const JobSpec& spec) {
  std::set<std::string> written;
  for (int i = 0; i < spec.predict().input_size(); ++i) {
    const std::string& name = spec.predict().input(i);
    const std::string at = absl::StrCat("predict.input[", i, "]");
    bool known = false;
    for (const Layer& layer : spec.layer()) known = known || layer.name() == name;
    if (!known) {
      return AtField(at, InvalidSpec("there is no layer \"", name, "\"; the last one is \"",
                                     spec.layer(spec.layer_size() - 1).name(), "\""));
    }
    if (!written.insert(name).second) return AtField(at, InvalidSpec("layer \"", name, "\" is named twice"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPredict(const JobSpec& spec) {
  if (spec.kind() != PREDICT) {
    if (!spec.has_predict()) return absl::OkStatus();
    return AtField("predict",
                   InvalidSpec("predict is for jobs of kind PREDICT; this one is of kind ", Kind_Name(spec.kind())));
  }
  if (!spec.has_predict()) {
    return InvalidSpec("predict is missing: predict { dataset: ... input: ... format: \"npy\" }");
  }
  const Predict& predict = spec.predict();
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "predict.dataset", predict.dataset()));
  if (predict.input().empty()) {
    return AtField("predict", InvalidSpec("predict.input is missing: the layers whose outputs are written"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckWritten(spec));
  if (FindDataset(spec, predict.dataset())->has_blocks()) {
    return AtField("predict.dataset", InvalidSpec("data set \"", predict.dataset(),
                                                  "\" has blocks, which are drawn at random;"
                                                  " prediction is of whole samples: name a data set without"));
  }
  const FileFormat* const format = FindFileFormat(predict.format());
  if (format != nullptr && format->written) return absl::OkStatus();
  const std::string right = FileFormatNames([](const FileFormat& known) { return known.written; }, "\"");
  if (predict.format().empty()) return AtField("predict", InvalidSpec("predict.format is missing; it must be ", right));
  return AtField("predict.format", InvalidSpec("predict.format is \"", predict.format(), "\"; it must be ", right));
}

absl::Status CheckWrittenShape(const Predict& predict, const std::string& layer, const std::vector<int64_t>& shape) {
  const int dims = static_cast<int>(shape.size());
  if (predict.classes() && dims < 2) {
    return InvalidSpec("layer \"", layer, "\" returns ", ShapeText(shape),
                       "; predict.classes needs [batch, classes, ...]");
  }
  if (predict.classes() && shape[1] > kMostClasses) {
    return InvalidSpec("layer \"", layer, "\" returns ", shape[1],
                       " classes; predict.classes writes uint8, which numbers ", kMostClasses);
  }
  const FileFormat* const format = FindFileFormat(predict.format());
  if (format == nullptr || !format->volumes) return absl::OkStatus();
  const std::string other =
      FileFormatNames([](const FileFormat& known) { return known.written && !known.volumes; }, "\"");
  if (dims != kVolumeDims) {
    return InvalidSpec("layer \"", layer, "\" returns ", ShapeText(shape), "; predict.format \"", format->name,
                       "\" holds volumes, [batch, channels, z, y, x]: write ", other);
  }
  for (int dim = 1; dim < dims; ++dim) {
    if (format->most_extent == 0 || shape[dim] <= format->most_extent) continue;
    return InvalidSpec("layer \"", layer, "\" returns ", ShapeText(shape), "; a file of format \"", format->name,
                       "\" has at most ", format->most_extent, " cells in each dim: write ", other);
  }
  return absl::OkStatus();
}

}  // namespace adjoin
