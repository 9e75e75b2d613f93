#include "worker/trace/slow_parts.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "worker/trace/medians.h"
#include "worker/trace/step_replay.h"

namespace adjoin {
namespace {

using Kind = SlowPartFound::Kind;
using Pair = std::pair<int, int>;

// What one thing takes beyond its like.
struct Candidate {
  SlowPartFound found;
  double excess = 0;      // seconds of work or of messages; the step need not get so much shorter
  bool takes_in = false;  // a rank: with the messages that it takes in
  // That replace the measured ones; empty: none.
  std::vector<double> work;   // of the rank's ops
  std::vector<double> moves;  // of all messages
};

class Search {
 public:
  Search(const std::vector<RecordedStep>& steps, const std::function<double(int, int)>& work_of)
      : graph_(steps), work_of_(work_of), step_(graph_.Replay()) {}

  SlowParts Run() {
    SlowParts found;
    found.replayed = step_;
    if (step_ <= 0 || graph_.ranks() < 2) return found;
    SumWork();
    AddComputed(found);
    std::vector<Candidate> candidates;
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      AddCompute(rank, candidates);
      AddData(rank, candidates);
    }
    AddLinks(candidates);
    JoinLinksIntoSlowRanks(candidates);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.excess > b.excess; });
    // A part costs no more than its excess, so the others need no replay.
    if (candidates.size() > kMostReplayed) candidates.resize(kMostReplayed);
    for (Candidate& candidate : candidates) Fill(candidate);
    const double all_replaced = graph_.Replay(Replacing(candidates, [](const Candidate&) { return true; }));
    for (Candidate& candidate : candidates) {
      const auto is_it = [&](const Candidate& other) { return &other == &candidate; };
      const double saved = step_ - graph_.Replay(Replacing(candidates, is_it));
      const double kept =
          graph_.Replay(Replacing(candidates, [&](const Candidate& other) { return !is_it(other); })) - all_replaced;
      candidate.found.cost = std::max(saved, kept);
      if (candidate.found.cost >= SlowParts::kLeastCost * step_) found.parts.push_back(candidate.found);
    }
    std::stable_sort(found.parts.begin(), found.parts.end(),
                     [](const SlowPartFound& a, const SlowPartFound& b) { return a.cost > b.cost; });
    if (found.parts.size() > SlowParts::kMostParts) found.parts.resize(SlowParts::kMostParts);
    return found;
  }

 private:
  static constexpr std::size_t kMostReplayed = 30;
  static constexpr double kLate = 1.5;        // times the median
  static constexpr double kMostOfAll = 0.75;  // of what several links exceed their medians by

  void SumWork() {
    work_.resize(static_cast<std::size_t>(graph_.ranks()));
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      for (const StepGraph::Op& op : graph_.ops(rank)) {
        if (op.message < 0) work_[static_cast<std::size_t>(rank)][op.part] += op.work;
      }
    }
    std::map<int32_t, std::vector<double>> rates;  // by part: seconds for one of a layer's units
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      for (const auto& [part, seconds] : work_[static_cast<std::size_t>(rank)]) {
        const double size = SizeOf(rank, part);
        if (size > 0) rates[part].push_back(seconds / size);
      }
    }
    for (auto& [part, values] : rates) {
      // A rank alone with a part has no like.
      if (values.size() > 1) rates_[part] = LowerMedian(std::move(values));
    }
  }

  double SizeOf(int rank, int32_t part) const {
    if (part == StepOp::kData) return 1;
    return part < 0 ? 0 : work_of_(rank, part / 2);
  }

  // What a part would take on this rank at the rate of the median; what it takes, where it has no like.
  double AtMedianRate(int rank, int32_t part) const {
    const auto rate = rates_.find(part);
    const double size = SizeOf(rank, part);
    return rate == rates_.end() || size <= 0 ? work_[static_cast<std::size_t>(rank)].at(part) : rate->second * size;
  }
  // Likewise, but no more than it takes.
  double LikeOthers(int rank, int32_t part) const {
    return std::min(work_[static_cast<std::size_t>(rank)].at(part), AtMedianRate(rank, part));
  }

  void AddComputed(SlowParts& found) const {
    const std::size_t ranks = work_.size();
    std::map<int, LayerOnRanks> layers;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const auto& [part, seconds] : work_[rank]) {
        if (part < 0) continue;
        LayerOnRanks& layer = layers[part / 2];
        layer.seconds.resize(ranks);
        layer.median.resize(ranks);
        layer.seconds[rank] += seconds;
        if (rates_.count(part) > 0) layer.median[rank] += AtMedianRate(static_cast<int>(rank), part);
      }
    }
    std::vector<std::pair<double, int>> by_excess;  // the largest first
    for (auto& [index, layer] : layers) {
      layer.layer = index;
      double most = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (layer.median[rank] > 0) most = std::max(most, layer.seconds[rank] - layer.median[rank]);
      }
      by_excess.emplace_back(-most, index);
    }
    std::sort(by_excess.begin(), by_excess.end());
    const std::size_t room = static_cast<std::size_t>(SlowParts::kMostComputed) / ranks;
    for (std::size_t i = room; i < by_excess.size(); ++i) layers.erase(by_excess[i].second);
    found.computed_left_out = static_cast<int>(by_excess.size() - layers.size());
    for (auto& [index, layer] : layers) found.computed.push_back(std::move(layer));
  }

  void AddCompute(int rank, std::vector<Candidate>& candidates) const {
    Candidate candidate;
    candidate.found = {.kind = Kind::kCompute, .rank = rank};
    struct OfLayer {
      double seconds = 0, like = 0;
    };
    std::map<int, OfLayer> layers;
    for (const auto& [part, seconds] : work_[static_cast<std::size_t>(rank)]) {
      if (part < 0) continue;
      OfLayer& layer = layers[part / 2];
      layer.seconds += seconds;
      layer.like += LikeOthers(rank, part);
    }
    double most = 0;
    for (const auto& [layer, times] : layers) {
      const double excess = times.seconds - times.like;
      candidate.excess += excess;
      if (excess <= most) continue;
      most = excess;
      candidate.found.layer = layer;
      candidate.found.seconds = times.seconds;
      candidate.found.median = times.like;
    }
    if (Matters(candidate)) candidates.push_back(std::move(candidate));
  }

  void AddData(int rank, std::vector<Candidate>& candidates) const {
    const auto& work = work_[static_cast<std::size_t>(rank)];
    const auto data = work.find(StepOp::kData);
    if (data == work.end()) return;
    Candidate candidate;
    candidate.found = {.kind = Kind::kData, .rank = rank};
    candidate.found.seconds = data->second;
    candidate.found.median = LikeOthers(rank, StepOp::kData);
    candidate.excess = candidate.found.seconds - candidate.found.median;
    if (Matters(candidate)) candidates.push_back(std::move(candidate));
  }

  // Messages of about the same length are compared over the pairs, each pair by its own median.
  void AddLinks(std::vector<Candidate>& candidates) {
    std::map<int, std::map<Pair, std::vector<double>>> times;  // by length
    for (const StepGraph::Message& message : graph_.messages()) {
      times[SizeBucket(message.bytes)][{message.from, message.to}].push_back(message.seconds);
    }
    for (auto& [bucket, of_pairs] : times) {
      std::vector<double> medians;
      for (const auto& [pair, values] : of_pairs) medians.push_back(LowerMedian(values));
      if (medians.size() > 1) link_medians_[bucket] = LowerMedian(std::move(medians));
    }
    std::map<Pair, Candidate> links;
    for (const StepGraph::Message& message : graph_.messages()) {
      Candidate& link = links[{message.from, message.to}];
      link.found = {.kind = Kind::kLink,
                    .rank = message.from,
                    .peer = message.to,
                    .seconds = link.found.seconds + message.seconds,
                    .median = link.found.median + MoveLikeOthers(message)};
    }
    for (auto& [pair, link] : links) {
      link.excess = link.found.seconds - link.found.median;
      if (Matters(link)) candidates.push_back(std::move(link));
    }
  }

  // A rank that is late with messages of several others is slow itself, and no link: it does not get to run. Its links
  // are one candidate, with what it computes. Where one link has most of what is late, it is that link.
  void JoinLinksIntoSlowRanks(std::vector<Candidate>& candidates) const {
    for (int rank = 0; rank < graph_.ranks(); ++rank) {
      std::set<int> senders;
      for (const StepGraph::Message& message : graph_.messages()) {
        if (message.to == rank) senders.insert(message.from);
      }
      const auto is_late = [&](const Candidate& one) {
        return one.found.kind == Kind::kLink && one.found.peer == rank && one.found.seconds >= kLate * one.found.median;
      };
      const auto late = std::count_if(candidates.begin(), candidates.end(), is_late);
      if (late < 2 || 2 * static_cast<std::size_t>(late) < senders.size()) continue;
      Candidate joined;
      joined.found = {.kind = Kind::kCompute, .rank = rank};
      joined.takes_in = true;
      double most = 0;
      for (const Candidate& link : candidates) {
        if (!is_late(link)) continue;
        most = std::max(most, link.excess);
        joined.excess += link.excess;
        joined.found.seconds += link.found.seconds;
        joined.found.median += link.found.median;
      }
      if (most > kMostOfAll * joined.excess) continue;
      const auto computes = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& one) {
        return one.found.kind == Kind::kCompute && one.found.rank == rank;
      });
      if (computes != candidates.end()) {
        if (computes->excess > joined.excess) joined.found = computes->found;
        joined.excess += computes->excess;
      }
      candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                      [&](const Candidate& one) {
                                        return is_late(one) || (one.found.kind == Kind::kCompute &&
                                                                one.found.rank == rank && !one.takes_in);
                                      }),
                       candidates.end());
      candidates.push_back(std::move(joined));
    }
  }

  double MoveLikeOthers(const StepGraph::Message& message) const {
    const auto median = link_medians_.find(SizeBucket(message.bytes));
    return median == link_medians_.end() ? message.seconds : std::min(message.seconds, median->second);
  }

  // All of the candidates that are chosen at once.
  StepGraph::Change Replacing(const std::vector<Candidate>& candidates,
                              const std::function<bool(const Candidate&)>& chosen) const {
    const auto take_least = [](const std::vector<double>& from, std::vector<double>& into) {
      if (into.empty()) into = from;
      for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::min(into[i], from[i]);
    };
    StepGraph::Change change;
    change.work.resize(static_cast<std::size_t>(graph_.ranks()));
    for (const Candidate& candidate : candidates) {
      if (!chosen(candidate)) continue;
      take_least(candidate.work, change.work[static_cast<std::size_t>(candidate.found.rank)]);
      take_least(candidate.moves, change.moves);
    }
    return change;
  }

  bool Matters(const Candidate& candidate) const { return candidate.excess >= SlowParts::kLeastCost * step_; }

  void Fill(Candidate& candidate) const {
    const SlowPartFound& found = candidate.found;
    const bool link = found.kind == Kind::kLink;
    if (link || candidate.takes_in) {
      for (const StepGraph::Message& message : graph_.messages()) {
        const bool its = link ? message.from == found.rank && message.to == found.peer : message.to == found.rank;
        candidate.moves.push_back(its ? MoveLikeOthers(message) : message.seconds);
      }
    }
    if (link) return;
    const auto& work = work_[static_cast<std::size_t>(found.rank)];
    for (const StepGraph::Op& op : graph_.ops(found.rank)) {
      const bool its = op.message < 0 && (found.kind == Kind::kData ? op.part == StepOp::kData : op.part >= 0);
      const double taken = its ? work.at(op.part) : 0;
      candidate.work.push_back(taken > 0 ? op.work * LikeOthers(found.rank, op.part) / taken : op.work);
    }
  }

  const StepGraph graph_;
  const std::function<double(int, int)>& work_of_;
  const double step_;
  std::vector<std::map<int32_t, double>> work_;  // by rank and part: seconds
  std::map<int32_t, double> rates_;              // by part: the median over the ranks
  std::map<int, double> link_medians_;           // by length
};

}  // namespace

SlowParts FindSlowParts(const std::vector<RecordedStep>& steps,
                        const std::function<double(int rank, int layer)>& work_of) {
  return Search(steps, work_of).Run();
}

}  // namespace adjoin
