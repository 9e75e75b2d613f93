#include "planner/auto/pareto_tables.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "planner/auto/memory_multiplier.h"

namespace adjoin {
namespace {

constexpr int kUnits = 512;
constexpr int64_t kMostWork = 20'000'000;

struct Pair {
  double seconds = 0;
  int units = 0;
};
using Pairs = std::vector<Pair>;  // by units, ascending; seconds descending

// Pairs of an eliminated variable over at most two others.
struct Table {
  std::vector<int> scope;    // ascending
  std::vector<Pairs> cells;  // row-major
};

struct Step {
  int variable = 0;
  int made = 0;           // the table that it became
  std::vector<int> used;  // the tables that went into it
};

bool operator==(const Pair& a, const Pair& b) { return a.seconds == b.seconds && a.units == b.units; }

// The least seconds for each number of units.
class Collector {
 public:
  explicit Collector(int units) : least_(units + 1, kImpossible) {}

  void Add(const Pair& pair) {
    least_[pair.units] = std::min(least_[pair.units], pair.seconds);
    highest_ = std::max(highest_, pair.units);
  }

  // Returns the pairs of which none is worse than another in both, and forgets them.
  Pairs Take() {
    Pairs pairs;
    for (int units = 0; units <= highest_; ++units) {
      const double seconds = least_[units];
      least_[units] = kImpossible;
      if (seconds < (pairs.empty() ? kImpossible : pairs.back().seconds)) pairs.push_back({seconds, units});
    }
    highest_ = -1;
    return pairs;
  }

 private:
  std::vector<double> least_;
  int highest_ = -1;
};

class Eliminator {
 public:
  Eliminator(const MemoryProblem& problem, int64_t limit, double upper) : problem_(problem), upper_(upper) {
    unit_ = std::max<int64_t>(1, (limit + kUnits - 1) / kUnits);
    units_ = static_cast<int>(limit / unit_);
    sums_ = Collector(units_);
    cell_ = Collector(units_);
    const size_t n = problem.node.size();
    neighbours_.resize(n);
    for (size_t e = 0; e < problem.edge.size(); ++e) {
      const PairwiseProblem::Edge& edge = problem.edge[e];
      neighbours_[edge.a][edge.b].push_back(static_cast<int>(e));
      neighbours_[edge.b][edge.a].push_back(static_cast<int>(e));
    }
    tables_of_.resize(n);
    left_.assign(n, true);
  }

  ParetoChoice Run() {
    ParetoChoice result;
    for (size_t round = 0; round < problem_.node.size(); ++round) {
      int v = -1;
      for (size_t u = 0; u < left_.size(); ++u) {
        if (left_[u] && (v < 0 || neighbours_[u].size() < neighbours_[v].size())) v = static_cast<int>(u);
      }
      if (neighbours_[v].size() > 2 || !Eliminate(v)) {
        result.work = work_;
        return result;
      }
    }
    result.work = work_;
    return Read();
  }

 private:
  int Count(int v) const { return static_cast<int>(problem_.node[v].size()); }

  double EdgeCost(int v, int c, int u, int d) const {
    double cost = 0;
    for (const int e : neighbours_[v].at(u)) {
      if (e < 0) continue;  // only a table
      const PairwiseProblem::Edge& edge = problem_.edge[e];
      cost += edge.a == v ? edge.cost[c * Count(u) + d] : edge.cost[d * Count(v) + c];
    }
    return cost;
  }

  const Pairs& CellOf(const Table& table, int v, int c, const std::vector<int>& scope,
                      const std::vector<int>& at) const {
    int64_t cell = 0;
    for (const int u : table.scope) {
      const int value = u == v ? c : at[std::find(scope.begin(), scope.end(), u) - scope.begin()];
      cell = cell * Count(u) + value;
    }
    return table.cells[cell];
  }

  bool Eliminate(int v) {
    Table made;
    for (const auto& [u, edges] : neighbours_[v]) made.scope.push_back(u);
    int64_t cells = 1;
    for (const int u : made.scope) cells *= Count(u);
    made.cells.resize(cells);
    const std::vector<int> used = tables_of_[v];
    std::vector<int> at(made.scope.size(), 0);
    for (int64_t cell = 0; cell < cells; ++cell) {
      for (int c = 0; c < Count(v); ++c) {
        const std::vector<Pairs> stages = Stages(v, c, made.scope, at, used);
        if (stages.empty()) continue;
        for (const Pair& pair : stages.back()) cell_.Add(pair);
      }
      made.cells[cell] = cell_.Take();
      for (size_t i = at.size(); i-- > 0;) {
        if (++at[i] < Count(made.scope[i])) break;
        at[i] = 0;
      }
      if (work_ > kMostWork) return false;
    }
    const int number = static_cast<int>(tables_.size());
    steps_.push_back({v, number, used});
    left_[v] = false;
    for (const int u : made.scope) {
      neighbours_[u].erase(v);
      auto& list = tables_of_[u];
      list.erase(std::remove_if(list.begin(), list.end(),
                                [&](int t) { return std::find(used.begin(), used.end(), t) != used.end(); }),
                 list.end());
      list.push_back(number);
    }
    if (made.scope.size() == 2) {
      for (const auto& [a, b] : {std::pair(made.scope[0], made.scope[1]), std::pair(made.scope[1], made.scope[0])}) {
        if (neighbours_[a][b].empty()) neighbours_[a][b].push_back(-1);
      }
    }
    tables_.push_back(std::move(made));
    return true;
  }

