#include "planner/time/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "base/status_macros.h"
#include "planner/time/rate_check.h"

namespace adjoin {
namespace {

constexpr double kMostSeconds = 1e12;

// Rates of a slow core, for a table without a single kernel of the kind or a copy.
constexpr double kFlopSeconds = 1e-10, kByteSeconds = 2e-10;

double Bounded(double seconds) {
  return std::isfinite(seconds) ? std::clamp(seconds, 0.0, kMostSeconds) : kMostSeconds;
}

const char kDefaultRates[] =
#include "planner/time/rates/default_rates.inc"
    ;

}  // namespace

absl::StatusOr<CostModel> CostModel::Create(const RateTable& rates) {
  ADJOIN_RETURN_IF_ERROR(CheckRates(rates));
  CostModel model;
  model.launch_seconds_ = rates.launch_seconds();
  model.step_seconds_ = rates.step_seconds();
  model.machine_ = rates.machine();
  for (const LaneRate& lane : rates.lane()) model.lanes_[lane.lane()] = lane;
  struct Points {
    std::vector<KernelCurve::Point> forward, backward;
  };
  std::map<std::pair<std::string, DType>, Points> points;
  for (const KernelRate& rate : rates.kernel()) {
    ADJOIN_ASSIGN_OR_RETURN(const DType type, ParseDType(rate.dtype()));
    Points& of_kind = points[{rate.kind(), type}];
    KernelCurve::Point point{
        {rate.size().begin(), rate.size().end()}, rate.flops(), rate.bytes(), rate.forward_seconds()};
    of_kind.forward.push_back(point);
    point.seconds = std::max(rate.backward_seconds(), 1e-9);
    of_kind.backward.push_back(std::move(point));
  }
  for (auto& [kind, of_kind] : points) {
    model.curves_.emplace(kind,
                          Curves{KernelCurve(std::move(of_kind.forward)), KernelCurve(std::move(of_kind.backward))});
  }
  return model;
}

const CostModel& CostModel::Default() {
  static const auto* model = [] {
    auto rates = ParseRates(kDefaultRates, "planner/time/rates/default_rates.textproto");
    auto created = rates.ok() ? Create(*rates) : rates.status();
    if (!created.ok()) {
      // The table is a part of the program; a test reads it.
      std::cerr << created.status() << "\n";
      std::abort();
    }
    return new CostModel(*std::move(created));
  }();
  return *model;
}

const CostModel::Curves* CostModel::Find(const std::string& kind, DType type) const {
  for (const DType each : {type, DType::kFloat32, DType::kFloat64}) {
    const auto found = curves_.find({kind, each});
    if (found != curves_.end()) return &found->second;
  }
  return nullptr;
}

CostModel::KernelSeconds CostModel::OfWork(const KernelWork& work) const {
  if (work.kind == "view") return {launch_seconds_, launch_seconds_};
  // Where there is nothing to compute, the call remains.
  if (work.empty) return {launch_seconds_, launch_seconds_};
  std::string kind = work.kind;
  const Curves* curves = Find(kind, work.type);
  // "norm.group" is like "norm", which is like a copy.
  while (curves == nullptr && !kind.empty()) {
    const size_t dot = kind.rfind('.');
    kind = dot == std::string::npos ? "" : kind.substr(0, dot);
    if (!kind.empty()) curves = Find(kind, work.type);
  }
  if (curves != nullptr) {
    return {Bounded(curves->forward.Seconds(work.size, work.flops, work.bytes)),
            Bounded(curves->backward.Seconds(work.size, work.flops, work.bytes))};
  }
  const Curves* copy = Find("copy", work.type);
  const double bytes = copy == nullptr ? work.bytes * kByteSeconds : copy->forward.Fitted(0, work.bytes);
  const double seconds = Bounded(launch_seconds_ + std::max(work.flops * kFlopSeconds, bytes));
  return {seconds, Bounded(2 * seconds)};
}

CostModel::KernelSeconds CostModel::OfLayer(const Layer& layer, const LayerSizes& sizes, bool input_gradient,
                                            bool trained) const {
  KernelWork work = WorkOf(layer, sizes);
  const bool computes_both = !sizes.parameter.empty();
  if (!input_gradient && trained && computes_both && Find(work.kind + kFirstLayer, work.type) != nullptr) {
    work.kind += kFirstLayer;
    return OfWork(work);
  }
  KernelSeconds seconds = OfWork(work);
  if (!input_gradient && !(trained && computes_both)) {
    seconds.backward = 0;
  } else if (computes_both && (!input_gradient || !trained)) {
    // The gradient of a product with respect to one factor is half of the work.
    seconds.backward /= 2;
  }
  return seconds;
}

CostModel::KernelSeconds CostModel::OfLoss(const Loss& loss, const LayerSizes& sizes) const {
  return OfWork(WorkOfLoss(loss, sizes));
}

double CostModel::OfMovement(const RankTraffic& traffic, const std::string& lane) const {
  auto found = lanes_.find(lane);
  if (found == lanes_.end()) found = lanes_.begin();
  if (found == lanes_.end()) return 0;
  const LaneRate& rate = found->second;
  const auto of = [](int64_t count) { return static_cast<double>(std::max<int64_t>(0, count)); };
  const double messages = of(traffic.messages_sent) + of(traffic.messages_received);
  const double moved = of(traffic.bytes_sent) + of(traffic.bytes_received);
  return Bounded((messages > 0 ? of(traffic.rounds) * rate.round_seconds() : 0) + messages * rate.message_seconds() +
                 moved * rate.byte_seconds() + (moved + of(traffic.bytes_kept)) * rate.pack_byte_seconds() +
                 of(traffic.bytes_added) * rate.add_byte_seconds());
}

double CostModel::OfUpdate(const Optimizer& optimizer, int64_t elements, int64_t tensors, DType type) const {
  if (elements <= 0 || tensors <= 0) return 0;
  const KernelWork work = WorkOfUpdate(optimizer, std::max<int64_t>(1, elements / tensors), type);
  return Bounded(static_cast<double>(tensors) * OfWork(work).forward);
}

double CostModel::OfAdd(int64_t elements, DType type) const {
  if (elements <= 0) return 0;
  return OfWork(WorkOfSum(elements, type)).forward;
}

}  // namespace adjoin
