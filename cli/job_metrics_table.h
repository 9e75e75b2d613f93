// Lines of several jobs' metrics.jsonl beside each other: a row for each step (or epoch, or layer of a step), for each
// field a column per job. What a job has not measured is empty, never 0.
//
//   JobMetricsTable table({.type = "step", .fields = {"loss"}}, {"job-1", "job-2"});
//   ADJOIN_RETURN_IF_ERROR(table.Add(0, "{\"type\": \"step\", \"step\": 1, \"loss\": 2.5}"));
//   ADJOIN_RETURN_IF_ERROR(table.Add(1, "{\"type\": \"step\", \"step\": 2, \"loss\": 2.25}"));
//   table.ForEachRow(print);    // step,job-1.loss,job-2.loss   1,2.5,   2,,2.25
//
// One thread.
#ifndef ADJOIN_CLI_JOB_METRICS_TABLE_H_
#define ADJOIN_CLI_JOB_METRICS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace adjoin {

struct MetricsTableOptions {
  std::string type = "step";
  std::vector<std::string> fields;      // in this order; empty: all, in the order in which they appear
  bool by_epoch = false;                // a row for each epoch, with its last line of each job
  bool short_numbers = false;           // six digits, for people
  size_t most_bytes = size_t{1} << 30;  // of all cells
};

class JobMetricsTable {
 public:
  // `jobs`: what they are called in the columns' names; with one job the names are the fields' alone.
  JobMetricsTable(MetricsTableOptions options, std::vector<std::string> jobs);

  // Lines of other types, and what is no JSON object, do not count. Of two lines of one row the later one counts.
  // Errors: kResourceExhausted (the table grows too large for memory: right would be fewer fields, or epochs).
  absl::Status Add(size_t job, const std::string& line);

  using Row = std::vector<std::string>;
  // First the columns' names, then the rows in order; each with as many cells. Cells are text as it came.
  void ForEachRow(const std::function<void(const Row&)>& on_row) const;
  bool empty() const { return rows_.empty(); }

 private:
  struct Key {
    int64_t number = 0;  // of the step or epoch, or of the line where the type has neither
    std::string layer;
    bool operator<(const Key& other) const {
      return number != other.number ? number < other.number : layer < other.layer;
    }
  };
  using Cells = std::vector<std::pair<size_t, std::string>>;  // by field

  size_t FieldIndex(const std::string& name);
  absl::Status Put(size_t job, Key key, Cells cells);

  const MetricsTableOptions options_;
  const std::vector<std::string> jobs_;
  std::vector<std::string> fields_;
  std::map<std::string, size_t> index_;  // in fields_
  std::vector<int64_t> lines_;           // of each job, where they have no number
  std::map<Key, std::vector<Cells>> rows_;
  bool numbered_ = false, layered_ = false;
  size_t bytes_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_CLI_JOB_METRICS_TABLE_H_
