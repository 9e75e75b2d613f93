#include "tests/adjoint/movement_cases.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "primitives/all_gather.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/all_to_all.h"
#include "primitives/broadcast.h"
#include "primitives/gather.h"
#include "primitives/redistribute.h"
#include "primitives/reduce_scatter.h"
#include "primitives/scatter.h"
#include "primitives/send_receive.h"
#include "primitives/sum_reduce.h"
#include "tests/adjoint/gathered.h"
#include "tests/adjoint/halo_case.h"
#include "tests/adjoint/named_layouts.h"
#include "tests/adjoint/random_meshes.h"
#include "tests/adjoint/random_tensors.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

constexpr int64_t kMostDims = 5;

MovementCase LayoutCase(Draw& draw, const std::string& name, const Layout& from, const Layout& to, int ranks) {
  MovementCase c;
  c.what = absl::StrCat(name, " on ", ranks, " ranks from ", from.ToString(), " to ", to.ToString());
  c.dtype = from.dtype();
  c.options.name = name;
  c.options.differentiable = IsFloatingPoint(from.dtype());
  const at::Tensor global = FillSource(draw, from, ranks, c);
  FillSums(to, ranks, c);
  for (int rank = 0; rank < ranks; ++rank) {
    c.expected.push_back(to.mesh().Has(rank) ? Slice(global, to.BoxOf(rank)) : Outside(to.dims(), to.dtype()));
    c.y.push_back(RandomCells(draw, c.expected[rank].sizes().vec(), to.dtype()));
  }
  c.index_map.resize(ranks);
  return c;
}

// The case of an entry point `Named::Create(communicator, from, to, options)`.
template <typename Named>
MovementCase NamedCase(Draw& draw, const std::string& name, const Layout& from, const Layout& to, int ranks) {
  MovementCase c = LayoutCase(draw, name, from, to, ranks);
  c.build = [from, to](Communicator* communicator, Movement::Options options) {
    return Named::Create(communicator, from, to, std::move(options));
  };
  return c;
}

std::vector<int64_t> RandomShape(Draw& draw, int64_t least_dims, int64_t most_dims) {
  const int64_t most[] = {0, 24, 8, 6, 5, 4};
  const int64_t dims = draw.Between(least_dims, most_dims);
  if (dims == 0) return {};
  const auto any_dim = [&] { return draw.Between(0, dims - 1); };
  // Beyond what recursive doubling does, at times.
  if (draw.OneIn(24)) {
    std::vector<int64_t> shape(dims, 1);
    shape[any_dim()] = 2;
    shape[any_dim()] = draw.Between(1500, 3000);
    return shape;
  }
  std::vector<int64_t> shape = draw.Integers(dims, 1, most[dims]);
  if (draw.OneIn(16)) shape[any_dim()] = 0;
  return shape;
}

Layout WithPlacements(const Layout& layout, const std::function<Placement(Placement)>& change) {
  std::vector<Placement> placements = layout.placements();
  for (Placement& placement : placements) placement = change(placement);
  return *layout.WithPlacements(std::move(placements));
}

}  // namespace

std::string ToString(CaseKind kind) {
  switch (kind) {
    case CaseKind::kBroadcast: return "Broadcast";
    case CaseKind::kSumReduce: return "SumReduce";
    case CaseKind::kAllSumReduce: return "AllSumReduce";
    case CaseKind::kScatter: return "Scatter";
    case CaseKind::kGather: return "Gather";
    case CaseKind::kAllGather: return "AllGather";
    case CaseKind::kReduceScatter: return "ReduceScatter";
    case CaseKind::kAllToAll: return "AllToAll";
    case CaseKind::kSendReceive: return "SendReceive";
    case CaseKind::kSendReceiveMove: return "SendReceiveMove";
    case CaseKind::kHalo: return "Halo";
    case CaseKind::kRepartition: return "Repartition";
    case CaseKind::kRedistribute: return "Redistribute";
  }
  return "?";
}

MovementCase RedistributeCase(Draw& draw, const Layout& from, const Layout& to, int ranks) {
  return NamedCase<Redistribute>(draw, "redistribute", from, to, ranks);
}

