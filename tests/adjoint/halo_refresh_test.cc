// The refresh of a kept halo on ranks, against a map from each cell of a padded tensor to the cell that it is a copy
// of, made by walking over indices: values, the adjoint, derivatives through the tape, memory layouts and types; and
// what autograd must know of a change in place.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/kept_halo.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "primitives/halo_refresh.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"
#include "primitives/testing/rank_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/random_meshes.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

constexpr DType kTypes[] = {DType::kFloat64,   DType::kFloat32,    DType::kFloat64, DType::kBFloat16, DType::kFloat16,
                            DType::kComplex64, DType::kComplex128, DType::kInt64,   DType::kUInt8,    DType::kBool};

absl::Status OnRanks(int ranks, TransportKind kind, uint64_t seed,
                     const std::function<absl::Status(Communicator&)>& fn) {
  at::set_num_threads(1);
  return RunRanks(ranks, kind, seed, [&](Transport& transport) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory, MemoryOfRank(kind, transport.rank(), seed));
    Communicator communicator(&transport, memory.get(), {0, absl::Seconds(40)});
    try {
      return fn(communicator);
    } catch (...) {
      return StatusFromCurrentException();
    }
  });
}

// A cell of some rank's padded tensor, in row-major order.
struct Source {
  int rank;
  int64_t cell;
};

struct RefreshCase {
  Layout layout;
  std::map<int, HaloWidth> widths;
  std::vector<std::vector<int64_t>> shapes;  // per rank
  std::vector<std::vector<Source>> sources;  // per rank and cell: what it is a copy of
  std::vector<at::Tensor> x, y, v;           // per rank: independent cells

  std::string What() const { return layout.ToString(); }
};

// Where index `i` has its value; -1 on the zero boundary.
int64_t Inside(int64_t i, int64_t n, Boundary boundary) {
  if (i >= 0 && i < n) return i;
  switch (boundary) {
    case Boundary::kZeros: return -1;
    case Boundary::kCircular: return ((i % n) + n) % n;
    case Boundary::kReflect: return i < 0 ? -i : 2 * (n - 1) - i;
    case Boundary::kReplicate: return i < 0 ? 0 : n - 1;
  }
  return -1;
}

HaloWidth WidthOf(const RefreshCase& c, int dim) {
  const auto width = c.widths.find(dim);
  return width == c.widths.end() ? HaloWidth{} : width->second;
}

// The rank that holds index `at` and has the coordinates of `rank` along all axes that do not split.
int OwnerOf(const Layout& x, int rank, const std::vector<int64_t>& at) {
  const std::vector<int64_t> mine = *x.mesh().CoordsOf(rank);
  for (const int other : x.mesh().ranks()) {
    const std::vector<int64_t> theirs = *x.mesh().CoordsOf(other);
    bool holds = true;
    for (int axis = 0; axis < x.mesh().axes(); ++axis) {
      holds = holds && (x.placements()[axis].kind == Placement::Kind::kSplit || mine[axis] == theirs[axis]);
    }
    const Box part = x.BoxOf(other);
    for (int d = 0; d < x.dims(); ++d) holds = holds && part[d].Contains(at[d]);
    if (holds) return other;
  }
  return -1;
}

std::vector<int64_t> PaddedShape(const RefreshCase& c, int rank) {
  const Box part = c.layout.BoxOf(rank);
  std::vector<int64_t> shape;
  for (int d = 0; d < c.layout.dims(); ++d) {
    const HaloWidth width = WidthOf(c, d);
    shape.push_back(part[d].empty() ? 0 : width.lo + part[d].size() + width.hi);
  }
  return shape;
}

std::vector<Source> SourcesOf(const RefreshCase& c, int rank) {
  const Box part = c.layout.BoxOf(rank);
  std::vector<Source> sources;
  const Box padded = Box::Whole(c.shapes[rank]);
  for (int64_t cell = 0; cell < padded.Volume(); ++cell) {
    std::vector<int64_t> at = padded.CellAt(cell);
    bool own = true, outside = false;
    for (int d = 0; d < part.dims(); ++d) {
      const HaloWidth width = WidthOf(c, d);
      at[d] += part[d].lo - width.lo;
      own = own && part[d].Contains(at[d]);
      at[d] = Inside(at[d], c.layout.shape()[d], width.boundary);
      outside = outside || at[d] < 0;
    }
    if (own || outside) {
      sources.push_back({rank, cell});
      continue;
    }
    const int owner = OwnerOf(c.layout, rank, at);
    const Box theirs = c.layout.BoxOf(owner);
    for (int d = 0; d < part.dims(); ++d) at[d] += WidthOf(c, d).lo - theirs[d].lo;
    sources.push_back({owner, RowMajorPlace(at, c.shapes[owner])});
  }
  return sources;
}

