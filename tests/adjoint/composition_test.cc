// Derivatives of first and second order through a composition of every movement, with local nonlinear kernels between
// them: against the same function of the gathered tensor in serial LibTorch, and against central differences.
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/all_gather.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/all_to_all.h"
#include "primitives/broadcast.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/gather.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/movement.h"
#include "primitives/redistribute.h"
#include "primitives/reduce_scatter.h"
#include "primitives/scatter.h"
#include "primitives/send_receive.h"
#include "primitives/status_exception.h"
#include "primitives/sum_reduce.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

using at::Tensor;

constexpr DType kType = DType::kFloat64;
const std::vector<int64_t> kShape = {11, 7};

// What every rank does between movements. `padded` has one row more above and below, one column more left and right.
Tensor Kernel(const Tensor& padded) {
  const int64_t rows = padded.size(0) - 2;
  const int64_t columns = padded.size(1) - 2;
  // A rank without outputs fetches nothing; its node stays in the graph.
  if (rows <= 0) return padded.narrow(1, 0, columns);
  const auto at = [&](int64_t i, int64_t j) { return padded.narrow(0, i, rows).narrow(1, j, columns); };
  return at::sin(at(1, 1)) * at(0, 1) + at(2, 1) * at(1, 0) + 0.5 * at(1, 2).pow(2) + 0.25 * at(0, 2) * at(2, 0);
}

// The factor by which a rank's copy of a broadcast enters its part of a sum.
Tensor Weight(int rank) { return 0.5 + 0.25 * at::cos(at::arange(77, at::kDouble).reshape(kShape) + rank); }

Tensor AfterBroadcast(const Tensor& h, int rank) { return (h * Weight(rank)).pow(2); }
Tensor AfterAllSumReduce(const Tensor& h, int rank) { return at::sin(at::sqrt(1 + h) * (1 + 0.3 * rank)); }
Tensor AfterReduceScatter(const Tensor& h) { return at::log(2 + h * h); }
Tensor LossOf(const Tensor& h, int rank) { return (h * Weight(rank + 1)).pow(3).sum() / 10; }

// The same on the gathered tensor.
Tensor SerialLoss(const Tensor& x, int ranks) {
  Tensor padded = at::cat({x.narrow(0, x.size(0) - 1, 1), x, x.narrow(0, 0, 1)}, 0);
  const Tensor nothing = at::zeros({padded.size(0), 1}, at::kDouble);
  padded = at::cat({nothing, padded, nothing}, 1);
  Tensor h = at::tanh(Kernel(padded));
  h = h * h;
  h = at::sin(2 * at::exp(0.3 * h));
  h = h * h + h;
  h = at::tanh(h);
  Tensor sum = at::zeros(kShape, at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) sum = sum + AfterBroadcast(h, rank);
  h = at::zeros(kShape, at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) h = h + AfterAllSumReduce(sum, rank);
  h = AfterReduceScatter(h);
  Tensor loss = at::zeros({}, at::kDouble);
  for (int rank = 0; rank < ranks; ++rank) loss = loss + LossOf(h, rank);
  return loss;
}

std::vector<int> Rotated(int ranks, int by) {
  std::vector<int> all;
  for (int i = 0; i < ranks; ++i) all.push_back((i + by) % ranks);
  return all;
}

