#include "planner/plan/pipeline_stages.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "layers/loss/loss_roles.h"
#include "layers/rules/recomputed_runs.h"
#include "layers/rules/roles.h"

namespace adjoin {
namespace {

// A layout's first rank.
int FirstOf(const LayoutPlan& layout) {
  return static_cast<int>(layout.rank().empty() ? layout.ranks(0).first() : layout.rank(0));
}

// Sets of ranks, and what goes from one set to another.
class RankSets {
 public:
  explicit RankSets(std::size_t ranks) : parent_(ranks) { std::iota(parent_.begin(), parent_.end(), 0); }

  int SetOf(int rank) {
    while (parent_[rank] != rank) rank = parent_[rank] = parent_[parent_[rank]];
    return rank;
  }
  void Join(int a, int b) { parent_[std::max(SetOf(a), SetOf(b))] = std::min(SetOf(a), SetOf(b)); }
  void JoinMesh(const LayoutPlan& layout) {
    const std::vector<uint32_t> ranks = RanksOf(layout);
    for (const uint32_t rank : ranks) Join(static_cast<int>(ranks[0]), static_cast<int>(rank));
  }
  // `one_way`: only from the first side to the second in a forward pass, and back in a backward pass.
  void Add(const OperatorPlan& op, bool one_way) {
    JoinMesh(op.from());
    JoinMesh(op.to());
    const int from = FirstOf(op.from()), to = FirstOf(op.to());
    if (one_way) {
      edges_.emplace(from, to);
    } else {
      Join(from, to);
    }
  }

  // By set, the sets that get something from it. Those that do so in a circle are joined.
  std::vector<std::set<int>> Graph() {
    JoinCircles(Edges());
    return Edges();
  }

 private:
  std::vector<std::set<int>> Edges() {
    std::vector<std::set<int>> next(parent_.size());
    for (const auto& [from, to] : edges_) {
      if (SetOf(from) != SetOf(to)) next[SetOf(from)].insert(SetOf(to));
    }
    return next;
  }

