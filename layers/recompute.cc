#include "layers/recompute.h"

#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "layers/kept_in_graph.h"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool recomputing = false;

class SecondRun {
 public:
  SecondRun() : before_(std::exchange(recomputing, true)) {}
  ~SecondRun() { recomputing = before_; }
  SecondRun(const SecondRun&) = delete;
  SecondRun& operator=(const SecondRun&) = delete;

 private:
  const bool before_;
};

struct Kept {
  RecomputedFunction function;
  std::vector<bool> needs_grad;  // by input
  std::vector<at::Tensor> parameters;
  at::Device device = at::kCPU;  // the tape's
};

// (inputs, parameters, token) -> (outputs, token').
struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  static variable_list forward(AutogradContext* context, at::TensorList tensors, at::Tensor token,
                               std::shared_ptr<Kept> kept) {
    const size_t inputs = kept->needs_grad.size();
    variable_list detached;
    for (size_t i = 0; i < inputs; ++i) detached.push_back(tensors[i].detach());
    context->save_for_backward(variable_list(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(inputs)));
    Tape unused(token.device());  // without gradients nothing is threaded through it
    variable_list results = kept->function(detached, unused);
    results.push_back(at::empty_like(token));
    KeepInGraph(context, std::move(kept));
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Kept& kept = KeptInGraph<Kept>(context);
    const at::AutoGradMode with_grad(true);
    variable_list inputs;
    variable_list leaves;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach().set_requires_grad(kept.needs_grad[inputs.size()]));
      if (inputs.back().requires_grad()) leaves.push_back(inputs.back());
    }
    leaves.insert(leaves.end(), kept.parameters.begin(), kept.parameters.end());
    Tape tape(kept.device);
    variable_list outputs;
    {
      const SecondRun second;
      outputs = kept.function(inputs, tape);
    }
    const at::Tensor token_grad = grads.back();
    grads.pop_back();
    const variable_list found = tape.Grad(outputs, leaves, grads);
    // One gradient for each argument of forward.
    variable_list results;
    auto next = found.begin();
    for (const bool needed : kept.needs_grad) results.push_back(needed ? *next++ : at::Tensor());
    results.insert(results.end(), next, found.end());
    results.insert(results.end(), {token_grad, at::Tensor()});
    return results;
  }
};

}  // namespace

std::vector<at::Tensor> Recompute(RecomputedFunction function, const std::vector<at::Tensor>& inputs,
                                  const std::vector<at::Tensor>& parameters, Tape& tape) {
  auto kept = std::make_shared<Kept>();
  kept->function = std::move(function);
  for (const at::Tensor& input : inputs) kept->needs_grad.push_back(input.requires_grad());
  kept->parameters = parameters;
  kept->device = tape.token().device();
  variable_list tensors = inputs;
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  variable_list results = RecomputeFunction::apply(at::TensorList(tensors), tape.token(), std::move(kept));
  tape.Advance(results.back());
  results.pop_back();
  return results;
}

bool IsRecomputing() { return recomputing; }

}  // namespace adjoin