MovementCase RandomCase(Draw& draw, CaseKind kind, int ranks, DType dtype) {
  switch (kind) {
    case CaseKind::kHalo: return HaloCase(draw, ranks, dtype);
    case CaseKind::kBroadcast: {
      const auto [x, y] = RandomBroadcast(draw, RandomShape(draw, 0, kMostDims), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<Broadcast>(draw, "broadcast", x, y, ranks);
    }
    case CaseKind::kSumReduce: {
      const auto [y, x] = RandomBroadcast(draw, RandomShape(draw, 0, kMostDims), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<SumReduce>(draw, "sum-reduce", *x.Dual(), *y.Dual(), ranks);
    }
    case CaseKind::kScatter: {
      const auto [x, y] = RandomScatter(draw, RandomShape(draw, 1, kMostDims), RandomMeshOf(draw, ranks), ranks, dtype);
      return NamedCase<Scatter>(draw, "scatter", x, y, ranks);
    }
    case CaseKind::kGather: {
      const auto [y, x] = RandomScatter(draw, RandomShape(draw, 1, kMostDims), RandomMeshOf(draw, ranks), ranks, dtype);
      return NamedCase<Gather>(draw, "gather", x, y, ranks);
    }
    case CaseKind::kAllGather: {
      const auto [x, y] = RandomAllGather(draw, RandomShape(draw, 1, kMostDims), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<AllGather>(draw, "all-gather", x, y, ranks);
    }
    case CaseKind::kReduceScatter: {
      const auto [y, x] = RandomAllGather(draw, RandomShape(draw, 1, kMostDims), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<ReduceScatter>(draw, "reduce-scatter", *x.Dual(), *y.Dual(), ranks);
    }
    case CaseKind::kAllToAll: {
      const auto [x, y] = RandomAllToAll(draw, RandomShape(draw, 2, kMostDims), RandomMeshOf(draw, ranks), dtype);
      return NamedCase<AllToAll>(draw, "all-to-all", x, y, ranks);
    }
    case CaseKind::kSendReceive: {
      const auto [x, y] = RandomSendReceive(draw, RandomShape(draw, 0, kMostDims), ranks, dtype);
      return NamedCase<SendReceive>(draw, "send-receive", x, y, ranks);
    }
    case CaseKind::kSendReceiveMove: {
      const auto [x, y] = RandomSendReceive(draw, RandomShape(draw, 0, kMostDims), ranks, dtype);
      MovementCase c = NamedCase<SendReceive>(draw, "move", x, y, ranks);
      c.cleared = x.mesh().ranks()[0];
      return c;
    }
    case CaseKind::kAllSumReduce: {
      const Layout x = WithPlacements(
          RandomLayout(draw, RandomShape(draw, 0, kMostDims), RandomMeshOf(draw, ranks)).WithDType(dtype),
          [](Placement p) { return p.kind == Kind::kBroadcast ? Placement::Partial() : p; });
      MovementCase c = LayoutCase(draw, "all-sum-reduce", x, *AllSumReduce::OutputLayout(x), ranks);
      c.build = [x](Communicator* communicator, Movement::Options options) {
        return AllSumReduce::Create(communicator, x, std::move(options));
      };
      return c;
    }
    case CaseKind::kRepartition:
    case CaseKind::kRedistribute: {
      const int64_t least = kind == CaseKind::kRepartition ? 1 : 0;
      const std::vector<int64_t> shape = RandomShape(draw, least, kMostDims);
      const Mesh mesh = RandomMeshOf(draw, ranks);
      auto layout = [&](const Mesh& on) {
        const Layout any = RandomLayout(draw, shape, on).WithDType(dtype);
        if (kind == CaseKind::kRedistribute) return any;
        std::vector<Placement> splits;
        for (int axis = 0; axis < on.axes(); ++axis) {
          splits.push_back(Placement::Split(static_cast<int>(draw.Between(0, any.dims() - 1))));
        }
        const Layout even = *Layout::Create(shape, dtype, on, splits);
        Layout::Cuts cuts;
        for (int dim = 0; dim < even.dims(); ++dim) {
          if (!even.AxesOf(dim).empty() && draw.OneIn(2)) cuts[dim] = draw.Sizes(shape[dim], even.Parts(dim));
        }
        return *Layout::Create(shape, dtype, on, splits, cuts);
      };
      const Layout from = layout(mesh);
      const Layout to = layout(draw.OneIn(3) ? mesh : RandomMeshOf(draw, ranks));
      return RedistributeCase(draw, from, to, ranks);
    }
  }
  return {};
}

}  // namespace adjoin
