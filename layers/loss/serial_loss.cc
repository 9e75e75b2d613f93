#include "layers/loss/serial_loss.h"

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <torch/nn/functional.h>
#include <torch/types.h>

namespace adjoin {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

template <typename List>
Tensor Values(const List& list) {
  if (list.empty()) return Tensor();
  return torch::tensor(std::vector<double>(list.begin(), list.end()), torch::kFloat64);
}

// LibTorch's own default would leave out class -100, which the job has not asked for.
constexpr int64_t kNoClass = -(int64_t{1} << 40);

int64_t Ignored(const Loss& spec) { return spec.has_ignore_index() ? spec.ignore_index() : kNoClass; }

template <typename Options>
Options Reduced(const Loss& spec, Options options) {
  if (spec.reduction() == "sum") return options.reduction(torch::kSum);
  TORCH_CHECK(spec.reduction().empty() || spec.reduction() == "mean", "reduction \"", spec.reduction(),
              "\" is not known");
  return options.reduction(torch::kMean);
}

at::Reduction::Reduction ReductionOf(const Loss& spec) {
  return spec.reduction() == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
}

Tensor CrossEntropy(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  return F::cross_entropy(prediction, target,
                          Reduced(spec, F::CrossEntropyFuncOptions()
                                            .weight(Values(spec.class_weight()))
                                            .ignore_index(Ignored(spec))
                                            .label_smoothing(spec.label_smoothing())));
}

Tensor Nll(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  return F::nll_loss(
      prediction, target,
      Reduced(spec, F::NLLLossFuncOptions().weight(Values(spec.class_weight())).ignore_index(Ignored(spec))));
}

Tensor BceWithLogits(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  auto options = Reduced(spec, F::BinaryCrossEntropyWithLogitsFuncOptions());
  Tensor weight = Values(spec.pos_weight());
  if (weight.defined()) {
    std::vector<int64_t> shape(prediction.dim(), 1);
    if (weight.numel() > 1) shape.at(1) = weight.numel();
    options.pos_weight(weight.reshape(shape));
  }
  return F::binary_cross_entropy_with_logits(prediction, target, options);
}

Tensor PoissonNll(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  auto options = F::PoissonNLLLossFuncOptions().log_input(!spec.has_log_input() || spec.log_input()).full(spec.full());
  if (spec.eps() != 0) options.eps(spec.eps());
  return F::poisson_nll_loss(prediction, target, Reduced(spec, options));
}

double Weight(const Loss& spec) { return spec.has_weight() ? spec.weight() : 1.0; }

// torch.nn.functional.gaussian_nll_loss, which LibTorch has in Python only.
Tensor GaussianNll(const Loss& spec, const Tensor& prediction, const Tensor& target, const Tensor& given) {
  const double eps = spec.eps() == 0 ? 1e-6 : spec.eps();
  TORCH_CHECK(given.defined() && given.ge(0).all().item<bool>(), "the variance \"", spec.variance(),
              "\" has negative elements");
  Tensor variance = given.clone();
  {
    torch::NoGradGuard no_grad;
    variance.clamp_(eps);
  }
  Tensor each = 0.5 * (torch::log(variance) + torch::pow(prediction - target, 2) / variance);
  if (spec.full()) each = each + 0.5 * std::log(2 * M_PI);
  return spec.reduction() == "sum" ? each.sum() : each.mean();
}

Tensor KlDiv(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  // F::kl_div prints a warning for "mean", which is what the job asks for.
  if (spec.reduction() != "batchmean") return torch::kl_div(prediction, target, ReductionOf(spec), spec.log_target());
  return torch::kl_div(prediction, target, at::Reduction::Sum, spec.log_target()) / prediction.size(0);
}

// On dim 1.
Tensor Cosine(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  const Tensor each = 1 - F::cosine_similarity(prediction, target, F::CosineSimilarityFuncOptions().dim(1).eps(1e-8));
  return spec.reduction() == "sum" ? each.sum() : each.mean();
}

Tensor Dice(const Loss& spec, const Tensor& prediction, const Tensor& target) {
  Tensor wanted = target;
  if (!target.is_floating_point()) {
    // [n, ...] to one-hot [n, classes, ...]
    wanted = torch::one_hot(target, prediction.size(1)).movedim(-1, 1).to(torch::kFloat64);
  }
  const auto per_class = [](const Tensor& x) { return x.transpose(0, 1).flatten(1).sum(1); };
  const double smooth = spec.has_smooth() ? spec.smooth() : 1;
  const Tensor overlap = 2 * per_class(prediction * wanted) + smooth;
  return 1 - (overlap / (per_class(prediction) + per_class(wanted) + smooth)).mean();
}

using Function = std::function<Tensor(const Loss&, const Tensor&, const Tensor&)>;

const std::map<std::string, Function>& Functions() {
  static const auto* functions = new std::map<std::string, Function>{
      {"cross_entropy", CrossEntropy},
      {"nll", Nll},
      {"mse", [](const Loss& spec, const Tensor& p,
                 const Tensor& t) { return F::mse_loss(p, t, Reduced(spec, F::MSELossFuncOptions())); }},
      {"l1", [](const Loss& spec, const Tensor& p,
                const Tensor& t) { return F::l1_loss(p, t, Reduced(spec, F::L1LossFuncOptions())); }},
      {"huber",
       [](const Loss& spec, const Tensor& p, const Tensor& t) {
         return F::huber_loss(p, t,
                              Reduced(spec, F::HuberLossFuncOptions()).delta(spec.delta() == 0 ? 1 : spec.delta()));
       }},
      {"smooth_l1",
       [](const Loss& spec, const Tensor& p, const Tensor& t) {
         return torch::smooth_l1_loss(p, t, ReductionOf(spec), spec.delta() == 0 ? 1 : spec.delta());
       }},
      {"bce",
       [](const Loss& spec, const Tensor& p, const Tensor& t) {
         return F::binary_cross_entropy(p, t, Reduced(spec, F::BinaryCrossEntropyFuncOptions()));
       }},
      {"bce_with_logits", BceWithLogits},
      {"poisson_nll", PoissonNll},
      {"kl_div", KlDiv},
      {"dice", Dice},
      {"cosine", Cosine},
  };
  return *functions;
}

}  // namespace

