#include "layers/recompute.h"

#include <algorithm>
#include <cmath>
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

// Fills in what goes into and comes out of `run`. False where no gradient passes through it.
bool FindValues(const ProgramPlan& program, RecomputedRun& run) {
  std::vector<bool> made(program.value_size()), read_later(program.value_size());
  bool needs_grad = false;
  for (int i = run.end; i < program.layer_size(); ++i) {
    for (uint32_t input : program.layer(i).input()) read_later[input] = true;
  }
  for (const LossPlan& loss : program.loss()) read_later[loss.input()] = true;
  for (int i = run.first; i < run.end; ++i) {
    for (uint32_t input : program.layer(i).input()) {
      const bool known = std::find(run.inputs.begin(), run.inputs.end(), input) != run.inputs.end();
      if (!made[input] && !known) run.inputs.push_back(input);
    }
    const uint32_t output = program.layer(i).output();
    made[output] = true;
    needs_grad = needs_grad || program.value(output).needs_grad();
    if (read_later[output]) run.outputs.push_back(output);
  }
  return needs_grad;
}

}  // namespace

std::vector<RecomputedRun> RecomputedRuns(const ProgramPlan& program) {
  std::vector<RecomputedRun> runs;
  if (!program.training()) return runs;
  const auto marked = [&](int layer) { return program.layer(layer).spec().recompute(); };
  for (int first = 0; first < program.layer_size();) {
    int end = first;
    while (end < program.layer_size() && marked(end)) ++end;
    const int count = end - first;
    const int pieces = static_cast<int>(std::sqrt(static_cast<double>(count)));
    for (int piece = 0; piece < pieces; ++piece) {
      RecomputedRun run;
      run.first = first + count * piece / pieces;
      run.end = first + count * (piece + 1) / pieces;
      if (FindValues(program, run)) runs.push_back(std::move(run));
    }
    first = std::max(end, first + 1);
  }
  return runs;
}

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
