#include "planner/auto/pairwise_minimum.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/auto/dominated_candidates.h"

namespace adjoin {
namespace {

// A table of costs over some variables, in ascending order, row-major.
struct Factor {
  std::vector<int> scope;
  std::vector<double> cost;
};

// What reading backwards needs of an eliminated variable.
struct Step {
  int variable = 0;
  std::vector<int> scope;      // of the neighbours when it was eliminated
  std::vector<uint16_t> best;  // row-major over them
};

class Solver {
 public:
  Solver(const PairwiseProblem& problem, const PairwiseLimits& limits) : limits_(limits) {
    for (const std::vector<double>& node : problem.node) counts_.push_back(static_cast<int>(node.size()));
  }

  PairwiseMinimum Run(const PairwiseProblem& problem) {
    std::vector<Factor> factors;
    for (size_t v = 0; v < problem.node.size(); ++v) factors.push_back({{static_cast<int>(v)}, problem.node[v]});
    for (const PairwiseProblem::Edge& edge : problem.edge) factors.push_back(Ordered(edge));
    choice_.assign(counts_.size(), -1);
    PairwiseMinimum result;
    if (std::find(counts_.begin(), counts_.end(), 0) != counts_.end()) return result;
    const double bound = Search(std::move(factors), 0);
    result.cost = best_cost_;
    result.choice = std::move(best_choice_);
    result.work = work_;
    result.complete = !stopped_;
    result.lower_bound = stopped_ ? std::min(bound, result.cost) : result.cost;
    return result;
  }

 private:
  Factor Ordered(const PairwiseProblem::Edge& edge) const {
    if (edge.a < edge.b) return {{edge.a, edge.b}, edge.cost};
    Factor factor{{edge.b, edge.a}, std::vector<double>(edge.cost.size())};
    const size_t rows = counts_[edge.a], columns = counts_[edge.b];
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) factor.cost[j * rows + i] = edge.cost[i * columns + j];
    }
    return factor;
  }

  // The number of cells of a table over `scope`, at most `most` + 1.
  int64_t Cells(const std::vector<int>& scope, int64_t most) const {
    int64_t cells = 1;
    for (const int v : scope) {
      cells *= counts_[v];
      if (cells > most) return most + 1;
    }
    return cells;
  }

  static std::vector<int> Union(const std::vector<int>& a, const std::vector<int>& b, int without) {
    std::vector<int> all;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
    all.erase(std::remove(all.begin(), all.end(), without), all.end());
    return all;
  }

  // The factor with `v` as its last variable, in rows of v's candidates.
  std::vector<double> VariableLast(const Factor& factor, int v) const {
    if (factor.scope.back() == v) return factor.cost;
    int64_t before = 1, after = 1;
    bool seen = false;
    for (const int u : factor.scope) {
      if (u == v) {
        seen = true;
      } else {
        (seen ? after : before) *= counts_[u];
      }
    }
    std::vector<double> moved(factor.cost.size());
    const int64_t k = counts_[v];
    for (int64_t b = 0; b < before; ++b) {
      for (int64_t c = 0; c < k; ++c) {
        for (int64_t a = 0; a < after; ++a) moved[(b * after + a) * k + c] = factor.cost[(b * k + c) * after + a];
      }
    }
    return moved;
  }

  // A factor that is summed in an elimination: a row of the variable's candidates for each choice of the other ones.
  struct Rows {
    std::vector<double> cost;
    std::vector<int64_t> stride;  // of its rows, by dim of the result; 0: it does not depend on it
    int64_t row = 0;              // that the choice of the others leads to
  };

  Rows RowsOf(const Factor& factor, int v, const std::vector<int>& scope) const {
    Rows rows{VariableLast(factor, v), std::vector<int64_t>(scope.size(), 0)};
    int64_t stride = 1;
    for (size_t i = scope.size(); i-- > 0;) {
      if (!std::binary_search(factor.scope.begin(), factor.scope.end(), scope[i])) continue;
      rows.stride[i] = stride;
      stride *= counts_[scope[i]];
    }
    return rows;
  }

