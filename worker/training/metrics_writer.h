// Writes metrics.jsonl: one JSON object a line, whole lines only, each in the file as soon as it is written.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto metrics, MetricsWriter::Create("out/metrics.jsonl"));
//   ADJOIN_RETURN_IF_ERROR(metrics->Write({{"step", int64_t{1}}, {"loss", 2.25}}));     // {"step": 1, "loss": 2.25}
//
// Numbers have 17 significant digits, so that a double is read back as it was. The file is a GrowingFile. One thread.
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
#include "worker/training/growing_file.h"

namespace adjoin {

class MetricsWriter {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<double>, std::vector<std::string>,
                             std::vector<std::vector<int64_t>>>;
  using Line = std::vector<std::pair<std::string, Value>>;

  // Errors of all methods: as GrowingFile.
  static absl::StatusOr<std::unique_ptr<MetricsWriter>> Create(const std::string& path);
  // True where a writer has the file open at this moment.
  static bool InUse(const std::string& path) { return GrowingFile::InUse(path); }

  // Returns the line as it is written. A number that is not finite becomes null.
  static std::string TextOf(const Line& line);
  absl::Status Write(const Line& line) { return Append(TextOf(line)); }
  // Appends lines that TextOf made, or that a writer wrote before, as they are.
  absl::Status Append(const std::string& lines) { return file_->Append(lines); }
  // Where `path` is not this file, because somebody removed it or its folder: makes it again, with all lines, and goes
  // on there.
  absl::Status RestoreAt(const std::string& path) { return file_->RestoreAt(path); }
  // Makes all lines durable.
  absl::Status Sync() { return file_->Sync(); }

  int64_t size() const { return file_->size(); }  // in bytes, of all lines so far

 private:
  explicit MetricsWriter(std::unique_ptr<GrowingFile> file) : file_(std::move(file)) {}

  const std::unique_ptr<GrowingFile> file_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_METRICS_WRITER_H_
