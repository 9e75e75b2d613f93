#include "worker/session/session_layer_times.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "planner/time/cost_model.h"
#include "planner/time/step_time.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

// The layers' indices, the one that took longest first, of the mean over the ranks.
std::vector<size_t> LongestFirst(const MeasuredLayers& measured) {
  std::vector<size_t> order(measured.layer.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return measured.layer[a].mean.sum() > measured.layer[b].mean.sum(); });
  return order;
}

std::map<std::string, const LayerTimeReport*> ByName(const TimeReport* predicted) {
  std::map<std::string, const LayerTimeReport*> layers;
  if (predicted == nullptr) return layers;
  for (const LayerTimeReport& layer : predicted->layer()) layers[layer.name()] = &layer;
  return layers;
}

// As metrics.jsonl has them.
const char* KindName(SlowKind kind) {
  switch (kind) {
    case SLOW_COMPUTE: return "compute";
    case SLOW_LINK: return "link";
    case SLOW_DATA: return "data";
    default: return "";
  }
}

// What each rank computed of each layer, rank after rank.
void AddComputed(const StepReport& report, MetricsWriter::Line& line) {
  const std::vector<LayerOnRanks>& computed = report.slow->computed;
  if (computed.empty()) return;
  std::vector<std::string> names;
  for (const LayerOnRanks& layer : computed) {
    const auto index = static_cast<size_t>(layer.layer);
    const std::vector<MeasuredLayers::Layer>& measured = report.layers->layer;
    names.push_back(index < measured.size() ? measured[index].name : "");
  }
  std::vector<double> seconds, medians;
  for (size_t rank = 0; rank < computed.front().seconds.size(); ++rank) {
    for (const LayerOnRanks& layer : computed) {
      seconds.push_back(layer.seconds[rank]);
      medians.push_back(layer.median[rank]);
    }
  }
  line.push_back({"computed_layer", std::move(names)});
  line.push_back({"computed_seconds", std::move(seconds)});
  line.push_back({"computed_median_seconds", std::move(medians)});
  if (report.slow->computed_left_out > 0) {
    line.push_back({"computed_left_out", int64_t{report.slow->computed_left_out}});
  }
}

}  // namespace

const TimeReport* SessionLayerTimes::Predicted() {
  const JobSpec& spec = environment_.spec();
  if (!asked_ && environment_.writes() && spec.ranks() <= kMostPredicted && spec.resources().gpus() == 0) {
    const absl::StatusOr<CostModel> measured = CostModel::Create(environment_.options.rates);
    const CostModel& model = measured.ok() ? *measured : CostModel::Default();
    const absl::StatusOr<StepTime> time = PredictStepTime(environment_.plan(), model);
    if (time.ok()) predicted_ = ReportOf(*time, model);  // training needs no prediction
  }
  asked_ = true;
  return predicted_.has_value() ? &*predicted_ : nullptr;
}

absl::Status SessionLayerTimes::Record(const StepReport& report) {
  if (!report.layers.has_value() || !environment_.writes()) return absl::OkStatus();
  const MeasuredLayers& measured = *report.layers;
  const TimeReport* predicted = Predicted();
  const auto predicted_of = ByName(predicted);
  std::vector<size_t> shown = LongestFirst(measured);
  const size_t left_out = shown.size() - std::min<size_t>(shown.size(), kMostInLine);
  shown.resize(shown.size() - left_out);
  std::sort(shown.begin(), shown.end());  // in the job's order again
  std::vector<std::string> names;
  for (const size_t i : shown) names.push_back(measured.layer[i].name);
  MetricsWriter::Line line = {{"type", "layers"},
                              {"step", report.step},
                              {"epoch", report.epoch},
                              {"samples", report.samples},
                              {"seconds", measured.longest_step},
                              {"mean_seconds", measured.mean_step}};
  if (predicted != nullptr) {
    line.push_back({"predicted_seconds", predicted->step_seconds()});
    line.push_back({"rates", predicted->rates()});
  }
  line.push_back({"layer", names});
  const auto add = [&](const std::string& name, const auto& number_of) {
    std::vector<double> numbers;
    for (const size_t i : shown) numbers.push_back(number_of(measured.layer[i]));
    line.push_back({name, std::move(numbers)});
  };
  const auto add_measured = [&](const std::string& name, double LayerSeconds::*number) {
    add(name, [number](const MeasuredLayers::Layer& layer) { return layer.mean.*number; });
    add("most_" + name, [number](const MeasuredLayers::Layer& layer) { return layer.most.*number; });
  };
  const auto add_predicted = [&](const std::string& name, double (LayerTimeReport::*number)() const) {
    if (predicted == nullptr) return;
    add("predicted_" + name, [&, number](const MeasuredLayers::Layer& layer) {
      const auto of = predicted_of.find(layer.name);
      return of == predicted_of.end() ? 0 : (of->second->*number)();
    });
  };
  add_measured("forward", &LayerSeconds::forward);
  add_predicted("forward", &LayerTimeReport::forward_seconds);
  add_measured("backward", &LayerSeconds::backward);
  add_predicted("backward", &LayerTimeReport::backward_seconds);
  add_measured("movement", &LayerSeconds::movement);
  add_predicted("movement", &LayerTimeReport::movement_seconds);
  add_measured("wait", &LayerSeconds::wait);
  if (left_out > 0) line.push_back({"left_out", static_cast<int64_t>(left_out)});
  Show(report);
  ADJOIN_RETURN_IF_ERROR(output_->WriteMetrics(line));
  return report.slow.has_value() ? WriteSlow(report) : absl::OkStatus();
}

