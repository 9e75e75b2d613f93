#include "planner/picture/movement_text.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/amount_text.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

using Kind = Placement::Kind;

constexpr char kHaloExchange[] = "halo exchange";

int64_t PartsOf(const Layout& layout) {
  int64_t parts = 1;
  for (int dim = 0; dim < layout.dims(); ++dim) parts *= layout.Parts(dim);
  return parts;
}

// "sum", "max" or "min": how the partial values of `layout` combine.
std::string ReductionOf(const Layout& layout) {
  for (const Placement& placement : layout.placements()) {
    if (placement.kind != Kind::kPartial) continue;
    if (placement.reduce == ReduceOp::kMax) return "max";
    if (placement.reduce == ReduceOp::kMin) return "min";
  }
  return "sum";
}

std::string RedistributionName(const Layout& from, const Layout& to) {
  const bool from_one = from.mesh().size() == 1, to_one = to.mesh().size() == 1;
  const bool more_parts = PartsOf(to) > PartsOf(from), fewer_parts = PartsOf(to) < PartsOf(from);
  if (from.HasKind(Kind::kPartial) && !to.HasKind(Kind::kPartial)) {
    const std::string reduction = ReductionOf(from);
    if (to_one) return absl::StrCat(reduction, "-reduce");
    if (to.HasKind(Kind::kBroadcast) && !more_parts) return absl::StrCat("all-", reduction, "-reduce");
    return reduction == "sum" ? "reduce-scatter" : absl::StrCat(reduction, "-reduce");
  }
  if (from_one && to_one) return "send to another rank";
  if (from_one) return to.HasKind(Kind::kBroadcast) && !more_parts ? "broadcast" : "scatter";
  if (to_one) return "gather";
  if (to.HasKind(Kind::kBroadcast) && fewer_parts) return "all-gather";
  return "repartition";
}

std::string HaloName(const OperatorPlan& op, const MovementEnds& ends) {
  for (const ReadingPlan& reading : op.reading()) {
    if (reading.has_selection()) return "selection of cells";
  }
  const bool other_cut = ends.read.has_value() && *ends.read != ends.from;
  return other_cut ? "repartition with halo" : kHaloExchange;
}

}  // namespace

absl::StatusOr<MovementFacts> FactsOf(const OperatorPlan& op) {
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds ends, MovementEndsOf(op));
  ADJOIN_ASSIGN_OR_RETURN(const TwoWayTraffic traffic, TwoWayTrafficOf(ends));
  MovementFacts facts;
  facts.kind = op.reading().empty() ? RedistributionName(ends.from, ends.to) : HaloName(op, ends);
  for (size_t rank = 0; rank < traffic.forward.rank.size(); ++rank) {
    const bool back = op.differentiable() && rank < traffic.adjoint.rank.size();
    const RankTraffic none;
    const RankTraffic &out = traffic.forward.rank[rank], &in = back ? traffic.adjoint.rank[rank] : none;
    facts.bytes = std::max(facts.bytes, out.bytes_sent + in.bytes_sent);
    facts.messages = std::max(facts.messages, out.messages_sent + in.messages_sent);
  }
  return facts;
}

std::string FactsText(const MovementFacts& facts) {
  if (facts.bytes == 0) {
    return absl::StrCat(facts.kind == kHaloExchange ? "padding at the boundary" : facts.kind, " · nothing is sent");
  }
  return absl::StrCat(facts.kind, " · ", BytesText(facts.bytes), " in ", facts.messages,
                      facts.messages == 1 ? " message" : " messages");
}

}  // namespace adjoin
