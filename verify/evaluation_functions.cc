#include "verify/evaluation_functions.h"

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>

namespace adjoin {
namespace {

at::Tensor Same(SerialCall& call) { return call.input(); }

at::Tensor BatchNorm(SerialCall& call) {
  const Norm& spec = call.spec().norm();
  const std::vector<int64_t> channels = {call.input().size(1)};
  const bool affine = !spec.has_affine() || spec.affine();
  const at::Tensor weight = affine ? call.Parameter("weight", channels, 0.5, 1) : at::Tensor();
  const at::Tensor bias = affine ? call.Parameter("bias", channels, 0.5) : at::Tensor();
  const at::Tensor mean = call.Buffer("running_mean", channels, 0.5, 0);
  const at::Tensor var = call.Buffer("running_var", channels, 0.5, 1);
  return at::batch_norm(call.input(), weight, bias, mean, var, /*training=*/false, /*momentum=*/0,
                        spec.has_eps() ? spec.eps() : 1e-5, /*cudnn_enabled=*/false);
}

}  // namespace

SerialFunctions InEvaluation(const SerialFunctions& functions) {
  SerialFunctions evaluated = functions;
  for (const char* random : {"dropout", "noise"}) evaluated.Register(random, Same);
  if (const SerialFunction* found = functions.Find("norm")) {
    evaluated.Register("norm", [other = *found](SerialCall& call) {
      return call.spec().norm().kind() == "batch" ? BatchNorm(call) : other(call);
    });
  }
  return evaluated;
}

void DropNoWeights(JobSpec& spec) {
  for (Layer& layer : *spec.mutable_layer()) {
    if (layer.has_attention()) layer.mutable_attention()->clear_dropout();
    if (layer.has_window_attention()) layer.mutable_window_attention()->clear_dropout();
  }
}

}  // namespace adjoin
