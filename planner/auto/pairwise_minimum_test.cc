#include "planner/auto/pairwise_minimum.h"

#include <cmath>
#include <random>
#include <vector>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"
#include "planner/auto/dominated_candidates.h"

namespace adjoin {
namespace {

struct BruteForce {
  double cost = kImpossible;
  int best = 0;  // how many choices cost as little
};

BruteForce BruteForceOf(const PairwiseProblem& problem) {
  BruteForce found;
  std::vector<int> choice(problem.node.size(), 0);
  for (;;) {
    const double cost = CostOf(problem, choice);
    if (cost < found.cost) {
      found = {cost, 1};
    } else if (cost == found.cost) {
      ++found.best;
    }
    size_t v = 0;
    while (v < choice.size() && ++choice[v] == static_cast<int>(problem.node[v].size())) choice[v++] = 0;
    if (v == choice.size()) return found;
  }
}

// Whole numbers, so that sums are the same in every order.
PairwiseProblem RandomProblem(std::mt19937_64& random, int most_variables, int most_candidates, double density,
                              double impossible, bool negative) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  const auto cost = [&] {
    if (std::uniform_real_distribution<double>(0, 1)(random) < impossible) return kImpossible;
    return static_cast<double>(below(40) - (negative ? 20 : 0));
  };
  PairwiseProblem problem;
  const int variables = 1 + below(most_variables);
  for (int v = 0; v < variables; ++v) {
    problem.node.emplace_back(1 + below(most_candidates));
    for (double& c : problem.node.back()) c = cost();
  }
  for (int a = 0; a < variables; ++a) {
    for (int b = 0; b < variables; ++b) {
      if (a == b || std::uniform_real_distribution<double>(0, 1)(random) > density) continue;
      PairwiseProblem::Edge edge{a, b, std::vector<double>(problem.node[a].size() * problem.node[b].size())};
      for (double& c : edge.cost) c = cost();
      problem.edge.push_back(std::move(edge));
    }
  }
  return problem;
}

TEST(PairwiseMinimumTest, EqualsBruteForceOnRandomGraphs) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  int unique = 0, infeasible = 0, branched = 0;
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    const double density = i % 3 == 0 ? 0.15 : i % 3 == 1 ? 0.3 : 0.9;
    const double impossible = i % 4 == 0 ? 0.3 : 0.02;
    const PairwiseProblem problem = RandomProblem(random, 7, 4, density, impossible, i % 2 == 0);
    const BruteForce truth = BruteForceOf(problem);
    PairwiseLimits limits;
    if (i % 5 == 0) limits.cells = 1 + random() % 16;  // has to try candidates
    branched += i % 5 == 0;
    const PairwiseMinimum found = MinimumOf(problem, limits);
    ASSERT_EQ(found.cost, truth.cost);
    ASSERT_TRUE(found.complete);
    ASSERT_EQ(found.lower_bound, truth.cost);
    if (truth.cost == kImpossible) {
      ++infeasible;
      ASSERT_TRUE(found.choice.empty());
      continue;
    }
    ASSERT_EQ(CostOf(problem, found.choice), truth.cost);
    unique += truth.best == 1;
    ASSERT_EQ(MinimumOf(problem, limits).choice, found.choice);
  }
  EXPECT_GT(unique, 500);
  EXPECT_GT(infeasible, 50);
  EXPECT_GT(branched, 100);
}

TEST(DominatedCandidatesTest, KeepAllBestChoices) {
  std::mt19937_64 random(TestSeed());
  int dropped = 0;
  for (int i = 0; i < 1500; ++i) {
    SCOPED_TRACE(i);
    const PairwiseProblem problem =
        RandomProblem(random, 6, 5, i % 3 == 0 ? 0.15 : 0.4, i % 4 == 0 ? 0.3 : 0.02, i % 2 == 0);
    const Undominated left = UndominatedOf(problem);
    for (size_t v = 0; v < problem.node.size(); ++v) {
      ASSERT_FALSE(left.candidate[v].empty());
      dropped += static_cast<int>(problem.node[v].size() - left.candidate[v].size());
    }
    const BruteForce truth = BruteForceOf(problem), rest = BruteForceOf(Restricted(problem, left.candidate));
    ASSERT_EQ(rest.cost, truth.cost);
    if (truth.cost < kImpossible) {
      ASSERT_EQ(rest.best, truth.best);
    }
  }
  EXPECT_GT(dropped, 500);
}

TEST(PairwiseMinimumTest, GivesALowerBoundWhereWorkIsLimited) {
  std::mt19937_64 random(TestSeed());
  int incomplete = 0;
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    const PairwiseProblem problem = RandomProblem(random, 8, 4, 0.9, 0.01, false);
    const BruteForce truth = BruteForceOf(problem);
    const PairwiseMinimum found = MinimumOf(problem, {.cells = 4, .work = 1 + static_cast<int64_t>(random() % 2000)});
    ASSERT_LE(found.lower_bound, truth.cost);
    ASSERT_GE(found.cost, truth.cost);
    incomplete += !found.complete;
    if (found.complete) {
      ASSERT_EQ(found.cost, truth.cost);
    }
  }
  EXPECT_GT(incomplete, 5);
}

TEST(PairwiseMinimumTest, TakesASingleVariable) {
  PairwiseProblem problem;
  problem.node = {{3, 1, 1}};
  const PairwiseMinimum found = MinimumOf(problem);
  EXPECT_EQ(found.cost, 1);
  EXPECT_EQ(found.choice, (std::vector<int>{1}));
}

TEST(PairwiseMinimumTest, TakesNoVariables) {
  const PairwiseMinimum found = MinimumOf({});
  EXPECT_EQ(found.cost, 0);
  EXPECT_TRUE(found.choice.empty());
}

TEST(PairwiseMinimumTest, FindsNothingWhereAVariableHasNoCandidate) {
  PairwiseProblem problem;
  problem.node = {{1}, {}};
  EXPECT_EQ(MinimumOf(problem).cost, kImpossible);
}

// A chain with skips, as a network is, of so many layers that only elimination can do it.
TEST(PairwiseMinimumTest, TakesLongNetworksAtOnce) {
  std::mt19937_64 random(TestSeed());
  PairwiseProblem problem;
  constexpr int kLayers = 300, kCandidates = 24;
  const auto costs = [&](int n) {
    std::vector<double> list(n);
    for (double& c : list) c = static_cast<double>(random() % 1000);
    return list;
  };
  for (int v = 0; v < kLayers; ++v) problem.node.push_back(costs(kCandidates));
  for (int v = 1; v < kLayers; ++v) problem.edge.push_back({v - 1, v, costs(kCandidates * kCandidates)});
  for (int v = 3; v < kLayers; v += 3) problem.edge.push_back({v - 3, v, costs(kCandidates * kCandidates)});
  const PairwiseMinimum found = MinimumOf(problem);
  EXPECT_TRUE(found.complete);
  EXPECT_LT(found.work, 20'000'000);
  EXPECT_EQ(CostOf(problem, found.choice), found.cost);
}

}  // namespace
}  // namespace adjoin
