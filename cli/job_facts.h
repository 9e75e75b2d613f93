// What a comparison tells of one job: its spec, what the coordinator knows, and what its metrics.jsonl has.
//
//   JobFacts facts;
//   facts.Take(described);
//   facts.AddLine("{\"type\": \"step\", \"step\": 1, \"loss\": 2.5, ...}");     // each line
//   facts.Find("loss")->last();                                                   // {1, 2.5}
//   facts.steps_per_second();                                                     // nothing, where no step has a time
//
// What is not known is absent, never 0. One thread.
#ifndef ADJOIN_CLI_JOB_FACTS_H_
#define ADJOIN_CLI_JOB_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"

namespace adjoin {

// The values of one number, by step.
class MetricSeries {
 public:
  using Point = std::pair<int64_t, double>;  // step, value

  void Add(int64_t step, double value) { points_[step] = value; }
  const std::map<int64_t, double>& points() const { return points_; }
  Point last() const { return *points_.rbegin(); }  // there has to be one, as for best()
  // The first of the smallest values, or of the largest.
  Point best(bool larger_is_better) const;

 private:
  std::map<int64_t, double> points_;
};

struct JobFacts {
  std::string name;  // as the user calls it
  JobSpec spec;
  std::optional<JobSummary> job;  // absent: a spec from a file

  std::optional<int64_t> predicted_tensor_bytes, predicted_resident_bytes;  // of the rank that needs most
  std::optional<int64_t> measured_tensor_bytes, measured_resident_bytes;    // of the rank that had most
  std::optional<double> predicted_step_seconds;

  // "loss" (of steps), "validation.dice", "evaluation.accuracy". An evaluation has the last step.
  std::map<std::string, MetricSeries> metrics;

  // What the coordinator knows; also sets the spec.
  void Take(const DescribeJobResponse& described);
  // One line of metrics.jsonl; what is none is left out.
  void AddLine(const std::string& line);

  const MetricSeries* Find(const std::string& metric) const;  // null: the job has none
  // The speed of rank 0, over all steps of the file.
  std::optional<double> steps_per_second() const;
  std::optional<double> samples_per_second() const;
  std::optional<double> compute_seconds() const;  // of a step, the mean
  std::optional<double> sync_seconds() const;
  // From the start of the newest attempt to its end, or until now.
  std::optional<double> seconds(int64_t now_unix_ms) const;

 private:
  int64_t timed_steps_ = 0, last_step_ = 0;
  double compute_ = 0, sync_ = 0, samples_ = 0;
};

// True of "validation.accuracy" and "evaluation.dice", false of losses and errors.
bool LargerIsBetter(const std::string& metric);

}  // namespace adjoin

#endif  // ADJOIN_CLI_JOB_FACTS_H_
