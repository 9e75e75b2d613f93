#include "planner/auto/dominated_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace adjoin {
namespace {

// A smaller share of the costs that are compared is rounding.
constexpr double kMargin = 1e-12;

class Elimination {
 public:
  explicit Elimination(const PairwiseProblem& problem) : problem_(problem), edges_of_(problem.node.size()) {
    for (size_t e = 0; e < problem.edge.size(); ++e) {
      edges_of_[problem.edge[e].a].push_back(static_cast<int>(e));
      edges_of_[problem.edge[e].b].push_back(static_cast<int>(e));
    }
    for (const std::vector<double>& node : problem.node) {
      left_.candidate.emplace_back(node.size());
      std::iota(left_.candidate.back().begin(), left_.candidate.back().end(), 0);
    }
  }

  Undominated Run() {
    std::vector<bool> open(problem_.node.size(), true);
    for (bool any = true; any;) {
      any = false;
      for (size_t v = 0; v < open.size(); ++v) {
        if (!open[v]) continue;
        open[v] = false;
        if (!Reduce(static_cast<int>(v))) continue;
        any = true;
        for (const int e : edges_of_[v]) open[Other(e, static_cast<int>(v))] = true;
      }
    }
    return std::move(left_);
  }

 private:
  int Other(int e, int v) const { return problem_.edge[e].a == v ? problem_.edge[e].b : problem_.edge[e].a; }

  // The edge's costs of what is left, in rows of v's candidates.
  std::vector<double> Rows(int e, int v) const {
    const PairwiseProblem::Edge& edge = problem_.edge[e];
    const size_t columns = problem_.node[edge.b].size();
    std::vector<double> rows;
    rows.reserve(left_.candidate[v].size() * left_.candidate[Other(e, v)].size());
    for (const int c : left_.candidate[v]) {
      for (const int j : left_.candidate[Other(e, v)]) {
        rows.push_back(edge.a == v ? edge.cost[c * columns + j] : edge.cost[j * columns + c]);
      }
    }
    return rows;
  }

  // Drops dominated candidates of v. Returns whether there were any.
  bool Reduce(int v) {
    const std::vector<int> candidates = left_.candidate[v];
    if (candidates.size() < 2) return false;
    std::vector<std::vector<double>> tables;
    double largest = 0;
    for (const int e : edges_of_[v]) tables.push_back(Rows(e, v));
    for (const int c : candidates) {
      const double cost = std::abs(problem_.node[v][c]);
      if (cost < kImpossible) largest = std::max(largest, cost);
    }
    for (const std::vector<double>& table : tables) {
      for (const double cost : table) {
        if (std::abs(cost) < kImpossible) largest = std::max(largest, std::abs(cost));
      }
    }
    std::vector<size_t> order(candidates.size());  // positions in `candidates`, cheap ones first
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return problem_.node[v][candidates[a]] < problem_.node[v][candidates[b]];
    });
    std::vector<bool> dropped(candidates.size(), false);
    size_t left = candidates.size();
    // The expensive ones first: they are dominated most likely, and dominate nothing then.
    for (auto c = order.rbegin(); c != order.rend() && left > 1; ++c) {
      for (const size_t other : order) {
        if (other == *c || dropped[other]) continue;
        if (!(MoreAtMost(v, candidates, tables, other, *c) < -kMargin * largest)) continue;
        dropped[*c] = true;
        --left;
        break;
      }
    }
    if (left == candidates.size()) return false;
    left_.candidate[v].clear();
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!dropped[i]) left_.candidate[v].push_back(candidates[i]);
    }
    return true;
  }

  // How much more the candidate at `with` costs than that at `instead`, at most, whatever the neighbours choose.
  double MoreAtMost(int v, const std::vector<int>& candidates, const std::vector<std::vector<double>>& tables,
                    size_t with, size_t instead) {
    const double without = problem_.node[v][candidates[instead]];
    double more = without == kImpossible ? -kImpossible : problem_.node[v][candidates[with]] - without;
    for (const std::vector<double>& table : tables) {
      const size_t columns = table.size() / candidates.size();
      const double* const a = &table[with * columns];
      const double* const b = &table[instead * columns];
      double most = -kImpossible;
      // Where both are impossible the difference is NaN, and is passed over.
      for (size_t j = 0; j < columns; ++j) most = a[j] - b[j] > most ? a[j] - b[j] : most;
      more += most;
      left_.work += static_cast<int64_t>(columns);
    }
    return more;  // NaN: it is not known
  }

  const PairwiseProblem& problem_;
  std::vector<std::vector<int>> edges_of_;
  Undominated left_;
};

}  // namespace

Undominated UndominatedOf(const PairwiseProblem& problem) { return Elimination(problem).Run(); }

PairwiseProblem Restricted(const PairwiseProblem& problem, const std::vector<std::vector<int>>& candidate) {
  PairwiseProblem fewer;
  for (size_t v = 0; v < problem.node.size(); ++v) {
    fewer.node.emplace_back();
    for (const int c : candidate[v]) fewer.node.back().push_back(problem.node[v][c]);
  }
  for (const PairwiseProblem::Edge& edge : problem.edge) {
    PairwiseProblem::Edge part{edge.a, edge.b, {}};
    part.cost.reserve(candidate[edge.a].size() * candidate[edge.b].size());
    for (const int i : candidate[edge.a]) {
      for (const int j : candidate[edge.b]) part.cost.push_back(edge.cost[i * problem.node[edge.b].size() + j]);
    }
    fewer.edge.push_back(std::move(part));
  }
  return fewer;
}

}  // namespace adjoin