RefreshCase RandomRefresh(Draw& draw, int ranks, DType dtype) {
  const std::vector<int64_t> shape = draw.Integers(draw.Between(1, 4), 1, draw.OneIn(2) ? 9 : 5);
  RefreshCase c{RandomLayout(draw, shape, RandomMeshOf(draw, ranks)).WithDType(dtype), {}, {}, {}, {}, {}, {}};
  for (int d = 0; d < c.layout.dims(); ++d) {
    if (draw.OneIn(4)) continue;
    HaloWidth width;
    width.boundary = static_cast<Boundary>(draw.OneIn(2) ? 0 : draw.Between(0, 3));
    const int64_t most = width.boundary == Boundary::kReflect ? shape[d] - 1 : shape[d];
    width.lo = draw.Between(0, std::min<int64_t>(most, 3));
    width.hi = draw.Between(0, std::min<int64_t>(most, 3));
    c.widths[d] = width;
  }
  for (int rank = 0; rank < ranks; ++rank) c.shapes.push_back(PaddedShape(c, rank));
  for (int rank = 0; rank < ranks; ++rank) {
    c.sources.push_back(SourcesOf(c, rank));
    // Small integers: no sum of them is rounded.
    for (std::vector<at::Tensor>* tensors : {&c.x, &c.y, &c.v}) {
      tensors->push_back(RandomIntegers(draw, c.shapes[rank], dtype));
    }
  }
  return c;
}

// The operator by the map.
at::Tensor Refreshed(const RefreshCase& c, const std::vector<at::Tensor>& x, int rank) {
  at::Tensor result = x[rank].clone(at::MemoryFormat::Contiguous);
  at::Tensor flat = result.view({-1});
  for (std::size_t cell = 0; cell < c.sources[rank].size(); ++cell) {
    const Source source = c.sources[rank][cell];
    flat[static_cast<int64_t>(cell)].copy_(x[source.rank].reshape({-1})[source.cell]);
  }
  return result;
}

// Its adjoint by the map: what each rank's cells give to the cells that they are copies of.
at::Tensor Returned(const RefreshCase& c, const std::vector<at::Tensor>& y, int rank) {
  at::Tensor result = at::zeros_like(y[rank], at::MemoryFormat::Contiguous);
  at::Tensor flat = result.view({-1});
  for (std::size_t from = 0; from < c.sources.size(); ++from) {
    for (std::size_t cell = 0; cell < c.sources[from].size(); ++cell) {
      const Source source = c.sources[from][cell];
      if (source.rank == rank) flat[source.cell] += y[from].reshape({-1})[static_cast<int64_t>(cell)];
    }
  }
  return result;
}

#define CHECK_OR_RETURN(condition, what) \
  if (!(condition)) return absl::InternalError(what)

absl::Status InPlaceThroughTheTape(const RefreshCase& c, HaloRefresh& halo, int rank, at::Device device) {
  // loss = <y, (A x)^2>, so that the gradient is A* (2 y A x), and its derivative along v is A* (2 y A v).
  const at::Tensor x = c.x[rank].to(device).requires_grad_(), y = c.y[rank].to(device), v = c.v[rank].to(device);
  for (const bool in_place : {true, false}) {
    Tape tape(device);
    at::Tensor padded = x.clone();
    const int64_t version = padded._version();
    at::Tensor refreshed = padded;
    if (in_place) {
      halo.ApplyInPlace(padded, tape);
      CHECK_OR_RETURN(padded.data_ptr() == refreshed.data_ptr(), "the result is another tensor");
      CHECK_OR_RETURN(padded._version() > version, "autograd does not know of the change");
    } else {
      refreshed = halo.Apply(padded, tape);
      CHECK_OR_RETURN(at::equal(padded, x), "Apply changed its input");
    }
    CHECK_OR_RETURN(SameBits(refreshed, Refreshed(c, c.x, rank).to(device)), "other values with autograd");
    const at::Tensor g = tape.Grad({refreshed * refreshed}, {x}, {y}, /*create_graph=*/true)[0];
    const at::Tensor second = tape.Grad({g}, {x}, {v})[0];
    std::vector<at::Tensor> first_weights, second_weights;
    for (std::size_t r = 0; r < c.x.size(); ++r) {
      const int other = static_cast<int>(r);
      first_weights.push_back(2 * c.y[r] * Refreshed(c, c.x, other));
      second_weights.push_back(2 * c.y[r] * Refreshed(c, c.v, other));
    }
    CHECK_OR_RETURN(at::equal(g.to(at::kCPU), Returned(c, first_weights, rank)), "a wrong gradient");
    CHECK_OR_RETURN(at::equal(second.to(at::kCPU), Returned(c, second_weights, rank)), "a wrong second derivative");
  }
  return absl::OkStatus();
}

