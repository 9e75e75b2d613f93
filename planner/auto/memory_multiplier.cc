#include "planner/auto/memory_multiplier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/auto/pareto_tables.h"

namespace adjoin {
namespace {

constexpr int kMostRounds = 40;
constexpr double kGap = 0.01;

struct Chosen {
  double weighed = kImpossible;  // seconds * time_weight + lambda * bytes: a lower bound of it
  double seconds = 0;
  int64_t bytes = 0;
  std::vector<int> choice, option;
};

class Search {
 public:
  Search(const MemoryProblem& problem, int64_t limit, const PairwiseLimits& limits)
      : problem_(problem), limit_(limit), limits_(limits) {}

  MemoryMinimum Run() {
    const Chosen fastest = Minimise(1, 0);
    if (fastest.choice.empty()) return result_;
    result_.lower_bound = fastest.weighed;
    result_.least_bytes = fastest.bytes;
    if (limit_ < 0 || fastest.bytes <= limit_) {
      Take(fastest);
      return result_;
    }
    // Seconds only decide between equal bytes.
    const Chosen smallest = Minimise(1e-9, 1);
    result_.least_bytes = smallest.bytes;
    if (smallest.bytes > limit_) {
      result_.lower_bound = kImpossible;
      return result_;
    }
    Take(smallest);
    Approach(fastest, smallest);
    if (result_.seconds > result_.lower_bound * (1 + kGap)) ByTables();
    result_.lower_bound = std::min(result_.lower_bound, result_.seconds);
    return result_;
  }

 private:
  // The least of time * seconds + lambda * bytes.
  Chosen Minimise(double time, double lambda) {
    PairwiseProblem pairwise;
    std::vector<std::vector<int>> best(problem_.node.size());
    for (size_t v = 0; v < problem_.node.size(); ++v) {
      std::vector<double> costs;
      for (const std::vector<MemoryProblem::Option>& options : problem_.node[v]) {
        double least = kImpossible;
        int at = 0;
        for (size_t i = 0; i < options.size(); ++i) {
          const double cost = time * options[i].seconds + lambda * static_cast<double>(options[i].bytes);
          if (cost >= least) continue;
          least = cost;
          at = static_cast<int>(i);
        }
        costs.push_back(least);
        best[v].push_back(at);
      }
      pairwise.node.push_back(std::move(costs));
    }
    pairwise.edge = problem_.edge;
    if (time != 1) {
      for (PairwiseProblem::Edge& edge : pairwise.edge) {
        for (double& cost : edge.cost) cost *= time;
      }
    }
    const PairwiseMinimum minimum = MinimumOf(pairwise, limits_);
    result_.work += minimum.work;
    Chosen chosen;
    chosen.weighed = minimum.lower_bound;
    chosen.choice = minimum.choice;
    for (size_t v = 0; v < chosen.choice.size(); ++v) chosen.option.push_back(best[v][chosen.choice[v]]);
    Count(chosen);
    return chosen;
  }

  void Count(Chosen& chosen) const {
    chosen.seconds = 0;
    chosen.bytes = 0;
    for (size_t v = 0; v < chosen.choice.size(); ++v) {
      const MemoryProblem::Option& option = problem_.node[v][chosen.choice[v]][chosen.option[v]];
      chosen.seconds += option.seconds;
      chosen.bytes += option.bytes;
    }
    if (chosen.choice.empty()) return;
    for (const PairwiseProblem::Edge& edge : problem_.edge) {
      chosen.seconds += edge.cost[chosen.choice[edge.a] * problem_.node[edge.b].size() + chosen.choice[edge.b]];
    }
  }

  // Keeps a choice that fits, if it is the best.
  void Take(const Chosen& chosen) {
    if (chosen.choice.empty() || (limit_ >= 0 && chosen.bytes > limit_) || chosen.seconds >= result_.seconds) return;
    result_.seconds = chosen.seconds;
    result_.bytes = chosen.bytes;
    result_.choice = chosen.choice;
    result_.option = chosen.option;
  }

  // Uses what is free below the limit for faster options of the same candidates, or gets below it with smaller ones.
  void Improve(Chosen chosen) {
    for (;;) {
      double best = 0;
      size_t best_v = 0;
      int best_option = -1;
      const bool fits = chosen.bytes <= limit_;
      for (size_t v = 0; v < chosen.choice.size(); ++v) {
        const auto& options = problem_.node[v][chosen.choice[v]];
        const MemoryProblem::Option& now = options[chosen.option[v]];
        for (size_t i = 0; i < options.size(); ++i) {
          const int64_t more = options[i].bytes - now.bytes;
          const double saved = now.seconds - options[i].seconds;
          // The most seconds saved; or the least seconds for each byte that is given up.
          double gain = 0;
          if (fits && saved > 0 && chosen.bytes + more <= limit_) gain = saved;
          if (!fits && more < 0) gain = static_cast<double>(-more) / (1e-12 + std::max(0.0, -saved));
          if (gain <= best) continue;
          best = gain;
          best_v = v;
          best_option = static_cast<int>(i);
        }
      }
      if (best_option < 0) break;
      chosen.option[best_v] = best_option;
      Count(chosen);
    }
    Take(chosen);
  }

  // Along the lower convex hull of (bytes, seconds), from its end that is too large and the one that fits.
  void Approach(Chosen large, Chosen small) {
    Improve(large);
    Improve(small);
    for (int round = 0; round < kMostRounds && large.bytes > small.bytes; ++round) {
      const double lambda = (small.seconds - large.seconds) / static_cast<double>(large.bytes - small.bytes);
      if (!(lambda > 0)) break;
      const Chosen between = Minimise(1, lambda);
      const double bound = between.weighed - lambda * static_cast<double>(limit_);
      result_.lower_bound = std::max(result_.lower_bound, bound);
      Improve(between);
      const double line = small.seconds + lambda * static_cast<double>(small.bytes);
      if (!(between.seconds + lambda * static_cast<double>(between.bytes) < line * (1 - 1e-12))) break;
      (between.bytes > limit_ ? large : small) = between;
    }
  }

  void ByTables() {
    const ParetoChoice found = ParetoMinimum(problem_, limit_, result_.seconds);
    result_.work += found.work;
    if (found.choice.empty()) return;
    Chosen chosen;
    chosen.choice = found.choice;
    chosen.option = found.option;
    Count(chosen);
    Take(chosen);
  }

  const MemoryProblem& problem_;
  const int64_t limit_;
  const PairwiseLimits limits_;
  MemoryMinimum result_;
};

}  // namespace

MemoryMinimum MinimumUnder(const MemoryProblem& problem, int64_t limit, const PairwiseLimits& limits) {
  return Search(problem, limit, limits).Run();
}

}  // namespace adjoin
