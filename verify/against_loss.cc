#include "verify/against_loss.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "primitives/geometry/shape_text.h"
#include "verify/trained_data.h"

namespace adjoin {
namespace {

constexpr char kLoss[] = "loss", kGradient[] = "grad.";
// Gradients that are small beside the others of the step are rounding of these.
constexpr double kLeastScale = 1e-3;
constexpr double kSmallestScale = 1e-12;  // of a loss or gradients of 0

bool IsGradientType(CellType type) { return type == CellType::kFloat32 || type == CellType::kFloat64; }

// Relative to the largest expected element, or to `least_scale` where that is more.
Difference DifferenceOf(const at::Tensor& expected, const at::Tensor& found, double least_scale) {
  Difference difference;
  difference.compared = true;
  const at::Tensor off = (found - expected).abs().contiguous();
  const double largest = expected.abs().max().item<double>();
  const double scale = std::max({largest, least_scale, kSmallestScale});
  int64_t at = off.view({-1}).argmax().item<int64_t>();
  const double most = off.view({-1})[at].item<double>();
  difference.relative = std::isfinite(most) ? most / scale : INFINITY;
  difference.found = found.contiguous().view({-1})[at].item<double>();
  difference.expected = expected.contiguous().view({-1})[at].item<double>();
  difference.position.resize(static_cast<size_t>(expected.dim()));
  for (int64_t d = expected.dim(); d-- > 0; at /= expected.size(d)) {
    difference.position[static_cast<size_t>(d)] = at % expected.size(d);
  }
  return difference;
}

}  // namespace

LossSample::LossSample(std::string file, const JobSpec& spec, const Plan& plan) : file_(std::move(file)), spec_(spec) {
  if (spec.loss().empty()) return;
  known_.insert(kLoss);
  for (const Loss& loss : spec.loss()) known_.insert(absl::StrCat(kSampleInput, loss.target()));
  for (const ParameterPlan& parameter : plan.parameter()) {
    if (parameter.frozen() || parameter.buffer()) continue;
    trained_.push_back(parameter.name());
    known_.insert(absl::StrCat(kGradient, parameter.name()));
  }
}

void LossSample::Take(std::map<std::string, SampleArray>& sample) {
  std::set<std::string> read;  // fields that layers read are the evaluation's as well
  for (const Layer& layer : spec_.layer()) {
    for (const std::string& input : layer.input()) read.insert(absl::StrCat(kSampleInput, input));
  }
  for (const std::string& name : known_) {
    const auto found = sample.find(name);
    if (found == sample.end()) continue;
    loss_given_ = loss_given_ || name.rfind(kSampleInput, 0) != 0;
    arrays_[name] = found->second;
    if (read.count(name) == 0) sample.erase(found);
  }
}

absl::StatusOr<NamedTensors> LossSample::Targets(const JobSpec& job, const NamedTensors& fields) const {
  NamedTensors all = fields;
  const Dataset& dataset = TrainedData(job);
  const int64_t batch = fields.empty() ? 0 : fields.begin()->second.size(0);
  for (const Loss& loss : spec_.loss()) {
    const std::string name = absl::StrCat(kSampleInput, loss.target());
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) {
      return BadSampleArray(file_, name,
                            absl::StrCat("is missing: the loss is compared with field \"", loss.target(), "\""));
    }
    const at::Tensor& values = found->second.values;
    std::vector<int64_t> shape = {batch};
    const Field& field = *FieldOf(dataset, loss.target());
    shape.insert(shape.end(), field.shape().begin(), field.shape().end());
    const bool any_extent = std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
    if (values.dim() == 0 || values.size(0) != batch || (!any_extent && values.sizes() != at::IntArrayRef(shape))) {
      return BadSampleArray(
          file_, name,
          absl::StrCat("is ", ShapeText(values.sizes()), "; the field is ", ShapeText(shape), ", batch first"));
    }
    if (field.dtype() == "int64" && IsGradientType(found->second.type)) {
      return BadSampleArray(file_, name,
                            absl::StrCat("is of type ", ToString(found->second.type), "; field \"", loss.target(),
                                         "\" has whole numbers, such as int64"));
    }
    all[loss.target()] = field.dtype() == "int64" ? values.to(at::kLong) : values;
  }
  return all;
}

// One without a gradient may be a parameter that the model does not train, such as a buffer.
absl::Status LossSample::CheckGradients() const {
  const bool any = std::any_of(arrays_.begin(), arrays_.end(),
                               [](const auto& entry) { return entry.first.rfind(kGradient, 0) == 0; });
  if (!any) return absl::OkStatus();
  for (const std::string& parameter : trained_) {
    const std::string name = absl::StrCat(kGradient, parameter);
    if (arrays_.count(name) > 0) continue;
    return BadSampleArray(
        file_, name,
        "is missing, and the sample has other gradients: the job trains this parameter; right would be its "
        "gradient, or frozen: true in its layer");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SampleDifference>> LossSample::Compare(const JobSpec& job, const NamedTensors& weights,
                                                                  const NamedTensors& fields,
                                                                  const SerialModelOptions& options,
                                                                  std::optional<double> tolerance) const {
  ADJOIN_ASSIGN_OR_RETURN(const NamedTensors all, Targets(job, fields));
  ADJOIN_RETURN_IF_ERROR(CheckGradients());
  JobSpec with_loss = job;
  *with_loss.mutable_loss() = spec_.loss();
  ADJOIN_ASSIGN_OR_RETURN(const auto model, SerialModel::Create(with_loss, options));
  ADJOIN_ASSIGN_OR_RETURN(const SerialStep step, model->EvaluateLoss(all, weights, {trained_.begin(), trained_.end()}));
  double largest = 0;
  for (const auto& [name, array] : arrays_) {
    if (name.rfind(kGradient, 0) == 0) largest = std::max(largest, array.values.abs().max().item<double>());
  }
  const auto tolerance_of = [&](const SampleArray& array) {
    return tolerance.value_or(array.type == CellType::kFloat64 ? kDefaultTolerance : 1e-4);
  };
  std::vector<SampleDifference> differences;
  std::vector<std::string> names = trained_;
  std::reverse(names.begin(), names.end());
  names.insert(names.begin(), "");
  for (const std::string& parameter : names) {
    const std::string name = parameter.empty() ? kLoss : absl::StrCat(kGradient, parameter);
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) continue;
    const SampleArray& array = found->second;
    const at::Tensor computed =
        parameter.empty() ? at::full({}, step.loss, at::kDouble) : step.parameter_grads.at(parameter);
    if (!IsGradientType(array.type)) {
      return BadSampleArray(file_, name,
                            absl::StrCat("is of type ", ToString(array.type),
                                         "; right would be float32 or "
                                         "float64"));
    }
    if (array.values.sizes() != computed.sizes()) {
      return BadSampleArray(
          file_, name,
          absl::StrCat("is ", ShapeText(array.values.sizes()), "; the model's is ", ShapeText(computed.sizes())));
    }
    differences.push_back({name, parameter, tolerance_of(array),
                           DifferenceOf(array.values, computed, parameter.empty() ? 0 : largest * kLeastScale)});
  }
  return differences;
}

}  // namespace adjoin
