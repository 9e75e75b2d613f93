// Trains convolution, ReLU and a linear head on images that are cut over a 2x2 grid of ranks. Only the comparison needs
// whole images and the head's whole weight. Rank 0 prints each step's loss and the serial network's.
#include <cstdio>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "base/status_macros.h"
#include "examples/standalone/launch.h"
#include "primitives/broadcast.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/sum_reduce.h"
#include "primitives/tape.h"

using namespace adjoin;

namespace {

torch::Tensor Part(torch::Tensor whole, const Box& box) {
  for (int d = 0; d < box.dims(); ++d) whole = whole.slice(d, box[d].lo, box[d].hi);
  return whole.clone();
}

void Step(const std::vector<torch::Tensor>& parameters) {
  torch::NoGradGuard no_grad;
  for (torch::Tensor p : parameters) p.sub_(std::exchange(p.mutable_grad(), {}), /*alpha=*/0.1);
}

absl::Status Train(Communicator& communicator) {
  torch::set_num_threads(1);
  torch::manual_seed(1);  // every rank makes the same tensors and keeps its part of each
  const int rank = communicator.rank();
  const std::vector<int> ranks = {0, 1, 2, 3};
  constexpr DType kType = DType::kFloat64;
  const torch::Tensor images = torch::randn({8, 1, 12, 10}, torch::kF64), labels = torch::randint(5, {8});
  const auto conv = torch::randn({4, 1, 3, 3}, torch::kF64) / 3, head = torch::randn({5, 4, 12, 10}, torch::kF64) / 20;
  // Images, features and the head's weight are cut alike; the convolution's weight and the logits are rank 0's.
  ADJOIN_ASSIGN_OR_RETURN(const Layout image_grid, Layout::Partition({8, 1, 12, 10}, kType, {1, 1, 2, 2}, ranks));
  ADJOIN_ASSIGN_OR_RETURN(const Layout feature_grid, image_grid.WithShape({8, 4, 12, 10}));
  ADJOIN_ASSIGN_OR_RETURN(const Layout head_grid, image_grid.WithShape({5, 4, 12, 10}));
  const Layout conv_owner = Layout::Owner({4, 1, 3, 3}, kType, 0), logits_owner = Layout::Owner({8, 5}, kType, 0);
  ADJOIN_ASSIGN_OR_RETURN(const Layout conv_all, Layout::Replicated({4, 1, 3, 3}, kType, ranks));
  ADJOIN_ASSIGN_OR_RETURN(const Layout logits_parts, Layout::Replicated({8, 5}, kType, ranks)->Dual());
  ADJOIN_ASSIGN_OR_RETURN(const Window window, Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1}));
  ADJOIN_ASSIGN_OR_RETURN(const auto halo, HaloExchange::Create(&communicator, image_grid, {{2, window}, {3, window}},
                                                                feature_grid, {1, "conv.x"}));
  ADJOIN_ASSIGN_OR_RETURN(const auto copy, Broadcast::Create(&communicator, conv_owner, conv_all, {2, "conv.w"}));
  ADJOIN_ASSIGN_OR_RETURN(const auto sum, SumReduce::Create(&communicator, logits_parts, logits_owner, {3, "head.y"}));
  const torch::Tensor x = Part(images, image_grid.BoxOf(rank));
  const torch::Tensor own_conv = Part(conv, conv_owner.BoxOf(rank)).requires_grad_();  // empty but on rank 0
  const torch::Tensor own_head = Part(head, head_grid.BoxOf(rank)).requires_grad_();
  const torch::Tensor serial_conv = conv.clone().requires_grad_(), serial_head = head.clone().requires_grad_();
  for (int step = 0; step < 5; ++step) {
    Tape tape;
    const torch::Tensor features = torch::relu(torch::conv2d(halo->Apply(x, tape), copy->Apply(own_conv, tape)));
    const torch::Tensor logits = sum->Apply(torch::einsum("nchw,kchw->nk", {features, own_head}), tape);
    const torch::Tensor loss = rank == 0 ? torch::cross_entropy_loss(logits, labels) : torch::Tensor();
    tape.Backward(loss);
    Step({own_conv, own_head});
    if (rank != 0) continue;
    const torch::Tensor serial_features = torch::relu(torch::conv2d(images, serial_conv, {}, 1, 1));
    const torch::Tensor serial_logits = torch::einsum("nchw,kchw->nk", {serial_features, serial_head});
    const torch::Tensor serial = torch::cross_entropy_loss(serial_logits, labels);
    serial.backward();
    Step({serial_conv, serial_head});
    std::printf("step %d: loss %.12f, serial %.12f\n", step, loss.item<double>(), serial.item<double>());
    if (!((loss - serial).abs().item<double>() <= 1e-12)) return absl::InternalError("the losses differ");
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return Launch(argc, argv, /*ranks=*/4, Train); }
