#include "planner/memory/local_sizes.h"

#include <utility>

#include "base/status_macros.h"
#include "layers/attention/attention_roles.h"
#include "layers/conv/edge_halo.h"
#include "layers/conv/edge_roles.h"
#include "layers/loss/loss_roles.h"
#include "layers/pointwise/softmax_roles.h"
#include "layers/pool/pool_roles.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/roles.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/index_selection.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/own_part.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/traffic.h"
#include "primitives/geometry/window.h"
#include "primitives/geometry/window_edges.h"

namespace adjoin {
namespace {

// Returns whether what is fetched is brought into the order in which it is read (Reading::IndexMap, which is as long as
// the part is).
bool IsCopied(const Reading& reading, Interval outputs, int64_t extent) {
  if (reading.As<IndexSelection>() != nullptr) return true;
  const auto* window = reading.As<Window>();
  if (window == nullptr) return false;
  const Boundary boundary = window->options().boundary;
  const Interval reads = reading.Reads(outputs, extent);
  return (boundary == Boundary::kReflect || boundary == Boundary::kReplicate) && (reads.lo < 0 || reads.hi > extent);
}

// The shape of Distribution::View of the rank where the operator ends, without the views of all ranks.
absl::StatusOr<LayerSizes::Shape> DestinationShape(PlanGeometry& geometry, const OperatorPlan& op, int rank) {
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds* ends, geometry.EndsOf(op));
  if (ends->readings.empty()) return ends->to.LocalShape(rank);
  const Layout& read = ends->read.has_value() ? *ends->read : ends->from;
  LayerSizes::Shape shape = read.LocalShape(rank);
  if (!read.mesh().Has(rank)) return shape;
  const Box outputs = ends->to.BoxOf(rank);
  for (const auto& [dim, reading] : ends->readings) {
    shape[dim] = reading.Needed(outputs[dim], read.shape()[dim]).fetched;
  }
  return shape;
}

// The local tensor of an input where the kernel reads it.
absl::StatusOr<LayerSizes::Shape> ReadShape(PlanGeometry& geometry, const ProgramPlan& program, const LayerPlan& layer,
                                            int input, int rank) {
  const ValuePlan& value = program.value(layer.input(input));
  const OperatorPlan* op = OperatorOf(program, layer, InputRole(input));
  if (op == nullptr && value.has_read()) op = &value.read();
  if (op != nullptr) return DestinationShape(geometry, *op, rank);
  ADJOIN_ASSIGN_OR_RETURN(const Layout* layout, geometry.LayoutOf(value.layout()));
  return layout->LocalShape(rank);
}

absl::Status AddInputs(PlanGeometry& geometry, const ProgramPlan& program, const LayerPlan& layer, int rank,
                       LocalSizes& local) {
  for (int i = 0; i < layer.input_size(); ++i) {
    const ValuePlan& value = program.value(layer.input(i));
    ADJOIN_ASSIGN_OR_RETURN(const Layout* stored, geometry.LayoutOf(value.layout()));
    const Layout& x = *stored;
    ADJOIN_ASSIGN_OR_RETURN(LayerSizes::Shape shape, ReadShape(geometry, program, layer, i, rank));
    bool moved = OperatorOf(program, layer, InputRole(i)) != nullptr;
    for (int r = 0; i < layer.reading_size() && r < layer.reading(i).dim_size(); ++r) {
      ADJOIN_ASSIGN_OR_RETURN(const Layout* reader, geometry.LayoutOf(layer.reading(i).reader()));
      const int dim = static_cast<int>(layer.reading(i).dim(r).dim());
      ADJOIN_ASSIGN_OR_RETURN(const Reading reading, ReadingFromProto(layer.reading(i).dim(r), x, *reader));
      const Interval outputs = reader->BoxOf(rank)[dim];
      if (!IsCopied(reading, outputs, x.shape()[dim])) continue;
      shape[dim] =
          reading.As<IndexSelection>() != nullptr ? outputs.size() : reading.Reads(outputs, x.shape()[dim]).size();
      moved = true;
    }
    local.sizes.input.push_back(std::move(shape));
    local.input_type.push_back(x.dtype());
    local.moved.push_back(moved);
  }
  return absl::OkStatus();
}

// Sets LayerSizes.halo_apart where the convolution keeps its halo apart on this rank: its own part is in what it reads.
absl::Status AddHaloApart(PlanGeometry& geometry, const ProgramPlan& program, const LayerPlan& layer, int rank,
                          LocalSizes& local) {
  if (!layer.keeps_halo_apart()) return absl::OkStatus();
  const OperatorPlan* op = OperatorOf(program, layer, InputRole(0));
  if (op == nullptr || op->reading().empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds* ends, geometry.EndsOf(*op));
  if (!ReadsOwnPart(ends->from, ends->readings, ends->to, rank)) return absl::OkStatus();
  for (const auto& [dim, reading] : ends->readings) {
    if (IsCopied(reading, ends->to.BoxOf(rank)[dim], ends->from.shape()[dim])) return absl::OkStatus();
  }
  const int64_t halo = BoundedProduct(local.sizes.input[0]) - BoundedProduct(ends->from.LocalShape(rank));
  if (halo > 0) local.sizes.halo_apart = halo;
  return absl::OkStatus();
}

absl::Status AddParameters(PlanGeometry& geometry, const Plan& plan, const ProgramPlan& program, const LayerPlan& layer,
                           int rank, LocalSizes& local) {
  for (const ParameterUse& use : layer.parameter()) {
    const ParameterPlan& parameter = plan.parameter(use.index());
    if (parameter.buffer()) continue;
    const OperatorPlan* op = OperatorOf(program, layer, use.role());
    ADJOIN_ASSIGN_OR_RETURN(const Layout* home, geometry.LayoutOf(parameter.home()));
    ADJOIN_ASSIGN_OR_RETURN(const Layout* read, geometry.LayoutOf(op != nullptr ? op->to() : parameter.home()));
    local.sizes.parameter.push_back(read->LocalShape(rank));
    const LayerSizes::Shape block = home->LocalShape(rank);
    local.parameter.push_back({.copied = op != nullptr || home->dtype() != local.sizes.type,
                               .moved_bytes = op != nullptr ? BytesOf(read->LocalShape(rank), read->dtype()) : 0,
                               .home_bytes = BytesOf(block, home->dtype()),
                               .home_elements = BoundedProduct(block)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<const Layout*> PlanGeometry::LayoutOf(const LayoutPlan& message) {
  std::unique_ptr<const Layout>& known = layouts_[&message];
  if (known == nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(Layout layout, LayoutFromProto(message));
    known = std::make_unique<const Layout>(std::move(layout));
  }
  return known.get();
}

absl::StatusOr<const MovementEnds*> PlanGeometry::EndsOf(const OperatorPlan& op) {
  std::unique_ptr<const MovementEnds>& known = ends_[&op];
  if (known == nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(MovementEnds ends, MovementEndsOf(op));
    if (!ends.readings.empty()) {
      ADJOIN_RETURN_IF_ERROR(CheckReadings(ends.read.has_value() ? *ends.read : ends.from, ends.readings, ends.to));
    }
    known = std::make_unique<const MovementEnds>(std::move(ends));
  }
  return known.get();
}

const OperatorPlan* OperatorOf(const ProgramPlan& program, const LayerPlan& layer, const std::string& role) {
  for (const OperatorUse& use : layer.op()) {
    if (use.role() == role) return &program.op(use.index());
  }
  return nullptr;
}

absl::StatusOr<LocalSizes> LocalSizesOf(const Plan& plan, const ProgramPlan& program, const LayerPlan& layer, int rank,
                                        PlanGeometry* geometry) {
  LocalSizes local;
  LayerSizes& sizes = local.sizes;
  ADJOIN_RETURN_IF_ERROR(AddInputs(*geometry, program, layer, rank, local));
  ADJOIN_RETURN_IF_ERROR(AddHaloApart(*geometry, program, layer, rank, local));
  ADJOIN_ASSIGN_OR_RETURN(const Layout* compute, geometry->LayoutOf(layer.compute()));
  sizes.output = compute->LocalShape(rank);
  sizes.type = compute->dtype();
  ADJOIN_RETURN_IF_ERROR(AddParameters(*geometry, plan, program, layer, rank, local));
  for (int dim = 2; dim < static_cast<int>(sizes.output.size()) && layer.spec().has_conv(); ++dim) {
    if (OperatorOf(program, layer, EdgeRole(dim)) == nullptr) continue;
    sizes.edge.resize(sizes.output.size());
    const Interval part = compute->BoxOf(rank)[dim];
    ADJOIN_ASSIGN_OR_RETURN(const WindowEdges read, EdgesOfConv(layer.spec().conv(), dim));
    sizes.edge[dim] = {.read = read, .before = part.lo > 0, .after = part.hi < compute->shape()[dim]};
  }
  if (layer.spec().has_attention() && layer.reading_size() > 0) {
    // [batch, queries, heads]
    ADJOIN_ASSIGN_OR_RETURN(const Layout* heads, geometry->LayoutOf(layer.reading(0).reader()));
    sizes.heads = heads->LocalShape(rank).back();
  }
  for (const std::string& role : layer.role()) {
    sizes.shared = sizes.shared || role == kRoleLargest || role == kRoleMax;
    if (role == RingRole(sizes.key_parts)) ++sizes.key_parts;
  }
  return local;
}

absl::StatusOr<LocalSizes> LocalSizesOf(const Plan& plan, const ProgramPlan& program, const LayerPlan& layer,
                                        int rank) {
  PlanGeometry geometry;
  return LocalSizesOf(plan, program, layer, rank, &geometry);
}

absl::StatusOr<LocalSizes> LocalSizesOf(const ProgramPlan& program, const LossPlan& loss, int rank) {
  LocalSizes local;
  const auto add = [&](uint32_t value, const char* role) -> absl::Status {
    const OperatorPlan* op = nullptr;
    for (const OperatorUse& use : loss.op()) {
      if (use.role() == role) op = &program.op(use.index());
    }
    const LayoutPlan& compared = op != nullptr ? op->to() : program.value(value).layout();
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(compared));
    local.sizes.input.push_back(layout.LocalShape(rank));
    local.sizes.type = local.input_type.empty() ? layout.dtype() : local.sizes.type;
    local.input_type.push_back(layout.dtype());
    local.moved.push_back(op != nullptr);
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(add(loss.input(), kRolePrediction));
  if (loss.has_variance()) ADJOIN_RETURN_IF_ERROR(add(loss.variance(), kRoleVariance));
  return local;
}

}  // namespace adjoin