  // Tarjan's strongly connected components, without recursion.
  void JoinCircles(const std::vector<std::set<int>>& next) {
    constexpr int kUnseen = -1;
    std::vector<int> number(next.size(), kUnseen), lowest(next.size()), open;
    std::vector<bool> is_open(next.size());
    std::vector<std::pair<int, std::set<int>::const_iterator>> path;
    int seen = 0;
    const auto enter = [&](int set) {
      number[set] = lowest[set] = seen++;
      is_open[set] = true;
      open.push_back(set);
      path.emplace_back(set, next[set].begin());
    };
    for (int start = 0; start < static_cast<int>(next.size()); ++start) {
      if (number[start] == kUnseen) enter(start);
      while (!path.empty()) {
        const int set = path.back().first;
        if (path.back().second != next[set].end()) {
          const int to = *path.back().second++;
          if (number[to] == kUnseen) {
            enter(to);
          } else if (is_open[to]) {
            lowest[set] = std::min(lowest[set], number[to]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) lowest[path.back().first] = std::min(lowest[path.back().first], lowest[set]);
        if (lowest[set] < number[set]) continue;
        for (int member = kUnseen; member != set;) {
          member = open.back();
          open.pop_back();
          is_open[member] = false;
          Join(set, member);
        }
      }
    }
  }

  std::vector<int> parent_;
  std::set<std::pair<int, int>> edges_;  // by rank
};

bool ReducesByExtreme(const OperatorPlan& op) {
  return std::any_of(op.from().placement().begin(), op.from().placement().end(), [](const std::string& placement) {
    return absl::StartsWith(placement, "P") && placement != "P(sum)";
  });
}

// Whether the layer moves this exactly once in a forward pass, and never in its backward pass but for the adjoint.
bool IsInputOutputOrParameter(const LayerPlan& layer, const std::string& role) {
  if (role == kRoleOutput) return true;
  for (int i = 0; i < layer.input_size(); ++i) {
    if (role == InputRole(i)) return true;
  }
  return std::any_of(layer.parameter().begin(), layer.parameter().end(),
                     [&role](const ParameterUse& use) { return use.role() == role; });
}

absl::Status AddProgram(const ProgramPlan& program, RankSets& sets) {
  for (const ValuePlan& value : program.value()) sets.JoinMesh(value.layout());
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<RecomputedRun> runs, RecomputedRuns(program));
  std::vector<bool> again(program.layer_size(), false);
  for (const RecomputedRun& run : runs) std::fill(again.begin() + run.first, again.begin() + run.end, true);
  for (int i = 0; i < program.layer_size(); ++i) {
    const LayerPlan& layer = program.layer(i);
    sets.JoinMesh(layer.compute());
    for (const OperatorUse& use : layer.op()) {
      const OperatorPlan& op = program.op(static_cast<int>(use.index()));
      // What a layer of the user's own moves in which pass is its own business.
      sets.Add(op, !again[i] && !layer.spec().has_custom() && IsInputOutputOrParameter(layer, use.role()) &&
                       !ReducesByExtreme(op));
    }
  }
  for (const LossPlan& loss : program.loss()) {
    for (const OperatorUse& use : loss.op()) {
      const OperatorPlan& op = program.op(static_cast<int>(use.index()));
      sets.Add(op, (use.role() == kRolePrediction || use.role() == kRoleVariance) && !ReducesByExtreme(op));
    }
  }
  return absl::OkStatus();
}

// The sets in an order in which each stands after those that it gets something from, the lowest rank first.
std::vector<int> Ordered(const std::vector<std::set<int>>& next, const std::vector<int>& sets) {
  std::vector<int> missing(next.size(), 0);
  for (const std::set<int>& after : next) {
    for (const int set : after) ++missing[set];
  }
  std::set<int> ready;
  for (const int set : sets) {
    if (missing[set] == 0) ready.insert(set);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int set = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(set);
    for (const int after : next[set]) {
      if (--missing[after] == 0) ready.insert(after);
    }
  }
  return order;
}

}  // namespace

std::vector<uint32_t> RanksOf(const LayoutPlan& layout) {
  std::vector<uint32_t> ranks(layout.rank().begin(), layout.rank().end());
  for (const RankRun& run : layout.ranks()) {
    for (uint32_t i = 0; i < run.count(); ++i) ranks.push_back(run.first() + i);
  }
  return ranks;
}

absl::StatusOr<PipelineStages> PipelineStages::Of(const Plan& plan) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  const int64_t most = plan.spec().train().microbatches_in_flight();
  RankSets found(static_cast<std::size_t>(ranks));
  if (most <= 1) {
    for (int rank = 1; rank < ranks; ++rank) found.Join(0, rank);
  } else {
    for (const ProgramPlan& program : plan.program()) {
      if (program.training()) ADJOIN_RETURN_IF_ERROR(AddProgram(program, found));
    }
  }
  const std::vector<std::set<int>> graph = found.Graph();
  std::vector<int> sets;
  for (int rank = 0; rank < ranks; ++rank) {
    if (found.SetOf(rank) == rank) sets.push_back(rank);
  }
  const std::vector<int> order = Ordered(graph, sets);
  PipelineStages stages;
  std::vector<int> number(static_cast<std::size_t>(ranks), 0);
  for (std::size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<int>(i);
  stages.ranks_.resize(order.size());
  for (int rank = 0; rank < ranks; ++rank) {
    stages.stage_of_.push_back(number[found.SetOf(rank)]);
    stages.ranks_[stages.stage_of_.back()].push_back(static_cast<uint32_t>(rank));
  }
  for (const int set : order) {
    std::vector<int>& next = stages.next_.emplace_back();
    for (const int after : graph[set]) next.push_back(number[after]);
    std::sort(next.begin(), next.end());
  }
  stages.in_flight_ = MicrobatchesInFlight(stages.next_, std::max<int64_t>(1, most));
  return stages;
}

bool PipelineStages::Between(const OperatorPlan& op) const {
  return StageOf(FirstOf(op.from())) != StageOf(FirstOf(op.to()));
}

double IdleShareOf(const Plan& plan, const PipelineStages& stages) {
  std::vector<StageWork> work(static_cast<std::size_t>(stages.size()));
  for (int stage = 0; stage < stages.size(); ++stage) {
    work[stage].ranks = static_cast<int64_t>(stages.ranks()[stage].size());
  }
  if (plan.program().empty()) return 0;
  for (const LayerPlan& layer : plan.program(0).layer()) {
    StageWork& of = work[stages.StageOf(FirstOf(layer.compute()))];
    of.forward += layer.flops() / static_cast<double>(of.ranks);
    of.backward += 2 * layer.flops() / static_cast<double>(of.ranks);
  }
  return IdleShare(stages.next(), stages.in_flight(), work, std::max<int64_t>(1, plan.spec().train().microbatches()));
}

}  // namespace adjoin
