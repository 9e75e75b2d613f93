// adjoin-verify, which compares the layer with a serial function.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros_like.h>

#include <string>

#include "examples/custom_layer/sharpen.h"
#include "examples/custom_layer/sharpen_rule.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_serial_functions.h"
#include "layers/registry.h"
#include "layers/serial_functions.h"
#include "verify/command.h"

namespace {

// What the layer shall compute, on whole tensors and by other means than its own. Without it the layer would be
// compared with itself on one rank.
at::Tensor SerialSharpen(adjoin::SerialCall& call) {
  const auto& arguments = call.spec().custom().arg();
  const int64_t radius = arguments.count("radius") > 0 ? std::stoll(arguments.at("radius")) : 1;
  const at::Tensor& x = call.input();
  at::Tensor sum = at::zeros_like(x);
  for (int64_t offset = -radius; offset <= radius; ++offset) {
    sum = sum + x.index_select(-1, (at::arange(x.size(-1)) + offset).clamp(0, x.size(-1) - 1));
  }
  at::Tensor difference = x - sum / static_cast<double>(2 * radius + 1);
  at::Tensor amount = call.Parameter("amount", {x.size(1)}, /*spread=*/0.5);
  return x + (difference.movedim(1, -1) * amount).movedim(-1, 1);
}

}  // namespace

int main(int argc, char** argv) {
  adjoin::LayerRegistry layers = adjoin::BuiltinLayers();
  layers.Register("sharpen", adjoin::BuildSharpen);
  adjoin::SerialFunctions functions = adjoin::BuiltinSerialFunctions();
  functions.Register("sharpen", SerialSharpen);
  adjoin::VerifyOptions options;
  options.rules = &adjoin::RulesWithSharpen();
  options.layers = &layers;
  options.functions = &functions;
  return adjoin::RunVerifyCommand(argc, argv, options);
}
