// Writes metrics.jsonl: one JSON object a line, whole lines only, each in the file as soon as it is written.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto metrics, MetricsWriter::Create("out/metrics.jsonl"));
//   ADJOIN_RETURN_IF_ERROR(metrics->Write({{"step", int64_t{1}}, {"loss", 2.25}}));     // {"step": 1, "loss": 2.25}
//
// Numbers have 17 significant digits, so that a double is read back as it was. A process that is killed leaves the
// lines written so far. Replaces an older file, unless another writer has it open: two jobs with one output folder
// would otherwise mix up their results. One thread.
#ifndef ADJOIN_WORKER_TRAINING_METRICS_WRITER_H_
#define ADJOIN_WORKER_TRAINING_METRICS_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/output_dir.h"  // kMetricsFile, for those who name the file

namespace adjoin {

class MetricsWriter {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<double>, std::vector<std::string>,
                             std::vector<std::vector<int64_t>>>;
  using Line = std::vector<std::pair<std::string, Value>>;

  // Errors: kFailedPrecondition where another writer, of this process or another, has the file open; kUnavailable with
  // the path and the system's reason. The methods fail with the latter too.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(const std::string& path);
  // True where a writer has the file open at this moment.
  static bool InUse(const std::string& path);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  // A number that is not finite becomes null. On a full disk lines wait in memory, to be written with a later one,
  // until there are too many of them.
  absl::Status Write(const Line& line);
  // Appends lines that a writer wrote before, as they are.
  absl::Status Append(const std::string& lines);
  // Where `path` is not this file, because somebody removed it or its folder: makes it again, with all lines, and goes
  // on there.
  absl::Status RestoreAt(const std::string& path);
  // Makes all lines durable.
  absl::Status Sync();

  int64_t size() const { return size_; }  // in bytes, of all lines so far

 private:
  MetricsWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Writes the lines that wait; with `all` it is an error where one still has to wait.
  absl::Status Flush(bool all);

  std::string path_;
  int fd_;
  int64_t size_ = 0;
  std::string waiting_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_METRICS_WRITER_H_