  // Writes a + b to `sum`, and returns the least.
  static double LeastOfSum(const double* a, const double* b, int64_t k, double* sum) {
    // Four at a time: one minimum after the other would wait for the one before.
    double least[4] = {kImpossible, kImpossible, kImpossible, kImpossible};
    int64_t c = 0;
    for (; c + 4 <= k; c += 4) {
      for (int i = 0; i < 4; ++i) {
        const double added = a[c + i] + b[c + i];
        sum[c + i] = added;
        least[i] = added < least[i] ? added : least[i];
      }
    }
    for (; c < k; ++c) {
      sum[c] = a[c] + b[c];
      least[0] = std::min(least[0], sum[c]);
    }
    return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
  }

  static void Add(const double* a, const double* b, int64_t k, double* sum) {
    for (int64_t c = 0; c < k; ++c) sum[c] = a[c] + b[c];
  }

  // Returns the least sum of the factors over the candidates of `v`, for each choice of the others. `best`: which
  // candidate that is; null: it is not asked.
  Factor Eliminate(const std::vector<const Factor*>& factors, int v, std::vector<uint16_t>* best) {
    Factor result;
    for (const Factor* factor : factors) result.scope = Union(result.scope, factor->scope, v);
    const int64_t k = counts_[v];
    // What depends on the last variable of the result, and what does not and is added up once for all its candidates.
    std::vector<double> own(k, 0);
    std::vector<Rows> inner, outer;
    for (const Factor* factor : factors) {
      if (factor->scope.size() == 1) {
        Add(own.data(), factor->cost.data(), k, own.data());
        continue;
      }
      Rows rows = RowsOf(*factor, v, result.scope);
      (rows.stride.back() > 0 ? inner : outer).push_back(std::move(rows));
    }
    const int64_t cells = Cells(result.scope, std::numeric_limits<int64_t>::max() / 65536);
    result.cost.resize(cells);
    if (best != nullptr) best->resize(cells);
    work_ += cells * k;
    const int64_t run = result.scope.empty() ? 1 : counts_[result.scope.back()];
    const std::vector<double> zeros(inner.empty() ? k : 0, 0);
    std::vector<int> at(result.scope.size(), 0);  // but for the last
    std::vector<double> base(k), sums(k);
    for (int64_t first = 0; first < cells; first += run) {
      base = own;
      for (const Rows& rows : outer) Add(base.data(), &rows.cost[rows.row * k], k, base.data());
      for (int64_t i = 0; i < run; ++i) {
        const double* last = inner.empty() ? zeros.data() : &inner[0].cost[(inner[0].row + i) * k];
        const double* so_far = base.data();
        for (size_t t = 1; t < inner.size(); ++t) {
          Add(so_far, last, k, sums.data());
          so_far = sums.data();
          last = &inner[t].cost[(inner[t].row + i) * k];
        }
        const double least = LeastOfSum(so_far, last, k, sums.data());
        result.cost[first + i] = least;
        if (best != nullptr) {
          (*best)[first + i] = static_cast<uint16_t>(std::find(sums.begin(), sums.end(), least) - sums.begin());
        }
      }
      for (size_t i = at.empty() ? 0 : at.size() - 1; i-- > 0;) {
        const bool carries = ++at[i] == counts_[result.scope[i]];
        for (std::vector<Rows>* tables : {&inner, &outer}) {
          for (Rows& rows : *tables) rows.row += rows.stride[i] * (carries ? 1 - at[i] : 1);
        }
        if (!carries) break;
        at[i] = 0;
      }
    }
    return result;
  }

  std::vector<std::vector<int>> NeighboursOf(const std::vector<Factor>& factors) const {
    std::vector<std::vector<int>> neighbours(counts_.size());
    for (const Factor& factor : factors) {
      for (const int v : factor.scope) neighbours[v] = Union(neighbours[v], factor.scope, v);
    }
    return neighbours;
  }

  static bool Holds(const Factor& factor, int v) {
    return std::binary_search(factor.scope.begin(), factor.scope.end(), v);
  }

  // The variables that the factors are of.
  std::vector<int> Open(const std::vector<Factor>& factors) const {
    std::vector<bool> is(counts_.size(), false);
    for (const Factor& factor : factors) {
      for (const int v : factor.scope) is[v] = true;
    }
    std::vector<int> open;
    for (size_t v = 0; v < is.size(); ++v) {
      if (is[v]) open.push_back(static_cast<int>(v));
    }
    return open;
  }

