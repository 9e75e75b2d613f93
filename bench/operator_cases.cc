#include "bench/operator_cases.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "bench/protocol.h"
#include "primitives/all_gather.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/all_to_all.h"
#include "primitives/broadcast.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/kept_halo.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/halo_refresh.h"
#include "primitives/reduce_scatter.h"
#include "primitives/send_receive.h"
#include "primitives/sum_reduce.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"

namespace adjoin {
namespace {

using Movements = std::vector<std::shared_ptr<Movement>>;

}  // namespace

c10::Device OperatorCases::device() const { return TensorDeviceOf(communicator_->memory()); }

const std::vector<std::string>& OperatorCases::Names() {
  static const auto* names = new std::vector<std::string>{
      "ping_pong", "broadcast", "sum_reduce", "all_sum_reduce", "all_gather", "reduce_scatter", "all_to_all", "halo"};
  return *names;
}

std::vector<int> OperatorCases::AllRanks() const {
  std::vector<int> all(ranks());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

at::Tensor OperatorCases::Filled(const std::vector<int64_t>& shape, double value) const {
  return at::empty(shape, at::TensorOptions(device()).dtype(at::kFloat)).fill_(value);
}

at::Tensor OperatorCases::Call(Movement& movement, const at::Tensor& x) const {
  if (!autograd_) return movement.Forward(x);
  Tape tape(device());
  return movement.Apply(x, tape);
}

absl::StatusOr<OperatorCase> OperatorCases::Make(const std::string& op, int64_t bytes) {
  if (bytes <= 0 || bytes % (4 * ranks()) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes are not a number of floats for each of ", ranks(), " ranks"));
  }
  if (op == "ping_pong") return PingPong(bytes / 4);
  if (op == "broadcast" || op == "sum_reduce") return Rooted(op, bytes / 4);
  if (op == "halo") {
    const auto [channels, side] = bench::PatchOf(bytes);
    if (channels == 0) {
      return absl::InvalidArgumentError(absl::StrCat("halo: ", bytes,
                                                     " bytes are no patch of 16, 8 or 4 channels "
                                                     "whose side is a power of two from 8 up"));
    }
    return Halo(channels, side * bench::GridOf(ranks()).rows, side * bench::GridOf(ranks()).columns);
  }
  if (std::find(Names().begin(), Names().end(), op) == Names().end()) {
    return absl::InvalidArgumentError(absl::StrCat("no operator '", op, "'; there are ", absl::StrJoin(Names(), ", ")));
  }
  return Collective(op, bytes / 4);
}

// Ranks 0 and 1, 2 and 3, ... at once.
absl::StatusOr<OperatorCase> OperatorCases::PingPong(int64_t cells) {
  if (ranks() % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("ping_pong: ", ranks(), " ranks do not pair up"));
  }
  const int rank = communicator_->rank(), first = rank / 2 * 2;
  const Layout low = Layout::Owner({cells}, DType::kFloat32, first);
  const Layout high = Layout::Owner({cells}, DType::kFloat32, first + 1);
  ADJOIN_ASSIGN_OR_RETURN(auto ping, SendReceive::Create(communicator_, low, high, NextOptions("ping")));
  ADJOIN_ASSIGN_OR_RETURN(auto pong, SendReceive::Create(communicator_, high, low, NextOptions("pong")));
  const at::Tensor own = Filled({cells}, rank + 1), none = Filled({0}, 0);
  OperatorCase result;
  if (rank == first) {
    result.run = [=](int64_t) {
      Call(*ping, own);
      return Call(*pong, none);
    };
  } else {
    result.run = [=](int64_t) {
      at::Tensor received = Call(*ping, none);
      Call(*pong, own);
      return received;
    };
  }
  result.expected = [=](int64_t) { return Filled({cells}, rank == first ? rank + 2 : rank); };
  result.messages = 2;
  return result;
}

absl::StatusOr<OperatorCase> OperatorCases::Rooted(const std::string& op, int64_t cells) {
  const int rank = communicator_->rank(), size = ranks();
  ADJOIN_ASSIGN_OR_RETURN(const Layout everywhere, Layout::Replicated({cells}, DType::kFloat32, AllRanks()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout parts, everywhere.Dual());
  const bool broadcast = op == "broadcast";
  Movements by_root;
  for (int root = 0; root < size; ++root) {
    const Layout owner = Layout::Owner({cells}, DType::kFloat32, root);
    ADJOIN_ASSIGN_OR_RETURN(auto movement, broadcast
                                               ? Broadcast::Create(communicator_, owner, everywhere, NextOptions(op))
                                               : SumReduce::Create(communicator_, parts, owner, NextOptions(op)));
    by_root.push_back(std::move(movement));
  }
  const at::Tensor own = Filled({cells}, rank + 1), none = Filled({0}, 0);
  OperatorCase result;
  result.run = [=](int64_t i) { return Call(*by_root[i % size], broadcast && rank != i % size ? none : own); };
  result.expected = [=](int64_t i) {
    if (broadcast) return Filled({cells}, i % size + 1);
    return rank == i % size ? Filled({cells}, size * (size + 1) / 2) : none;
  };
  return result;
}

absl::StatusOr<OperatorCase> OperatorCases::Collective(const std::string& op, int64_t cells) {
  const int rank = communicator_->rank(), size = ranks();
  ADJOIN_ASSIGN_OR_RETURN(const Layout whole, Layout::Replicated({cells}, DType::kFloat32, AllRanks()));
  ADJOIN_ASSIGN_OR_RETURN(const Layout parts, whole.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const Layout split, Layout::Partition({cells}, DType::kFloat32, {size}, AllRanks()));
  // One row per rank, so that what goes to one rank lies together, as it does in MPI.
  ADJOIN_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Create({size}));
  ADJOIN_ASSIGN_OR_RETURN(const Layout rows,
                          Layout::Create({size, cells}, DType::kFloat32, mesh, {Placement::Split(0)}));
  ADJOIN_ASSIGN_OR_RETURN(const Layout columns,
                          Layout::Create({size, cells}, DType::kFloat32, mesh, {Placement::Split(1)}));
  absl::StatusOr<std::shared_ptr<Movement>> made;
  if (op == "all_sum_reduce") made = AllSumReduce::Create(communicator_, parts, NextOptions(op));
  if (op == "reduce_scatter") made = ReduceScatter::Create(communicator_, parts, split, NextOptions(op));
  if (op == "all_gather") made = AllGather::Create(communicator_, split, whole, NextOptions(op));
  if (op == "all_to_all") made = AllToAll::Create(communicator_, rows, columns, NextOptions(op));
  ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<Movement> movement, std::move(made));

