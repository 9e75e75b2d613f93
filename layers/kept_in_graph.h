// An object of one forward pass that a node of LibTorch's graph keeps for its backward pass.
//
//   static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, std::shared_ptr<Handover> handover) {
//     KeepInGraph(ctx, std::move(handover));
//   ...
//   static variable_list backward(AutogradContext* ctx, variable_list gradients) {
//     Handover& handover = KeptInGraph<Handover>(ctx);
//
// One object per node.
#ifndef ADJOIN_LAYERS_KEPT_IN_GRAPH_H_
#define ADJOIN_LAYERS_KEPT_IN_GRAPH_H_

#include <memory>
#include <utility>

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

namespace adjoin {

template <typename T>
struct GraphHolder : torch::CustomClassHolder {
  explicit GraphHolder(std::shared_ptr<T> of) : object(std::move(of)) {}
  std::shared_ptr<T> object;
};

template <typename T>
void KeepInGraph(torch::autograd::AutogradContext* ctx, std::shared_ptr<T> object) {
  ctx->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<GraphHolder<T>>(std::move(object)));
}

template <typename T>
T& KeptInGraph(torch::autograd::AutogradContext* ctx) {
  const c10::intrusive_ptr<torch::CustomClassHolder> capsule = ctx->saved_data["kept"].toCapsule();
  return *static_cast<GraphHolder<T>*>(capsule.get())->object;
}

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_KEPT_IN_GRAPH_H_
