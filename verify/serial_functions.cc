#include "verify/serial_functions.h"

#include <utility>

#include "verify/serial_attention.h"
#include "verify/serial_embedding.h"
#include "verify/serial_local.h"
#include "verify/serial_norm.h"
#include "verify/serial_random.h"
#include "verify/serial_shape.h"
#include "verify/serial_spatial.h"
#include "verify/serial_window_attention.h"

namespace adjoin {

void SerialParameters::Add(const std::string& name, torch::Tensor tensor, bool trained) {
  index_of_[name] = entries_.size();
  torch::Tensor initial = tensor.detach().clone();
  entries_.push_back({name, std::move(tensor), std::move(initial), trained});
}

torch::Tensor SerialParameters::Draw(torch::IntArrayRef shape, double centre, double spread) {
  return (torch::rand(shape, generator_, torch::kFloat64) * 2 - 1) * spread + centre;
}

torch::Tensor SerialCall::Parameter(const std::string& role, const std::vector<int64_t>& shape, double spread,
                                    double centre) {
  const std::string name = spec_.name() + "." + role;
  if (!parameters_->Has(name)) {
    const bool trained = !spec_.frozen();
    parameters_->Add(name, parameters_->Draw(shape, centre, spread).set_requires_grad(trained), trained);
  }
  return parameters_->Get(name);
}

torch::Tensor SerialCall::Buffer(const std::string& role, const std::vector<int64_t>& shape, double spread,
                                 double centre) {
  const std::string name = spec_.name() + "." + role;
  if (!parameters_->Has(name)) parameters_->Add(name, parameters_->Draw(shape, centre, spread), /*trained=*/false);
  return parameters_->Get(name);
}

torch::Tensor SerialCall::Counter(const std::string& role) {
  const std::string name = spec_.name() + "." + role;
  if (!parameters_->Has(name)) parameters_->Add(name, torch::zeros({}, torch::kInt64), /*trained=*/false);
  return parameters_->Get(name);
}

const SerialFunction* SerialFunctions::Find(const std::string& kind) const {
  auto found = functions_.find(kind);
  return found == functions_.end() ? nullptr : &found->second;
}

SerialFunctions BuiltinSerialFunctions() {
  SerialFunctions functions;
  functions.Register("activation", SerialActivation);
  functions.Register("add", SerialAdd);
  functions.Register("attention", SerialAttention);
  functions.Register("concat", SerialConcat);
  functions.Register("conv", SerialConv);
  functions.Register("crop", SerialCrop);
  functions.Register("dropout", SerialDropout);
  functions.Register("embedding", SerialEmbedding);
  functions.Register("expand", SerialExpand);
  functions.Register("flatten", SerialFlatten);
  functions.Register("flip", SerialFlip);
  functions.Register("index_select", SerialIndexSelect);
  functions.Register("linear", SerialLinear);
  functions.Register("multiply", SerialMultiply);
  functions.Register("noise", SerialNoise);
  functions.Register("norm", SerialNorm);
  functions.Register("pad", SerialPad);
  functions.Register("permute", SerialPermute);
  functions.Register("pixel_shuffle", SerialPixelShuffle);
  functions.Register("pixel_unshuffle", SerialPixelUnshuffle);
  functions.Register("pool", SerialPool);
  functions.Register("position", SerialPosition);
  functions.Register("repartition", SerialRepartition);
  functions.Register("repeat", SerialRepeat);
  functions.Register("reshape", SerialReshape);
  functions.Register("roll", SerialRoll);
  functions.Register("softmax", SerialSoftmax);
  functions.Register("tokens", SerialTokens);
  functions.Register("upsample", SerialUpsample);
  functions.Register("window_attention", SerialWindowAttention);
  return functions;
}

}  // namespace adjoin