absl::Status SessionLayerTimes::WriteSlow(const StepReport& report) {
  const LayerTimes& shown = progress_->shown().layer_times();
  std::vector<std::string> kinds, layers;
  std::vector<double> ranks, peers, costs, seconds, medians;
  for (const SlowPart& part : shown.slow()) {
    kinds.push_back(KindName(part.kind()));
    ranks.push_back(part.rank());
    peers.push_back(part.kind() == SLOW_LINK ? static_cast<double>(part.peer()) : -1);
    layers.push_back(part.layer());
    costs.push_back(part.cost_seconds());
    seconds.push_back(part.seconds());
    medians.push_back(part.median_seconds());
  }
  MetricsWriter::Line line = {{"type", "slow"},
                              {"step", report.step},
                              {"epoch", report.epoch},
                              {"seconds", shown.step_seconds()},
                              {"replayed_seconds", shown.replayed_seconds()},
                              {"kind", kinds},
                              {"rank", ranks},
                              {"peer", peers},
                              {"layer", layers},
                              {"cost_seconds", costs},
                              {"part_seconds", seconds},
                              {"median_seconds", medians}};
  AddComputed(report, line);
  return output_->WriteMetrics(line);
}

void SessionLayerTimes::ShowSlow(const StepReport& report, LayerTimes& shown) {
  if (!report.slow.has_value()) return;
  shown.set_replayed_seconds(report.slow->replayed);
  for (const SlowPartFound& found : report.slow->parts) {
    SlowPart& part = *shown.add_slow();
    part.set_kind(found.kind == SlowPartFound::Kind::kCompute ? SLOW_COMPUTE
                  : found.kind == SlowPartFound::Kind::kLink  ? SLOW_LINK
                                                              : SLOW_DATA);
    part.set_rank(static_cast<uint32_t>(found.rank));
    if (found.peer >= 0) part.set_peer(static_cast<uint32_t>(found.peer));
    const size_t layer = static_cast<size_t>(found.layer);
    if (found.layer >= 0 && layer < report.layers->layer.size()) part.set_layer(report.layers->layer[layer].name);
    part.set_cost_seconds(found.cost);
    part.set_seconds(found.seconds);
    part.set_median_seconds(found.median);
  }
}

void SessionLayerTimes::Show(const StepReport& report) {
  const MeasuredLayers& measured = *report.layers;
  const auto predicted_of = ByName(Predicted());
  LayerTimes& shown = *progress_->shown().mutable_layer_times();
  shown.Clear();
  shown.set_step(static_cast<uint64_t>(report.step));
  shown.set_step_seconds(measured.longest_step);
  if (predicted_.has_value()) shown.set_predicted_step_seconds(predicted_->step_seconds());
  for (const size_t i : LongestFirst(measured)) {
    if (shown.layer_size() == kMaxShownLayers) break;
    const MeasuredLayers::Layer& layer = measured.layer[i];
    LayerTime& of = *shown.add_layer();
    of.set_name(layer.name);
    of.set_mean_seconds(layer.mean.sum());
    of.set_most_seconds(layer.most_sum);
    of.set_wait_seconds(layer.mean.wait);
    if (const auto found = predicted_of.find(layer.name); found != predicted_of.end()) {
      of.set_predicted_seconds(found->second->forward_seconds() + found->second->backward_seconds() +
                               found->second->movement_seconds());
    }
  }
  ShowSlow(report, shown);
  shown.set_left_out(static_cast<uint32_t>(measured.layer.size()) - static_cast<uint32_t>(shown.layer_size()));
}

}  // namespace adjoin