  const Layout& from = op == "all_gather" ? split : op == "all_to_all" ? rows : parts;
  const at::Tensor own = Filled(from.LocalShape(rank), rank + 1);
  OperatorCase result;
  result.run = [=](int64_t) { return Call(*movement, own); };
  result.expected = [=](int64_t) {
    const int sum = size * (size + 1) / 2;
    if (op == "all_sum_reduce") return Filled({cells}, sum);
    if (op == "reduce_scatter") return Filled({cells / size}, sum);
    const at::Tensor sources = at::arange(1, size + 1, at::TensorOptions(device()).dtype(at::kFloat))
                                   .unsqueeze(1)
                                   .expand({size, cells / size});
    return op == "all_gather" ? sources.reshape({cells}) : sources.contiguous();
  };
  return result;
}

absl::StatusOr<OperatorCase> OperatorCases::MakeImageHalo() {
  return Halo(bench::kImageChannels, bench::kImageSide, bench::kImageSide);
}

absl::StatusOr<OperatorCase> OperatorCases::MakeImageRefresh() {
  ADJOIN_ASSIGN_OR_RETURN(const Layout image, ImageLayout(bench::kImageChannels, bench::kImageSide, bench::kImageSide));
  const std::map<int, HaloWidth> widths = {{2, {.lo = 1, .hi = 1}}, {3, {.lo = 1, .hi = 1}}};
  const Movement::Options named = NextOptions("ring");
  ADJOIN_ASSIGN_OR_RETURN(const auto ring,
                          HaloRefresh::Create(communicator_, image, widths, {.id = named.id, .name = named.name}));
  const at::Tensor padded = ring->NewPadded();
  ring->InteriorOf(padded).fill_(communicator_->rank() + 1);
  OperatorCase result;
  result.run = [=](int64_t) {
    ring->Refresh(padded);
    return padded;
  };
  result.expected = [=](int64_t) { return PaddedPart(image); };
  return result;
}

// Cut along both sides.
absl::StatusOr<Layout> OperatorCases::ImageLayout(int64_t channels, int64_t rows, int64_t columns) const {
  const bench::Grid grid = bench::GridOf(ranks());
  return Layout::Partition({1, channels, rows, columns}, DType::kFloat32, {1, 1, grid.rows, grid.columns}, AllRanks());
}

at::Tensor OperatorCases::PaddedPart(const Layout& image) const {
  const Box inner = image.BoxOf(communicator_->rank());
  at::Tensor padded = Filled({1, image.shape()[1], inner[2].hi - inner[2].lo + 2, inner[3].hi - inner[3].lo + 2}, 0);
  for (const int r : AllRanks()) {
    const Box box = image.BoxOf(r);
    at::Tensor part = padded;
    for (const int d : {2, 3}) {
      const int64_t first = inner[d].lo - 1;  // the global index of the padded tensor's first cell
      const int64_t lo = std::clamp(box[d].lo - first, int64_t{0}, padded.size(d));
      part = part.slice(d, lo, std::clamp(box[d].hi - first, lo, padded.size(d)));
    }
    part.fill_(r + 1);
  }
  return padded;
}

// With a border of zeros, for a convolution of 3 x 3.
absl::StatusOr<OperatorCase> OperatorCases::Halo(int64_t channels, int64_t rows, int64_t columns) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout image, ImageLayout(channels, rows, columns));
  ADJOIN_ASSIGN_OR_RETURN(const Window window, Window::Create({.kernel = 3, .pad_lo = 1, .pad_hi = 1}));
  ADJOIN_ASSIGN_OR_RETURN(auto movement, HaloExchange::Create(communicator_, image, {{2, window}, {3, window}}, image,
                                                              NextOptions("halo")));
  const int rank = communicator_->rank();
  const at::Tensor own = Filled(image.LocalShape(rank), rank + 1);
  OperatorCase result;
  result.run = [=](int64_t) { return Call(*movement, own); };
  result.expected = [=](int64_t) { return PaddedPart(image); };
  return result;
}

}  // namespace adjoin