absl::Status ProveOnRank(const RefreshCase& c, Communicator& communicator, int64_t id) {
  const int rank = communicator.rank();
  const at::Device device = TensorDeviceOf(communicator.memory());
  const bool differentiable = IsFloatingPoint(c.layout.dtype());
  ADJOIN_ASSIGN_OR_RETURN(const auto halo,
                          HaloRefresh::Create(&communicator, c.layout, c.widths, {id, "field", differentiable}));
  CHECK_OR_RETURN(halo->halo().PaddedShape(rank) == c.shapes[rank], "another padded shape");
  const at::Tensor expected = Refreshed(c, c.x, rank);
  for (int how = 0; how < 4; ++how) {  // those layouts in memory that can be written
    const at::NoGradGuard no_grad;
    const at::Tensor padded = LaidOut(c.x[rank].clone().to(device), how);
    const int64_t version = padded._version();
    const int64_t before = communicator.BytesSent();
    halo->Refresh(padded);
    CHECK_OR_RETURN(SameBits(padded, expected), absl::StrCat("wrong values, in memory as ", how));
    CHECK_OR_RETURN(padded._version() > version || !padded.is_contiguous(), "not counted as a change");
    CHECK_OR_RETURN(communicator.BytesSent() - before == halo->BytesSent(), "not the bytes that were planned");
    halo->Refresh(padded);  // of a refreshed tensor: nothing changes
    CHECK_OR_RETURN(SameBits(padded, expected), "a second refresh changes something");
  }
  for (int how = 0; how < kLayoutsInMemory; ++how) {
    const at::Tensor y = LaidOut(c.y[rank].clone().to(device), how);
    CHECK_OR_RETURN(SameBits(halo->Adjoint(y), Returned(c, c.y, rank)), absl::StrCat("a wrong adjoint, as ", how));
    CHECK_OR_RETURN(SameBits(y, c.y[rank]), "the adjoint changed its input");
    const at::Tensor x = LaidOut(c.x[rank].clone().to(device), how);
    CHECK_OR_RETURN(SameBits(halo->Forward(x), expected), absl::StrCat("a wrong copy, as ", how));
  }
  const bool exact = c.layout.dtype() == DType::kFloat64 || c.layout.dtype() == DType::kFloat32;
  return exact ? InPlaceThroughTheTape(c, *halo, rank, device) : absl::OkStatus();
}

class HaloRefreshTest : public testing::TestWithParam<TransportKind> {};