Tensor SerialLoss(const Loss& spec, const Tensor& prediction, const Tensor& given, const Tensor& variance) {
  // One number for each sample is that of its prediction, never all numbers against all.
  const bool one_per_sample = given.is_floating_point() && given.dim() == 1 && prediction.dim() == 2;
  const Tensor target = one_per_sample ? given.unsqueeze(1) : given;
  if (spec.kind() == "gaussian_nll") return GaussianNll(spec, prediction, target, variance) * Weight(spec);
  const auto function = Functions().find(spec.kind());
  TORCH_CHECK(function != Functions().end(), "loss \"", spec.kind(), "\" is not known");
  return function->second(spec, prediction, target) * Weight(spec);
}

Tensor DrawTarget(const Loss& spec, const Field& field, const Tensor& prediction, torch::Generator generator) {
  torch::NoGradGuard no_grad;
  std::vector<int64_t> shape = {prediction.size(0)};
  shape.insert(shape.end(), field.shape().begin(), field.shape().end());
  if (field.dtype() == "int64") {
    TORCH_CHECK(prediction.dim() > 1 && prediction.size(1) > 0, "the prediction has no dim of classes");
    Tensor classes = torch::randint(0, prediction.size(1), shape, generator, torch::kInt64);
    if (!spec.has_ignore_index()) return classes;
    // One in eight does not count; the first does, so that something is left.
    Tensor left_out = torch::rand(shape, generator, torch::kFloat64) < 0.125;
    left_out.view({-1})[0] = false;
    classes = torch::where(classes == spec.ignore_index(), (classes + 1).remainder(prediction.size(1)), classes);
    return classes.masked_fill(left_out, spec.ignore_index());
  }
  const auto uniform = [&] { return torch::rand(shape, generator, torch::kFloat64); };
  if (spec.kind() == "bce" || spec.kind() == "bce_with_logits" || spec.kind() == "dice") return uniform();
  if (spec.kind() == "poisson_nll") return torch::floor(uniform() * 6);
  if (spec.kind() == "cross_entropy") return torch::softmax(torch::randn(shape, generator, torch::kFloat64), 1);
  if (spec.kind() == "kl_div") {
    const Tensor logits = torch::randn(shape, generator, torch::kFloat64);
    const int64_t dim = shape.size() > 1 ? 1 : 0;
    return spec.log_target() ? torch::log_softmax(logits, dim) : torch::softmax(logits, dim);
  }
  return torch::randn(shape, generator, torch::kFloat64);
}

}  // namespace adjoin
