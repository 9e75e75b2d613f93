#include "layers/attention/ring_attention.h"

#include <utility>

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

// Keys, or values, of what travels; outside the mesh empty ones.
Tensor Unpacked(const Tensor& packed, int64_t which) {
  if (packed.size(0) == 0) return packed.new_empty({0, 0, 0, 0});
  return packed.select(0, 0).select(0, which);
}

// (y, rows' sums, what came last).
std::vector<Tensor> RunForward(const RingAttention& ring, const Tensor& q, const Tensor& packed) {
  SoftmaxSums sums = ring.blocks.Start(q);
  Tensor held = packed;
  for (int64_t step = 0; step < ring.parts(); ++step) {
    std::unique_ptr<Travel> next;
    if (step + 1 < ring.parts()) next = std::make_unique<Travel>(ring.ring[step + 1], held);
    ring.blocks.Add(q, Unpacked(held, 0), Unpacked(held, 1), ring.FirstKeyAt(step), sums);
    if (next != nullptr) held = next->Wait();
  }
  const AttendedRows rows = ring.blocks.Finish(sums, q.sizes(), ring.keys());
  return {rows.values.to(q.scalar_type()), rows.log_sums, held};
}

struct Saved {
  Tensor q, own, last, y, log_sums;
};

// The gradients of q and of this rank's own keys and values.
std::vector<Tensor> RunBackward(const RingAttention& ring, const Saved& saved, const Tensor& gradient) {
  const at::ScalarType type = SumType(saved.q.scalar_type());
  Tensor dq = at::zeros(saved.q.sizes(), saved.q.options().dtype(type));
  const RowGradients rows{saved.q, gradient, saved.log_sums, BlockAttention::Delta(gradient, saved.y)};
  Tensor held = saved.last;
  std::unique_ptr<Travel> gradients;
  for (int64_t step = ring.parts() - 1;; --step) {
    std::unique_ptr<Travel> next;
    if (step > 1) next = std::make_unique<Travel>(ring.back[step], held);
    Tensor given = at::zeros(held.sizes(), held.options().dtype(type));
    Tensor dk = Unpacked(given, 0), dv = Unpacked(given, 1);
    ring.blocks.AddGradients(rows, Unpacked(held, 0), Unpacked(held, 1), ring.FirstKeyAt(step), dq, dk, dv);
    if (gradients != nullptr) given.add_(gradients->Wait());
    if (step == 0) return {dq.to(saved.q.scalar_type()), given.to(saved.own.scalar_type())};
    gradients = std::make_unique<Travel>(ring.gradient[step], given);
    held = next != nullptr ? next->Wait() : saved.own;
  }
}

// The same of one whole sequence, in operations that can be differentiated again.
std::vector<Tensor> DifferentiableBackward(const RingAttention& ring, const Saved& saved, const Tensor& gradient) {
  TORCH_CHECK(ring.parts() == 1,
              "attention over a sequence that is cut cannot be differentiated twice: cut heads or batch "
              "instead, or do not ask for a graph of its gradient");
  const Tensor y =
      DenseAttention(saved.q, Unpacked(saved.own, 0), Unpacked(saved.own, 1),
                     ring.blocks.CausalScores(saved.q, ring.keys()), ring.blocks.DropoutFactors(saved.q, ring.keys()));
  variable_list leaves;
  for (const Tensor& x : {saved.q, saved.own}) {
    if (x.requires_grad()) leaves.push_back(x);
  }
  if (!y.requires_grad()) return {Tensor(), Tensor()};
  const variable_list found = torch::autograd::grad({y}, leaves, {gradient}, true, /*create_graph=*/true, true);
  auto next = found.begin();
  std::vector<Tensor> results;
  for (const Tensor& x : {saved.q, saved.own}) results.push_back(x.requires_grad() ? *next++ : Tensor());
  return results;
}

// (q, packed, token) -> (y, token').
struct AttendFunction : torch::autograd::Function<AttendFunction> {
  static variable_list forward(AutogradContext* context, Tensor q, Tensor packed, Tensor token,
                               std::shared_ptr<RingAttention> ring) {
    const std::vector<Tensor> found = RunForward(*ring, q, packed);
    context->save_for_backward({q, packed, found[2], found[0], found[1]});
    KeepInGraph(context, std::move(ring));
    return {found[0], at::empty_like(token)};
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const RingAttention& ring = KeptInGraph<RingAttention>(context);
    const variable_list kept = context->get_saved_variables();
    const Saved saved{kept[0], kept[1], kept[2], kept[3], kept[4]};
    std::vector<Tensor> found;
    if (at::GradMode::is_enabled()) {
      found = DifferentiableBackward(ring, saved, grads[0]);
    } else {
      found = RunBackward(ring, saved, grads[0]);
    }
    return {found[0], found[1], grads[1], Tensor()};
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

Tensor Attend(std::shared_ptr<RingAttention> ring, const Tensor& q, const Tensor& packed, Tape& tape) {
  const bool on_tape = ring->MovesBack() && at::GradMode::is_enabled();
  const Tensor token = on_tape ? tape.token() : at::empty({0}, at::TensorOptions(q.device()));
  const variable_list results = AttendFunction::apply(q, packed, token, std::move(ring));
  if (on_tape) tape.Advance(results[1]);
  return results[0];
}

}  // namespace adjoin
