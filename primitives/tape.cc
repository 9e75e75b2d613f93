#include "primitives/tape.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One token in place of two. Unlike a sum of the two it has no arithmetic that could promote or broadcast.
struct JoinTokens : torch::autograd::Function<JoinTokens> {
  static at::Tensor forward(AutogradContext*, at::Tensor a, at::Tensor) { return at::empty_like(a); }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0], grads[0]}; }
};

}  // namespace

Tape::Tape(at::Device device)
    : leaf_(at::empty({0}, at::TensorOptions().device(device)).set_requires_grad(true)), token_(leaf_) {}

void Tape::Renew() {
  leaf_ = at::empty({0}, leaf_.options()).set_requires_grad(true);
  token_ = leaf_;
}

void Tape::Backward(const at::Tensor& loss, double seed, bool retain_graph) {
  variable_list roots;
  variable_list seeds;
  if (loss.defined() && loss.requires_grad()) {
    roots.push_back(loss);
    seeds.push_back(at::full_like(loss, seed));
  }
  roots.push_back(token_);
  seeds.push_back(at::zeros_like(token_));
  // Renewed first: also after an exception nothing may run the old nodes again.
  if (!retain_graph) Renew();
  torch::autograd::backward(roots, seeds, retain_graph);
}

std::vector<at::Tensor> Tape::Grad(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& grad_outputs, bool create_graph, bool retain_graph) {
  variable_list roots;
  variable_list seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(i < grad_outputs.size() && grad_outputs[i].defined() ? grad_outputs[i] : at::ones_like(outputs[i]));
  }
  roots.push_back(token_);
  seeds.push_back(at::zeros_like(token_));
  variable_list leaves = inputs;
  leaves.push_back(leaf_);
  const bool retain = retain_graph || create_graph;
  if (!retain) Renew();
  variable_list grads = torch::autograd::grad(roots, leaves, seeds, retain, create_graph, /*allow_unused=*/true);
  const at::Tensor token_grad = grads.back();
  grads.pop_back();
  if (create_graph && token_grad.defined() && token_grad.requires_grad()) {
    Advance(JoinTokens::apply(token_, token_grad));
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = at::zeros_like(inputs[i]);
  }
  return grads;
}

}  // namespace adjoin
