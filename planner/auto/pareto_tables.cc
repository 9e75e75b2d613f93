#include "planner/auto/pareto_tables.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planner/auto/memory_multiplier.h"

namespace adjoin {
namespace {

constexpr int kUnits = 512;
constexpr int64_t kMostWork = 20'000'000;

// A pair, and where it comes from: the candidate, the option and the pairs of the tables that were added.
struct Pair {
  double seconds = 0;
  int units = 0;
  int candidate = -1, option = -1;
  std::vector<int> from;  // by table that was joined: the pair in its cell
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

void KeepBest(Pairs& pairs) {
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return a.units != b.units ? a.units < b.units : a.seconds < b.seconds;
  });
  Pairs kept;
  for (Pair& pair : pairs) {
    if (kept.empty() || pair.seconds < kept.back().seconds) kept.push_back(std::move(pair));
  }
  pairs = std::move(kept);
}

class Eliminator {
 public:
  Eliminator(const MemoryProblem& problem, int64_t limit, double upper) : problem_(problem), upper_(upper) {
    unit_ = std::max<int64_t>(1, (limit + kUnits - 1) / kUnits);
    units_ = static_cast<int>(limit / unit_);
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
      Pairs& pairs = made.cells[cell];
      for (int c = 0; c < Count(v); ++c) {
        double edges = 0;
        for (size_t i = 0; i < at.size(); ++i) edges += EdgeCost(v, c, made.scope[i], at[i]);
        if (edges == kImpossible) continue;
        Pairs sums = Options(v, c, edges);
        for (size_t t = 0; t < used.size() && !sums.empty(); ++t) {
          sums = Joined(sums, CellOf(tables_[used[t]], v, c, made.scope, at));
        }
        pairs.insert(pairs.end(), sums.begin(), sums.end());
      }
      KeepBest(pairs);
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

  Pairs Options(int v, int c, double edges) {
    Pairs pairs;
    const auto& options = problem_.node[v][c];
    for (size_t i = 0; i < options.size(); ++i) {
      const int64_t units = (options[i].bytes + unit_ - 1) / unit_;
      const double seconds = options[i].seconds + edges;
      if (units > units_ || seconds >= upper_) continue;
      pairs.push_back({seconds, static_cast<int>(units), c, static_cast<int>(i), {}});
    }
    work_ += static_cast<int64_t>(options.size());
    return pairs;
  }

  Pairs Joined(const Pairs& a, const Pairs& b) {
    Pairs sums;
    work_ += static_cast<int64_t>(a.size() * b.size());
    for (const Pair& first : a) {
      for (size_t j = 0; j < b.size(); ++j) {
        if (first.units + b[j].units > units_ || first.seconds + b[j].seconds >= upper_) continue;
        Pair sum = first;
        sum.seconds += b[j].seconds;
        sum.units += b[j].units;
        sum.from.push_back(static_cast<int>(j));
        sums.push_back(std::move(sum));
      }
    }
    KeepBest(sums);
    return sums;
  }

  // The best pair of every part of the graph together, read backwards.
  ParetoChoice Read() {
    ParetoChoice result;
    result.work = work_;
    std::vector<int> roots;
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (tables_[steps_[s].made].scope.empty()) roots.push_back(static_cast<int>(s));
    }
    Pairs all = {Pair()};
    for (const int root : roots) all = Joined(all, tables_[steps_[root].made].cells[0]);
    if (all.empty()) return result;
    result.choice.assign(problem_.node.size(), -1);
    result.option.assign(problem_.node.size(), -1);
    std::vector<int> pair_of(tables_.size(), -1);
    for (size_t r = 0; r < roots.size(); ++r) pair_of[steps_[roots[r]].made] = all.back().from[r];
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      const Table& table = tables_[step->made];
      int64_t cell = 0;
      for (const int u : table.scope) cell = cell * Count(u) + result.choice[u];
      const Pair& pair = table.cells[cell][pair_of[step->made]];
      result.choice[step->variable] = pair.candidate;
      result.option[step->variable] = pair.option;
      for (size_t t = 0; t < step->used.size(); ++t) pair_of[step->used[t]] = pair.from[t];
    }
    return result;
  }

  const MemoryProblem& problem_;
  const double upper_;
  int64_t unit_ = 1;
  int units_ = 0;
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