// Every movement once, between layouts with uneven and, at times, empty parts.
class Composition {
 public:
  static absl::StatusOr<Composition> Create(Communicator* communicator, const Layout& x, uint64_t seed) {
    const int p = communicator->size();
    Draw draw(seed);
    const std::vector<int> turned = Rotated(p, 1);
    const Layout columns = *Layout::Partition(kShape, kType, {1, p}, turned, {{1, draw.Sizes(kShape[1], p)}});
    const Layout rows = *Layout::Partition(kShape, kType, {p, 1}, turned, {{0, draw.Sizes(kShape[0], p)}});
    const Mesh line = *Mesh::Create({p}, turned);
    const Layout by_columns =
        *Layout::Create(kShape, kType, line, {Placement::Split(1)}, {{1, draw.Sizes(kShape[1], p)}});
    const Layout by_rows = *Layout::Create(kShape, kType, line, {Placement::Split(0)}, {{0, draw.Sizes(kShape[0], p)}});
    const Layout all = *Layout::Create(kShape, kType, line, {Placement::Broadcast()});
    const auto owner = [](int rank) { return Layout::Owner(kShape, kType, rank); };
    const Window wrapped = *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1, .boundary = Boundary::kCircular});
    const Window zeros = *Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1});
    Composition c;
    c.rank_ = communicator->rank();
    ADJOIN_ASSIGN_OR_RETURN(c.halo_, HaloExchange::Create(communicator, x, {{0, wrapped}, {1, zeros}}, x, {1, "halo"}));
    ADJOIN_ASSIGN_OR_RETURN(c.repartition_, Redistribute::Create(communicator, x, by_columns, {2, "repartition"}));
    ADJOIN_ASSIGN_OR_RETURN(c.all_to_all_, AllToAll::Create(communicator, by_columns, by_rows, {3, "all-to-all"}));
    ADJOIN_ASSIGN_OR_RETURN(c.to_partial_, Redistribute::Create(communicator, by_rows, *all.Dual(), {4, "to partial"}));
    ADJOIN_ASSIGN_OR_RETURN(c.sum_, SumReduce::Create(communicator, *all.Dual(), owner(turned[p - 1]), {5, "sum"}));
    ADJOIN_ASSIGN_OR_RETURN(c.send_, SendReceive::Create(communicator, owner(turned[p - 1]), owner(0), {6, "send"}));
    ADJOIN_ASSIGN_OR_RETURN(c.scatter_, Scatter::Create(communicator, owner(0), columns, {7, "scatter"}));
    ADJOIN_ASSIGN_OR_RETURN(c.gather_, Gather::Create(communicator, columns, owner(turned[0]), {8, "gather"}));
    ADJOIN_ASSIGN_OR_RETURN(c.broadcast_, Broadcast::Create(communicator, owner(turned[0]), all, {9, "broadcast"}));
    ADJOIN_ASSIGN_OR_RETURN(c.all_sum_, AllSumReduce::Create(communicator, *all.Dual(), {10, "all-sum"}));
    ADJOIN_ASSIGN_OR_RETURN(c.reduce_scatter_,
                            ReduceScatter::Create(communicator, *all.Dual(), by_rows, {11, "reduce-scatter"}));
    ADJOIN_ASSIGN_OR_RETURN(c.all_gather_, AllGather::Create(communicator, by_rows, all, {12, "all-gather"}));
    return c;
  }

  // This rank's part of the loss.
  Tensor Loss(const Tensor& x, Tape& tape) const {
    Tensor h = at::tanh(repartition_->Apply(Kernel(halo_->Apply(x, tape)), tape));
    h = all_to_all_->Apply(h, tape);
    h = to_partial_->Apply(h * h, tape);
    h = 2 * at::exp(0.3 * sum_->Apply(h, tape));
    h = at::sin(SendReceive::Move(*send_, h, tape));
    h = scatter_->Apply(h, tape);
    h = at::tanh(gather_->Apply(h * h + h, tape));
    h = broadcast_->Apply(h, tape);
    h = all_sum_->Apply(AfterBroadcast(h, rank_), tape);
    h = reduce_scatter_->Apply(AfterAllSumReduce(h, rank_), tape);
    h = all_gather_->Apply(AfterReduceScatter(h), tape);
    return LossOf(h, rank_);
  }

 private:
  int rank_ = 0;
  std::shared_ptr<Movement> halo_, repartition_, all_to_all_, to_partial_, sum_, send_, scatter_, gather_, broadcast_,
      all_sum_, reduce_scatter_, all_gather_;
};

absl::Status Near(const std::string& what, const Tensor& got, const Tensor& expected, double tolerance) {
  const double error = got.numel() == 0 ? 0 : (got - expected).abs().max().item<double>();
  const double scale = 1 + (expected.numel() == 0 ? 0 : expected.abs().max().item<double>());
  if (error <= tolerance * scale) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " is off by ", error, ", its size is ", scale));
}

// One rank's checks. All tensors here are of the whole x; a rank takes its box of them.
class Derivatives {
 public:
  Derivatives(Communicator& communicator, const Composition& f, const Layout& layout, Movement& total)
      : f_(f), box_(layout.BoxOf(communicator.rank())), ranks_(communicator.size()), total_(total) {}

