// The lines of a job's metrics.jsonl, each once, over attempts that begin anew: each attempt has a file of its own,
// which begins with what the checkpoint had that it went on from, and does again the steps that were lost.
//
//   MetricsLines lines([](const std::string& line) { ... });
//   lines.Add(/*epoch=*/5, "{\"type\": \"step\", \"step\": 1}\n{\"type\"");      // one line, and the begin of the next
//   one lines.offset();                                                               // where attempt 5's file goes on
//   lines.Add(/*epoch=*/6, ...);                                                  // its step 1 is not handed out again
//
// One thread.
#ifndef ADJOIN_CLI_METRICS_LINES_H_
#define ADJOIN_CLI_METRICS_LINES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adjoin {

class MetricsLines {
 public:
  // `on_line` gets each line without its end.
  explicit MetricsLines(std::function<void(const std::string&)> on_line) : on_line_(std::move(on_line)) {}

  // The next bytes of an attempt's file; those of another attempt than before are its first ones.
  // Errors: kDataLoss (a line is longer than any that a job writes).
  absl::Status Add(uint64_t epoch, absl::string_view bytes);

  uint64_t epoch() const { return epoch_; }    // of the last bytes; 0: there were none
  uint64_t offset() const { return offset_; }  // of its file: how many bytes there were

 private:
  void Take(const std::string& line);

  const std::function<void(const std::string&)> on_line_;
  uint64_t epoch_ = 0;
  uint64_t offset_ = 0;
  std::string begun_;                         // a line that is not whole yet
  std::map<std::string, int64_t> last_step_;  // handed out, by type: steps only grow
  std::set<std::string> without_step_;        // handed out: a few, at the end of an attempt
};

// Returns the lines of one type as comma-separated values (cli/csv.h): the names of the fields, then a row for each
// line. Lists are texts; but a line of type "layers", whose lists go by its list "layer", is a row for each layer.
class MetricsTable {
 public:
  // `fields`: the columns; empty: the fields of the first line.
  explicit MetricsTable(std::string type, std::vector<std::string> fields = {})
      : type_(std::move(type)), fields_(std::move(fields)) {}
  // Returns what is to be printed for this line, with line ends; "" where it is of another type, or no JSON object.
  std::string Add(const std::string& line);

 private:
  const std::string type_;
  const std::vector<std::string> fields_;
  std::vector<std::string> columns_;
};

// The fields that a user has chosen of a job's lines.
class MetricsFields {
 public:
  // Both may be empty: lines of all types, all fields.
  MetricsFields(std::string type, std::vector<std::string> chosen)
      : type_(std::move(type)), chosen_(std::move(chosen)) {}
  // Notes which fields the line has.
  void Add(const std::string& line);
  // Errors: kNotFound (none of the lines has one of the chosen fields; the message lists those that there are).
  absl::Status Check() const;
  // Returns the line with the chosen fields, its type, step and epoch alone, and with the job's name before them where
  // one is given. As it is where there is nothing to change.
  std::string Chosen(const std::string& job, const std::string& line) const;

 private:
  const std::string type_;
  const std::vector<std::string> chosen_;
  std::set<std::string> seen_;
};

// The type of a line, "step"; "" where it is none.
std::string MetricsTypeOf(const std::string& line);

}  // namespace adjoin

#endif  // ADJOIN_CLI_METRICS_LINES_H_
