#include "planner/auto/memory_multiplier.h"

#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "planner/auto/pareto_tables.h"

namespace adjoin {
namespace {

struct Truth {
  double seconds = kImpossible;  // of what fits
  int64_t least_bytes = -1;
};

// All candidates of all variables, each with all its options.
Truth BruteForce(const MemoryProblem& problem, int64_t limit) {
  Truth truth;
  const size_t n = problem.node.size();
  std::vector<std::vector<std::pair<int, int>>> all(n);
  for (size_t v = 0; v < n; ++v) {
    for (size_t c = 0; c < problem.node[v].size(); ++c) {
      for (size_t o = 0; o < problem.node[v][c].size(); ++o) all[v].emplace_back(c, o);
    }
    if (all[v].empty()) return truth;
  }
  std::vector<size_t> at(n, 0);
  for (;;) {
    double seconds = 0;
    int64_t bytes = 0;
    for (size_t v = 0; v < n; ++v) {
      const auto& option = problem.node[v][all[v][at[v]].first][all[v][at[v]].second];
      seconds += option.seconds;
      bytes += option.bytes;
    }
    for (const auto& edge : problem.edge) {
      seconds += edge.cost[all[edge.a][at[edge.a]].first * problem.node[edge.b].size() + all[edge.b][at[edge.b]].first];
    }
    if (seconds < kImpossible) {
      if (truth.least_bytes < 0 || bytes < truth.least_bytes) truth.least_bytes = bytes;
      if (limit < 0 || bytes <= limit) truth.seconds = std::min(truth.seconds, seconds);
    }
    size_t v = 0;
    while (v < n && ++at[v] == all[v].size()) at[v++] = 0;
    if (v == n) return truth;
  }
}

MemoryProblem RandomProblem(std::mt19937_64& random, double density) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  MemoryProblem problem;
  const int variables = 1 + below(5);
  for (int v = 0; v < variables; ++v) {
    problem.node.emplace_back(1 + below(3));
    for (auto& options : problem.node.back()) {
      const int count = below(8) == 0 ? 0 : 1 + below(2);
      for (int o = 0; o < count; ++o) options.push_back({static_cast<double>(below(100)), 1000 + below(9000)});
    }
  }
  for (int a = 0; a < variables; ++a) {
    for (int b = a + 1; b < variables; ++b) {
      if (std::uniform_real_distribution<double>(0, 1)(random) > density) continue;
      PairwiseProblem::Edge edge{b, a, std::vector<double>(problem.node[a].size() * problem.node[b].size())};
      for (double& c : edge.cost) c = below(20) == 0 ? kImpossible : below(50);
      problem.edge.push_back(std::move(edge));
    }
  }
  return problem;
}

TEST(MemoryMultiplierTest, BoundsAndChoicesHoldOnRandomGraphs) {
  std::mt19937_64 random(TestSeed(1));  // the fractions below are close to what is found
  int fit = 0, tight = 0, none = 0, optimal = 0, near = 0;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    const MemoryProblem problem = RandomProblem(random, i % 2 == 0 ? 0.4 : 0.8);
    const int64_t limit = i % 10 == 0 ? -1 : 2000 + static_cast<int64_t>(random() % 30000);
    const Truth truth = BruteForce(problem, limit);
    const MemoryMinimum found = MinimumUnder(problem, limit);
    ASSERT_LE(found.lower_bound, truth.seconds + 1e-9);
    if (truth.seconds == kImpossible) {
      ++none;
      ASSERT_TRUE(found.choice.empty());
      if (truth.least_bytes >= 0) {
        ASSERT_EQ(found.least_bytes, truth.least_bytes);
      }
      continue;
    }
    ++fit;
    ASSERT_FALSE(found.choice.empty());
    double seconds = 0;
    int64_t bytes = 0;
    for (size_t v = 0; v < problem.node.size(); ++v) {
      seconds += problem.node[v][found.choice[v]][found.option[v]].seconds;
      bytes += problem.node[v][found.choice[v]][found.option[v]].bytes;
    }
    for (const auto& edge : problem.edge) {
      seconds += edge.cost[found.choice[edge.a] * problem.node[edge.b].size() + found.choice[edge.b]];
    }
    ASSERT_NEAR(seconds, found.seconds, 1e-9);
    ASSERT_EQ(bytes, found.bytes);
    if (limit >= 0) {
      ASSERT_LE(bytes, limit);
    }
    ASSERT_GE(found.seconds, truth.seconds - 1e-9);
    tight += found.lower_bound >= truth.seconds * 0.99;
    optimal += found.seconds <= truth.seconds + 1e-9;
    near += found.seconds <= truth.seconds * 1.05 + 1e-9;
    if (limit < 0) {
      ASSERT_NEAR(found.seconds, truth.seconds, 1e-9);
    }
  }
  EXPECT_GT(fit, 800);
  EXPECT_GT(none, 50);
  EXPECT_GT(tight, fit / 2);
  EXPECT_GT(optimal, fit * 0.9);
  EXPECT_GT(near, fit * 0.93);
}

}  // namespace
}  // namespace adjoin