  // The variable of `open` with fewest neighbours, then with the smallest table.
  int LeastDegree(const std::vector<int>& open, const std::vector<std::vector<int>>& neighbours) const {
    int found = open[0];
    int64_t found_cells = -1;
    for (const int v : open) {
      if (found_cells >= 0 && neighbours[v].size() > neighbours[found].size()) continue;
      const int64_t cells = Cells(neighbours[v], limits_.cells);
      if (found_cells >= 0 && neighbours[v].size() == neighbours[found].size() && cells >= found_cells) continue;
      found = v;
      found_cells = cells;
    }
    return found;
  }

  static void Update(int v, std::vector<std::vector<int>>& neighbours) {
    const std::vector<int> around = neighbours[v];
    for (const int u : around) neighbours[u] = Union(neighbours[u], around, u);
    for (const int u : around) {
      neighbours[u].erase(std::remove(neighbours[u].begin(), neighbours[u].end(), v), neighbours[u].end());
    }
  }

  // Minimises; keeps the choice if it is better than the best. Returns a lower bound of what these factors cost.
  double Search(std::vector<Factor> factors, double constant) {
    std::vector<Step> steps;
    for (const Factor& factor : factors) {
      if (factor.scope.empty()) constant += factor.cost[0];
    }
    factors.erase(
        std::remove_if(factors.begin(), factors.end(), [](const Factor& factor) { return factor.scope.empty(); }),
        factors.end());
    std::vector<int> open = Open(factors);
    std::vector<std::vector<int>> neighbours = NeighboursOf(factors);
    double bound = kImpossible;
    bool branched = false;
    while (!open.empty()) {
      const int v = LeastDegree(open, neighbours);
      if (Cells(neighbours[v], limits_.cells) > limits_.cells) {
        bound = Branch(factors, constant, open, neighbours, steps);
        branched = true;
        break;
      }
      constant += EliminateStep(v, factors, steps);
      Update(v, neighbours);
      open.erase(std::find(open.begin(), open.end(), v));
      if (constant == kImpossible) return constant;
    }
    if (branched) return bound;
    if (constant < best_cost_) {
      best_cost_ = constant;
      ReadBack(steps);
      best_choice_ = choice_;
    }
    return constant;
  }

  // Returns what is left of a table over no variables.
  double EliminateStep(int v, std::vector<Factor>& factors, std::vector<Step>& steps) {
    std::vector<const Factor*> own;
    std::vector<Factor> others;
    for (const Factor& factor : factors) {
      if (Holds(factor, v)) own.push_back(&factor);
    }
    Step step{v, {}, {}};
    Factor made = Eliminate(own, v, &step.best);
    step.scope = made.scope;
    steps.push_back(std::move(step));
    for (Factor& factor : factors) {
      if (!Holds(factor, v)) others.push_back(std::move(factor));
    }
    factors = std::move(others);
    if (made.scope.empty()) return made.cost[0];
    factors.push_back(std::move(made));
    return 0;
  }