TEST_P(HaloRefreshTest, IsTheOperatorOfItsMap) {
  Draw draw = Draw::FromEnvironment();
  for (const int ranks : {1, 2, 4, 6}) {
    std::vector<RefreshCase> cases;
    for (int i = 0; i < 24; ++i) cases.push_back(RandomRefresh(draw, ranks, kTypes[i % std::size(kTypes)]));
    const absl::Status status = OnRanks(ranks, GetParam(), 5, [&](Communicator& communicator) -> absl::Status {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        const absl::Status proved = ProveOnRank(cases[i], communicator, static_cast<int64_t>(i) + 1);
        if (!proved.ok()) return absl::InternalError(absl::StrCat(cases[i].What(), ": ", proved.message()));
      }
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
  }
}

// <A x, y> = <x, A* y> with all cells drawn independently, copies and rings included.
TEST_P(HaloRefreshTest, HasItsAdjoint) {
  Draw draw = Draw::FromEnvironment();
  constexpr int kRanks = 4;
  for (int i = 0; i < 20; ++i) {
    RefreshCase c = RandomRefresh(draw, kRanks, DType::kFloat64);
    for (int rank = 0; rank < kRanks; ++rank) {
      c.x[rank] = RandomTensor(draw, c.shapes[rank], DType::kFloat64);
      c.y[rank] = RandomTensor(draw, c.shapes[rank], DType::kFloat64);
    }
    std::vector<double> left(kRanks), right(kRanks), size(kRanks);
    const absl::Status status = OnRanks(kRanks, GetParam(), 7, [&](Communicator& communicator) -> absl::Status {
      const at::Device device = TensorDeviceOf(communicator.memory());
      const int rank = communicator.rank();
      ADJOIN_ASSIGN_OR_RETURN(const auto halo, HaloRefresh::Create(&communicator, c.layout, c.widths, {1, "field"}));
      const at::Tensor ax = halo->Forward(c.x[rank].to(device)).to(at::kCPU);
      const at::Tensor ay = halo->Adjoint(c.y[rank].to(device)).to(at::kCPU);
      left[rank] = (ax * c.y[rank]).sum().item<double>();
      right[rank] = (c.x[rank] * ay).sum().item<double>();
      size[rank] = (ax * c.y[rank]).abs().sum().item<double>();
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << c.What() << ": " << status;
    double difference = 0, scale = 1;
    for (int rank = 0; rank < kRanks; ++rank) {
      difference += left[rank] - right[rank];
      scale += size[rank];
    }
    EXPECT_LE(std::abs(difference), 1e-12 * scale) << c.What();
  }
}

// Two ranks beside each other.
absl::StatusOr<std::shared_ptr<HaloRefresh>> RowOfTwo(Communicator& communicator) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout row, Layout::Partition({3, 8}, DType::kFloat64, {1, 2}, {0, 1}));
  return HaloRefresh::Create(&communicator, row, {{1, {.lo = 1, .hi = 1}}}, {.id = 1, .name = "field"});
}

// What was computed of a tensor before it was refreshed, and needs its values, must not have a wrong gradient.
TEST_P(HaloRefreshTest, AutogradKnowsThatValuesAreGone) {
  const absl::Status status = OnRanks(2, GetParam(), 1, [](Communicator& communicator) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto halo, RowOfTwo(communicator));
    const at::Device device = TensorDeviceOf(communicator.memory());
    for (const bool with_autograd : {true, false}) {
      const at::Tensor leaf = halo->NewPadded().add_(2).requires_grad_();
      at::Tensor padded = leaf * 1;
      const at::Tensor squares = padded * padded;
      Tape tape(device);
      if (with_autograd) {
        halo->ApplyInPlace(padded, tape);
      } else {
        const at::NoGradGuard no_grad;
        halo->Refresh(padded);
      }
      bool refused = false;
      try {
        tape.Backward(squares.sum());
      } catch (const std::exception& e) {
        refused = absl::StrContains(e.what(), "modified by an inplace operation");
      }
      CHECK_OR_RETURN(refused, "a gradient of values that are gone");
    }
    // The gradient of what was computed of the refreshed tensor goes through the refresh.
    const at::Tensor leaf = halo->NewPadded().add_(3).requires_grad_();
    at::Tensor padded = leaf * 1;
    Tape tape(device);
    halo->ApplyInPlace(padded, tape);
    tape.Backward((halo->InteriorOf(padded) * 5).sum() + padded.sum());
    const at::Tensor grad = leaf.grad().to(at::kCPU);
    for (int64_t column = 0; column < 6; ++column) {
      // Zero boundary, ring, edge, and what is inside.
      const int64_t from_outside = communicator.rank() == 0 ? column : 5 - column;
      const double expected = from_outside == 0 ? 1 : from_outside == 5 ? 0 : from_outside == 4 ? 7 : 6;
      CHECK_OR_RETURN((grad.select(1, column) == expected).all().item<bool>(), absl::StrCat("column ", column));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// What the operator keeps for tensors that are not contiguous must not be bound to the mode of the first one.
TEST_P(HaloRefreshTest, RefreshesStridedTensorsInInferenceModeAndThenOutside) {
  const absl::Status status = OnRanks(2, GetParam(), 1, [](Communicator& communicator) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const auto halo, RowOfTwo(communicator));
    for (const bool inference : {true, false, true}) {
      const c10::InferenceMode mode(inference);
      const at::NoGradGuard no_grad;
      const at::Tensor padded = halo->NewPadded().add_(2).t().contiguous().t(), same = padded.contiguous();
      CHECK_OR_RETURN(!padded.is_contiguous(), "the tensor is contiguous");
      halo->Refresh(padded);
      halo->Refresh(same);
      CHECK_OR_RETURN(at::equal(padded.contiguous(), same), "other values");
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(HaloRefreshTest, RefusesWhatItCannotRefreshOnAllRanks) {
  struct Refusal {
    std::string why;
    std::function<void(HaloRefresh&, Tape&)> call;
  };
  const std::vector<Refusal> refusals = {
      {"expected a padded tensor Double [3, 6], got Double [3, 5]",
       [](HaloRefresh& halo, Tape&) { halo.Refresh(halo.NewPadded().narrow(1, 0, 5)); }},
      {"expected a padded tensor Double [3, 6], got Float [3, 6]",
       [](HaloRefresh& halo, Tape&) { halo.Refresh(halo.NewPadded().to(at::kFloat)); }},
      {"got an undefined tensor", [](HaloRefresh& halo, Tape&) { halo.Refresh(at::Tensor()); }},
      {"got an undefined tensor", [](HaloRefresh& halo, Tape& tape) { halo.Apply(at::Tensor(), tape); }},
      {"elements share memory",
       [](HaloRefresh& halo, Tape&) {
         halo.Refresh(halo.NewPadded().narrow(1, 0, 1).expand({3, 6}));
       }},
      {"a leaf that requires a gradient; clone() it first",
       [](HaloRefresh& halo, Tape& tape) {
         at::Tensor leaf = halo.NewPadded().requires_grad_();
         halo.ApplyInPlace(leaf, tape);
       }},
      {"cannot refresh a view in place with gradients",
       [](HaloRefresh& halo, Tape& tape) {
         at::Tensor view = at::zeros({4, 6}, halo.NewPadded().options()).narrow(0, 0, 3);
         halo.ApplyInPlace(view, tape);
       }},
      {"use ApplyInPlace", [](HaloRefresh& halo, Tape&) { halo.Refresh(halo.NewPadded().requires_grad_()); }}};
  for (const Refusal& refusal : refusals) {
    std::vector<absl::Status> found(2);
    const absl::Status status = OnRanks(2, GetParam(), 1, [&](Communicator& communicator) -> absl::Status {
      ADJOIN_ASSIGN_OR_RETURN(const auto halo, RowOfTwo(communicator));
      Tape tape(TensorDeviceOf(communicator.memory()));
      try {
        // The other rank has what it needs, and must not wait for its deadline.
        if (communicator.rank() == 0) {
          refusal.call(*halo, tape);
        } else {
          halo->Refresh(halo->NewPadded());
        }
      } catch (...) {
        found[communicator.rank()] = StatusFromCurrentException();
      }
      return found[communicator.rank()];
    });
    EXPECT_EQ(found[0].code(), absl::StatusCode::kInvalidArgument) << found[0];
    EXPECT_TRUE(absl::StrContains(found[0].message(), refusal.why)) << found[0];
    EXPECT_TRUE(absl::StrContains(found[0].message(), "operator 1 (field), rank 0: ")) << found[0];
    EXPECT_FALSE(found[1].ok());
    EXPECT_NE(found[1].code(), absl::StatusCode::kDeadlineExceeded) << found[1];
    EXPECT_FALSE(status.ok());
  }
}

TEST(HaloRefreshCreateTest, RefusesBadOptions) {
  const absl::Status status = OnRanks(1, TransportKind::kInMemory, 1, [](Communicator& communicator) -> absl::Status {
    const auto refused = [&](const Layout& x, const std::map<int, HaloWidth>& widths, HaloRefresh::Options options) {
      return std::string(HaloRefresh::Create(&communicator, x, widths, std::move(options)).status().message());
    };
    const Layout x = *Layout::Partition({8}, DType::kFloat64, {1}, {0});
    EXPECT_EQ(refused(x, {}, {0, "field"}), "operator 0 (field): the id is not in [1, 65535]");
    EXPECT_EQ(refused(x.WithDType(DType::kInt64), {}, {1, ""}),
              "operator 1: int64 has no gradient; set differentiable = false");
    EXPECT_EQ(refused(*Layout::Partition({8}, DType::kFloat64, {2}, {0, 1}), {}, {1, ""}),
              "operator 1: rank 1 of mesh 2 [0 1] is not one of the communicator's 1 ranks");
    EXPECT_EQ(refused(x, {{1, {}}}, {1, ""}), "operator 1: a halo in dim 1 of a tensor of 1 dims");
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Transports, HaloRefreshTest, testing::ValuesIn(kAllTransportKinds),
                         [](const auto& info) { return ToString(info.param); });

}  // namespace
}  // namespace adjoin
