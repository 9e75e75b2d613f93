// The files of a session's results: the attempt's folder, metrics.jsonl, beside it the event file of TensorBoard's
// where the job asks for one, and the list of what is published in the end. Rank 0 writes them; on the other ranks only
// FindFolder and AsShown have something to do.
//
//   ADJOIN_RETURN_IF_ERROR(output.Open());
//   ADJOIN_RETURN_IF_ERROR(output.WriteMetrics({{"type", "step"}, {"step", int64_t{1}}}));
//   ADJOIN_RETURN_IF_ERROR(output.Publish(summary));
//
// Errors of all methods: as AttemptOutput and MetricsWriter, with paths as the job names them. One thread.
#ifndef ADJOIN_WORKER_SESSION_SESSION_OUTPUT_H_
#define ADJOIN_WORKER_SESSION_SESSION_OUTPUT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/path_rules.h"
#include "worker/session/attempt_output.h"
#include "worker/session/session_environment.h"
#include "worker/tensorboard/event_log.h"
#include "worker/training/metrics_writer.h"

namespace adjoin {

class SessionOutput {
 public:
  // `environment` must outlive it.
  explicit SessionOutput(const SessionEnvironment& environment) : environment_(environment) {}
  SessionOutput(const SessionOutput&) = delete;
  SessionOutput& operator=(const SessionOutput&) = delete;

  // Begins the attempt's folder and the files that grow. Before every other method.
  absl::Status Open();

  // Writes one line to metrics.jsonl, and its scalars to the event file.
  absl::Status WriteMetrics(const MetricsWriter::Line& line);
  // Appends lines that an earlier attempt wrote, as they are. Before the first of them: how long their steps took.
  void BeginPast(double seconds);
  absl::Status AppendMetrics(const std::string& lines);
  void EndPast();
  // Path of metrics.jsonl below the output root, and its bytes so far. On rank 0 only.
  std::string metrics_path() const;
  int64_t metrics_bytes() const { return metrics_->size(); }

  // The path for a new file of the attempt. On rank 0 only. Error: this is no longer the job's latest attempt.
  absl::StatusOr<std::string> PathOfNewFile(const std::string& name) const;
  // A file of the attempt that is written and will be published.
  void AddArtifact(const std::string& name) { artifacts_.push_back(name); }
  // The same for one without which the results are whole: where it is gone until then, it is left out.
  void AddExtra(const std::string& name) { extras_.push_back(name); }
  const std::vector<std::string>& artifacts() const { return artifacts_; }

  // The attempt's folder as this rank sees it. On other ranks than 0: once rank 0 has made it.
  absl::StatusOr<std::string> FindFolder();
  // The same error with the job's words for the attempt's folder.
  absl::Status AsShown(const absl::Status& status) const;

  // A function for any thread that fails where a later attempt has begun, and may outlive this object; empty on other
  // ranks than 0.
  std::function<absl::Status()> LatestCheck() const;

  // Writes the summary as the last line of metrics.jsonl and publishes all artifacts.
  absl::Status Publish(const MetricsWriter::Line& summary);

 private:
  // Fails where a later attempt has begun; makes the attempt's folder and the files that grow again where they were
  // removed.
  absl::Status CheckAndRestore() const;

  const SessionEnvironment& environment_;
  std::shared_ptr<AttemptOutput> attempt_;  // on rank 0, as is the next one
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<EventLog> events_;  // null: the job asks for none
  std::optional<HeldPath> folder_;    // on other ranks, once found: the folder of rank 0's attempt
  std::vector<std::string> artifacts_, extras_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SESSION_SESSION_OUTPUT_H_
