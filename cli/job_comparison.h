// Two jobs beside each other: what differs in their specs, what they have measured, how fast they were.
//
//   const JobComparison comparison = Compare(a, b, {.steps = 6, .now_unix_ms = now});
//   std::cout << ComparisonText(comparison);      // tables, for people
//   std::cout << ComparisonJson(comparison);      // one document
#ifndef ADJOIN_CLI_JOB_COMPARISON_H_
#define ADJOIN_CLI_JOB_COMPARISON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/job_facts.h"
#include "planner/spec/spec_diff.h"

namespace adjoin {

struct ComparedJob {
  std::string name;   // as the user calls it
  std::string id;     // empty: a spec from a file
  std::string state;  // likewise
};

// One number of both jobs; absent where it is not known.
struct ComparedNumber {
  enum class Unit { kCount, kPerSecond, kSeconds, kBytes };
  std::string name;
  Unit unit = Unit::kCount;
  std::optional<double> a, b;
};

struct ComparedMetric {
  using Point = std::optional<MetricSeries::Point>;
  struct EqualStep {
    int64_t step = 0;
    double a = 0, b = 0;
  };
  std::string name;  // "loss", "validation.dice"
  Point last_a, last_b, best_a, best_b;
  std::vector<EqualStep> equal_steps;  // both have; the first and the last, and others evenly between them
};

struct JobComparison {
  ComparedJob a, b;
  std::vector<SpecDifference> spec;
  std::vector<ComparedNumber> numbers;  // none where both are specs from files
  std::vector<ComparedMetric> metrics;
};

struct ComparisonOptions {
  size_t steps = 6;  // at most so many equal steps of each metric
  int64_t now_unix_ms = 0;
};

JobComparison Compare(const JobFacts& a, const JobFacts& b, const ComparisonOptions& options);

std::string ComparisonText(const JobComparison& comparison);
// What is not known is null. Ends with a line end.
std::string ComparisonJson(const JobComparison& comparison);

}  // namespace adjoin

#endif  // ADJOIN_CLI_JOB_COMPARISON_H_
