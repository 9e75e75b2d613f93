#include "layers/attention/ring_attention.h"

#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "layers/attention/heads.h"
#include "layers/kept_in_graph.h"

namespace adjoin {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A movement that is under way, or stands still because the plan moves nothing.
class Travel {
 public:
  Travel(const std::shared_ptr<Movement>& movement, const Tensor& x) : unused_(x.device()), x_(x) {
    if (movement != nullptr) pending_ = movement->Start(x, unused_);
  }
  Tensor Wait() { return pending_ == nullptr ? x_ : pending_->Wait(unused_); }

 private:
  Tape unused_;  // without gradients nothing is threaded through it
  Tensor x_;
  std::unique_ptr<Movement::Pending> pending_;
};

// Keys, or values, of what travels; outside the mesh empty ones. Views.
Tensor KeysIn(const RingAttention& ring, const Tensor& packed) {
  if (packed.size(0) == 0) return packed.new_empty({0, 0, 0, 0});
  const Tensor first = packed.select(0, 0).select(0, 0);
  return ring.key_width == 0 ? first : first.narrow(3, 0, ring.key_width);
}
Tensor ValuesIn(const RingAttention& ring, const Tensor& packed) {
  if (packed.size(0) == 0) return packed.new_empty({0, 0, 0, 0});
  if (ring.key_width == 0) return packed.select(0, 0).select(0, 1);
  return packed.select(0, 0).select(0, 0).narrow(3, ring.key_width, packed.size(5) - ring.key_width);
}

// (y, what came last, rows' largest scores, their sums). `bias`: undefined for none.
std::vector<Tensor> RunForward(const RingAttention& ring, const Tensor& q, const Tensor& packed, const Tensor& bias) {
  const int64_t value_width = ValuesIn(ring, packed).size(3);
  SoftmaxSums sums = ring.blocks.Start(q, value_width);
  Tensor held = packed;
  for (int64_t step = 0; step < ring.parts(); ++step) {
    std::unique_ptr<Travel> next;
    if (step + 1 < ring.parts()) next = std::make_unique<Travel>(ring.ring[step + 1], held);
    ring.blocks.Add(q, KeysIn(ring, held), ValuesIn(ring, held), ring.FirstKeyAt(step), bias, sums);
    if (next != nullptr) held = next->Wait();
  }
  const AttendedRows rows = ring.blocks.Finish(sums, {q.size(0), q.size(1), q.size(2), value_width}, ring.keys());
  return {rows.values.to(q.scalar_type()), held, rows.largest, rows.log_sums};
}

struct Saved {
  Tensor q, own, y, last, largest, log_sums, bias;
};

// The gradients of q, of this rank's own keys and values and of the bias, undefined where it needs none.
std::vector<Tensor> RunBackward(const RingAttention& ring, const Saved& saved, const Tensor& gradient) {
  const at::ScalarType type = SumType(saved.q.scalar_type());
  const Tensor dq = at::zeros(saved.q.sizes(), saved.q.options().dtype(type));
  const bool to_bias = saved.bias.defined() && saved.bias.requires_grad();
  const Tensor dbias = to_bias ? at::zeros(saved.bias.sizes(), saved.bias.options().dtype(type)) : Tensor();
  const RowGradients rows{.q = saved.q,
                          .gradient = gradient,
                          .largest = saved.largest,
                          .log_sums = saved.log_sums,
                          .delta = BlockAttention::Delta(gradient, saved.y),
                          .bias = saved.bias};
  Tensor held = saved.last;
  std::unique_ptr<Travel> gradients;
  for (int64_t step = ring.parts() - 1;; --step) {
    std::unique_ptr<Travel> next;
    if (step > 1) next = std::make_unique<Travel>(ring.back[step], held);
    Tensor given = at::zeros(held.sizes(), held.options().dtype(type));
    ring.blocks.AddGradients(rows, KeysIn(ring, held), ValuesIn(ring, held), ring.FirstKeyAt(step),
                             {dq, KeysIn(ring, given), ValuesIn(ring, given), dbias});
    if (gradients != nullptr) given.add_(gradients->Wait());
    if (step == 0) {
      return {dq.to(saved.q.scalar_type()), given.to(saved.own.scalar_type()),
              to_bias ? dbias.to(saved.bias.scalar_type()) : dbias};
    }
    gradients = std::make_unique<Travel>(ring.gradient[step], given);
    held = next != nullptr ? next->Wait() : saved.own;
  }
}

// What is added to all scores and what all weights are multiplied by, for DenseAttention; undefined for none. A row
// that is masked whole has no softmax: its weights are multiplied by 0.
std::pair<Tensor, Tensor> AddedAndFactors(const RingAttention& ring, const Tensor& q, const Tensor& bias) {
  Tensor added = ring.blocks.CausalScores(q, ring.keys());
  Tensor factors = ring.blocks.DropoutFactors(q, ring.keys());
  if (!bias.defined()) return {added, factors};
  const Tensor own = bias.to(SumType(q.scalar_type()));
  added = added.defined() ? own + added : own;
  const Tensor masked = (added.detach() == -std::numeric_limits<double>::infinity()).all(-1, /*keepdim=*/true);
  const Tensor seen = masked.logical_not().to(added.scalar_type());
  return {added.masked_fill(masked, 0), factors.defined() ? factors * seen : seen};
}

// The same of one whole sequence, in operations that can be differentiated again.
std::vector<Tensor> DifferentiableBackward(const RingAttention& ring, const Saved& saved, const Tensor& gradient) {
  TORCH_CHECK(ring.parts() == 1,
              "attention over a sequence that is cut cannot be differentiated twice: cut heads or batch "
              "instead, or do not ask for a graph of its gradient");
  const auto [added, factors] = AddedAndFactors(ring, saved.q, saved.bias);
  const Tensor y = DenseAttention(saved.q, KeysIn(ring, saved.own), ValuesIn(ring, saved.own), added, factors);
  const std::vector<Tensor> inputs = {saved.q, saved.own, saved.bias};
  variable_list leaves;
  for (const Tensor& x : inputs) {
    if (x.defined() && x.requires_grad()) leaves.push_back(x);
  }
  if (!y.requires_grad()) return {Tensor(), Tensor(), Tensor()};
  const variable_list found = torch::autograd::grad({y}, leaves, {gradient}, true, /*create_graph=*/true, true);
  auto next = found.begin();
  std::vector<Tensor> results;
  for (const Tensor& x : inputs) results.push_back(x.defined() && x.requires_grad() ? *next++ : Tensor());
  return results;
}

// A node of the graph has no inputs that are undefined: an empty tensor of one dim stands for no bias.
Tensor GivenBias(const Tensor& bias) { return bias.dim() > 1 ? bias : Tensor(); }

// (q, packed, bias, token) -> (y, token').
struct AttendFunction : torch::autograd::Function<AttendFunction> {
  static variable_list forward(AutogradContext* context, Tensor q, Tensor packed, Tensor bias, Tensor token,
                               std::shared_ptr<RingAttention> ring) {
    const std::vector<Tensor> found = RunForward(*ring, q, packed, GivenBias(bias));
    context->save_for_backward({q, packed, found[0], found[1], found[2], found[3], bias});
    KeepInGraph(context, std::move(ring));
    return {found[0], at::empty_like(token)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const RingAttention& ring = KeptInGraph<RingAttention>(context);
    const variable_list kept = context->get_saved_variables();
    const Saved saved{kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], GivenBias(kept[6])};
    std::vector<Tensor> found;
    if (at::GradMode::is_enabled()) {
      found = DifferentiableBackward(ring, saved, grads[0]);
    } else {
      found = RunBackward(ring, saved, grads[0]);
    }
    return {found[0], found[1], found[2], grads[1], Tensor()};
  }
};

}  // namespace

bool RingAttention::MovesBack() const {
  for (const auto* list : {&back, &gradient}) {
    for (const std::shared_ptr<Movement>& movement : *list) {
      if (movement != nullptr) return true;
    }
  }
  return false;
}

Tensor Attend(std::shared_ptr<RingAttention> ring, const Tensor& q, const Tensor& packed, const Tensor& bias,
              Tape& tape) {
  const bool on_tape = ring->MovesBack() && at::GradMode::is_enabled();
  const Tensor token = on_tape ? tape.token() : at::empty({0}, at::TensorOptions(q.device()));
  const Tensor given = bias.defined() ? bias : at::empty({0}, q.options().requires_grad(false));
  const variable_list results = AttendFunction::apply(q, packed, given, token, std::move(ring));
  if (on_tape) tape.Advance(results[1]);
  return results[0];
}

}  // namespace adjoin