  absl::Status Check(const Tensor& x, const Tensor& direction) {
    const auto [g, h] = Of(x, direction);
    // Serial LibTorch.
    Tensor leaf = x.clone().requires_grad_();
    const Tensor loss = SerialLoss(leaf, ranks_);
    const Tensor serial_g = torch::autograd::grad({loss}, {leaf}, {}, true, true)[0];
    const Tensor serial_h = torch::autograd::grad({(serial_g * direction).sum()}, {leaf})[0];
    ADJOIN_RETURN_IF_ERROR(Near("the loss", LossAt(x), loss.detach(), 1e-12));
    ADJOIN_RETURN_IF_ERROR(Near("the gradient", g, Own(serial_g.detach()), 1e-12));
    ADJOIN_RETURN_IF_ERROR(Near("the second derivative", h, Own(serial_h), 1e-11));
    // Central differences.
    const double step = 1e-5;
    const Tensor slope = (LossAt(x + step * direction) - LossAt(x - step * direction)) / (2 * step);
    const Tensor along = total_.Forward((g * Own(direction)).sum());
    ADJOIN_RETURN_IF_ERROR(Near("the slope", along, slope, 1e-7));
    const Tensor change =
        (Of(x + step * direction, direction).first - Of(x - step * direction, direction).first) / (2 * step);
    ADJOIN_RETURN_IF_ERROR(Near("the change of the gradient", h, change, 1e-7));
    if (slope.abs().item<double>() < 1e-6) return absl::InternalError("the loss does not depend on x");
    return absl::OkStatus();
  }

 private:
  Tensor Own(const Tensor& global) const {
    return global.narrow(0, box_[0].lo, box_[0].size()).narrow(1, box_[1].lo, box_[1].size()).contiguous();
  }

  Tensor LossAt(const Tensor& x) {
    at::NoGradGuard no_grad;
    Tape tape;
    return total_.Forward(f_.Loss(Own(x), tape));
  }

  // This rank's part of the gradient, and of the second derivatives' product with `direction`.
  std::pair<Tensor, Tensor> Of(const Tensor& at, const Tensor& direction) {
    Tensor x = Own(at).requires_grad_();
    Tape tape;
    const Tensor g = tape.Grad({f_.Loss(x, tape)}, {x}, {}, /*create_graph=*/true)[0];
    const Tensor h = tape.Grad({(g * Own(direction)).sum()}, {x}, {})[0];
    return {g.detach(), h};
  }

  const Composition& f_;
  const Box box_;
  const int ranks_;
  Movement& total_;
};

class CompositionTest : public testing::TestWithParam<std::tuple<TransportKind, int>> {};

TEST_P(CompositionTest, AgreesWithSerialAndWithCentralDifferences) {
  at::set_num_threads(1);
  const auto [transport_kind, ranks] = GetParam();
  Draw draw = Draw::FromEnvironment();
  for (int i = 0; i < 3; ++i) {
    const uint64_t seed = draw.engine()();
    const Layout x =
        *Layout::Partition(kShape, kType, {ranks, 1}, Rotated(ranks, i), {{0, draw.Sizes(kShape[0], ranks)}});
    const Tensor at = 0.5 * RandomTensor(draw, kShape, kType);
    const Tensor direction = RandomTensor(draw, kShape, kType);
    const absl::Status status =
        RunRanks(ranks, transport_kind, seed, [&, ranks = ranks](Transport& transport) -> absl::Status {
          HostMemory memory;
          Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
          ADJOIN_ASSIGN_OR_RETURN(const Composition f, Composition::Create(&communicator, x, seed));
          const Layout everywhere = *Layout::Replicated({}, kType, Rotated(ranks, 0));
          ADJOIN_ASSIGN_OR_RETURN(const auto total,
                                  AllSumReduce::Create(&communicator, *everywhere.Dual(), {13, "total"}));
          try {
            return Derivatives(communicator, f, x, *total).Check(at, direction);
          } catch (...) {
            return StatusFromCurrentException();
          }
        });
    ASSERT_TRUE(status.ok()) << x.ToString() << ": " << status;
  }
}

INSTANTIATE_TEST_SUITE_P(InMemory, CompositionTest,
                         testing::Combine(testing::Values(TransportKind::kInMemoryDelayed),
                                          testing::Values(1, 2, 3, 4, 5, 6, 7, 8)));
INSTANTIATE_TEST_SUITE_P(Ucx, CompositionTest,
                         testing::Combine(testing::Values(TransportKind::kUcxSharedMemory, TransportKind::kUcxTcp),
                                          testing::Values(2, 3, 8)));

}  // namespace
}  // namespace adjoin
