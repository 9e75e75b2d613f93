#include "planner/time/operator_traffic.h"

#include <map>
#include <utility>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"

namespace adjoin {
namespace {

absl::StatusOr<std::map<int, Reading>> ReadingsOf(const google::protobuf::RepeatedPtrField<ReadingPlan>& messages,
                                                  const Layout& x, const Layout& y) {
  std::map<int, Reading> readings;
  for (const ReadingPlan& message : messages) {
    ADJOIN_ASSIGN_OR_RETURN(Reading reading, ReadingFromProto(message, x, y));
    readings.emplace(static_cast<int>(message.dim()), std::move(reading));
  }
  return readings;
}

std::vector<RankTraffic> Pick(const Traffic& traffic, const std::vector<int>& ranks) {
  std::vector<RankTraffic> picked;
  for (const int rank : ranks) {
    const bool known = rank < static_cast<int>(traffic.rank.size());
    picked.push_back(known ? traffic.rank[static_cast<size_t>(rank)] : RankTraffic());
  }
  return picked;
}

}  // namespace

absl::StatusOr<OperatorTraffic> OperatorTraffic::Of(const OperatorPlan& op, const std::vector<int>& ranks) {
  ADJOIN_ASSIGN_OR_RETURN(Layout from, LayoutFromProto(op.from()));
  ADJOIN_ASSIGN_OR_RETURN(Layout to, LayoutFromProto(op.to()));
  MovementEnds ends{.from = from, .to = to};
  if (op.has_read()) {
    ADJOIN_ASSIGN_OR_RETURN(ends.read, LayoutFromProto(op.read()));
  }
  ADJOIN_ASSIGN_OR_RETURN(ends.readings, ReadingsOf(op.reading(), ends.read.has_value() ? *ends.read : from, to));
  ADJOIN_ASSIGN_OR_RETURN(ends.source, ReadingsOf(op.source(), from, from));
  ADJOIN_ASSIGN_OR_RETURN(const TwoWayTraffic traffic, TwoWayTrafficOf(ends));
  if (traffic.is_identity) return OperatorTraffic{Pick({}, ranks), Pick({}, ranks)};
  return OperatorTraffic{Pick(traffic.forward, ranks), Pick(traffic.adjoint, ranks)};
}

}  // namespace adjoin