  double EdgesOf(int v, int c, const std::vector<int>& scope, const std::vector<int>& at) const {
    double edges = 0;
    for (size_t i = 0; i < at.size(); ++i) edges += EdgeCost(v, c, scope[i], at[i]);
    return edges;
  }

  // The pairs of candidate c of v where its neighbours, `scope`, are `at`: of its options alone, then with one table
  // after the other. Empty where there are none.
  std::vector<Pairs> Stages(int v, int c, const std::vector<int>& scope, const std::vector<int>& at,
                            const std::vector<int>& used) {
    const double edges = EdgesOf(v, c, scope, at);
    if (edges == kImpossible) return {};
    for (const MemoryProblem::Option& option : problem_.node[v][c]) {
      const Pair pair = PairOf(option, edges);
      if (pair.units <= units_ && pair.seconds < upper_) sums_.Add(pair);
    }
    work_ += static_cast<int64_t>(problem_.node[v][c].size());
    std::vector<Pairs> stages = {sums_.Take()};
    for (const int table : used) {
      if (stages.back().empty()) return {};
      stages.push_back(Joined(stages.back(), CellOf(tables_[table], v, c, scope, at)));
    }
    return stages;
  }

  // More units than there are: too many.
  Pair PairOf(const MemoryProblem::Option& option, double edges) const {
    const int64_t units = option.bytes / unit_ + (option.bytes % unit_ > 0 ? 1 : 0);
    return {option.seconds + edges, static_cast<int>(std::min<int64_t>(units, int64_t{units_} + 1))};
  }

  Pairs Joined(const Pairs& a, const Pairs& b) {
    work_ += static_cast<int64_t>(a.size() * b.size());
    for (const Pair& first : a) {
      for (const Pair& second : b) {
        if (first.units + second.units > units_) break;
        const double seconds = first.seconds + second.seconds;
        if (seconds < upper_) sums_.Add({seconds, first.units + second.units});
      }
    }
    return sums_.Take();
  }

  // The pairs of `a` and of `b` whose sum is `sum`, one that Joined has returned.
  static std::pair<Pair, Pair> Parts(const Pairs& a, const Pairs& b, const Pair& sum) {
    for (const Pair& first : a) {
      for (const Pair& second : b) {
        if (Pair{first.seconds + second.seconds, first.units + second.units} == sum) return {first, second};
      }
    }
    return {};
  }

  // The best pair of every part of the graph together, read backwards: what led to a pair is found by adding up its
  // cell once more.
  ParetoChoice Read() {
    ParetoChoice result;
    std::vector<int> roots;
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (tables_[steps_[s].made].scope.empty()) roots.push_back(static_cast<int>(s));
    }
    std::vector<Pairs> stages = {{Pair()}};
    for (const int root : roots) stages.push_back(Joined(stages.back(), tables_[steps_[root].made].cells[0]));
    result.work = work_;
    if (stages.back().empty()) return result;
    result.choice.assign(problem_.node.size(), -1);
    result.option.assign(problem_.node.size(), -1);
    std::vector<Pair> pair_of(tables_.size());
    Pair sum = stages.back().back();
    for (size_t r = roots.size(); r-- > 0;) {
      const int made = steps_[roots[r]].made;
      std::tie(sum, pair_of[made]) = Parts(stages[r], tables_[made].cells[0], sum);
    }
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) ReadStep(*step, pair_of, result);
    return result;
  }

  void ReadStep(const Step& step, std::vector<Pair>& pair_of, ParetoChoice& result) {
    const int v = step.variable;
    const std::vector<int>& scope = tables_[step.made].scope;
    std::vector<int> at;
    for (const int u : scope) at.push_back(result.choice[u]);
    Pair sum = pair_of[step.made];
    for (int c = 0; c < Count(v); ++c) {
      const std::vector<Pairs> stages = Stages(v, c, scope, at, step.used);
      if (stages.empty() || std::find(stages.back().begin(), stages.back().end(), sum) == stages.back().end()) continue;
      for (size_t t = step.used.size(); t-- > 0;) {
        std::tie(sum, pair_of[step.used[t]]) = Parts(stages[t], CellOf(tables_[step.used[t]], v, c, scope, at), sum);
      }
      const double edges = EdgesOf(v, c, scope, at);
      const auto& options = problem_.node[v][c];
      result.choice[v] = c;
      for (size_t i = 0; i < options.size(); ++i) {
        if (PairOf(options[i], edges) == sum) result.option[v] = static_cast<int>(i);
      }
      return;
    }
  }

  const MemoryProblem& problem_;
  const double upper_;
  int64_t unit_ = 1;
  int units_ = 0;
  Collector sums_{0}, cell_{0};
  std::vector<std::map<int, std::vector<int>>> neighbours_;  // by variable: the edges; -1: only a table
  std::vector<std::vector<int>> tables_of_;
  std::vector<bool> left_;
  std::vector<Table> tables_;
  std::vector<Step> steps_;
  int64_t work_ = 0;
};

}  // namespace

ParetoChoice ParetoMinimum(const MemoryProblem& problem, int64_t limit, double upper) {
  return Eliminator(problem, limit, upper).Run();
}

}  // namespace adjoin