  void ReadBack(const std::vector<Step>& steps) {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      int64_t cell = 0;
      for (const int u : step->scope) cell = cell * counts_[u] + choice_[u];
      choice_[step->variable] = step->best[cell];
    }
  }

  // Tries the candidates of the variable with most neighbours.
  double Branch(const std::vector<Factor>& factors, double constant, const std::vector<int>& open,
                const std::vector<std::vector<int>>& neighbours, const std::vector<Step>& steps) {
    int v = open[0];
    for (const int u : open) {
      if (neighbours[u].size() > neighbours[v].size()) v = u;
    }
    std::vector<std::pair<double, int>> order;
    for (int c = 0; c < counts_[v]; ++c) {
      order.emplace_back(constant + RelaxedCost(Conditioned(factors, v, c)), c);
    }
    std::sort(order.begin(), order.end());
    double bound = kImpossible;
    for (const auto& [relaxed, c] : order) {
      if (relaxed >= best_cost_) {
        bound = std::min(bound, relaxed);
        break;
      }
      if (stopped_ || (work_ > limits_.work && !best_choice_.empty())) {
        stopped_ = true;
        bound = std::min(bound, relaxed);
        break;
      }
      const double before = best_cost_;
      choice_[v] = c;
      const double found = Search(Conditioned(factors, v, c), constant);
      bound = std::min(bound, std::max(found, relaxed));
      if (best_cost_ < before) {
        choice_ = best_choice_;
        ReadBack(steps);
        best_choice_ = choice_;
      }
      choice_[v] = -1;
    }
    return bound;
  }

  std::vector<Factor> Conditioned(const std::vector<Factor>& factors, int v, int candidate) const {
    std::vector<Factor> result;
    for (const Factor& factor : factors) {
      if (!Holds(factor, v)) {
        result.push_back(factor);
        continue;
      }
      Factor part;
      for (const int u : factor.scope) {
        if (u != v) part.scope.push_back(u);
      }
      const std::vector<double> table = VariableLast(factor, v);
      for (size_t i = candidate; i < table.size(); i += counts_[v]) part.cost.push_back(table[i]);
      result.push_back(std::move(part));
    }
    return result;
  }

  // At most what the factors cost: where a table were too large, variables are eliminated from groups of factors.
  double RelaxedCost(std::vector<Factor> factors) {
    constexpr int64_t kCells = 100'000;
    const int64_t most = std::min(kCells, limits_.cells);
    double constant = 0;
    std::vector<int> open = Open(factors);
    std::vector<std::vector<int>> neighbours = NeighboursOf(factors);
    while (!open.empty()) {
      const int v = LeastDegree(open, neighbours);
      std::vector<std::vector<const Factor*>> groups;
      std::vector<std::vector<int>> scopes;
      std::vector<Factor> next;
      for (const Factor& factor : factors) {
        if (!Holds(factor, v)) continue;
        size_t group = 0;
        for (; group < groups.size(); ++group) {
          const std::vector<int> scope = Union(scopes[group], factor.scope, v);
          if (Cells(scope, most) > most) continue;
          groups[group].push_back(&factor);
          scopes[group] = scope;
          break;
        }
        if (group < groups.size()) continue;
        groups.push_back({&factor});
        scopes.push_back(Union({}, factor.scope, v));
      }
      for (const std::vector<const Factor*>& group : groups) {
        Factor made = Eliminate(group, v, nullptr);
        if (made.scope.empty()) {
          constant += made.cost[0];
        } else {
          next.push_back(std::move(made));
        }
      }
      for (Factor& factor : factors) {
        if (factor.scope.empty()) {
          constant += factor.cost[0];
        } else if (!Holds(factor, v)) {
          next.push_back(std::move(factor));
        }
      }
      factors = std::move(next);
      open.erase(std::find(open.begin(), open.end(), v));
      neighbours = NeighboursOf(factors);
    }
    for (const Factor& factor : factors) constant += factor.cost[0];
    return constant;
  }

  const PairwiseLimits limits_;
  std::vector<int> counts_;
  std::vector<int> choice_, best_choice_;
  double best_cost_ = kImpossible;
  int64_t work_ = 0;
  bool stopped_ = false;
};

}  // namespace

PairwiseMinimum MinimumOf(const PairwiseProblem& problem, const PairwiseLimits& limits) {
  const Undominated left = UndominatedOf(problem);
  const PairwiseProblem fewer = Restricted(problem, left.candidate);
  PairwiseMinimum minimum = Solver(fewer, limits).Run(fewer);
  minimum.work += left.work;
  if (minimum.choice.empty()) return minimum;
  for (size_t v = 0; v < minimum.choice.size(); ++v) minimum.choice[v] = left.candidate[v][minimum.choice[v]];
  // The same sum in one order, whatever the order of elimination was.
  const double cost = CostOf(problem, minimum.choice);
  if (minimum.complete) minimum.lower_bound = cost;
  minimum.cost = cost;
  minimum.lower_bound = std::min(minimum.lower_bound, cost);
  return minimum;
}

double CostOf(const PairwiseProblem& problem, const std::vector<int>& choice) {
  double cost = 0;
  for (size_t v = 0; v < problem.node.size(); ++v) cost += problem.node[v][choice[v]];
  for (const PairwiseProblem::Edge& edge : problem.edge) {
    cost += edge.cost[choice[edge.a] * problem.node[edge.b].size() + choice[edge.b]];
  }
  return cost;
}

}  // namespace adjoin
