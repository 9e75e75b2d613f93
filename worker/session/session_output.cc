#include "worker/session/session_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr char kMetricsFile[] = "metrics.jsonl";
constexpr absl::Duration kOutputLockTimeout = absl::Seconds(60);

}  // namespace

absl::Status SessionRun::OpenOutput() {
  if (!writes()) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  ADJOIN_ASSIGN_OR_RETURN(
      output_, AttemptOutput::Begin({options_.output_root, plan_.spec().output_dir(), options_.epoch, options_.job_id,
                                     options_.store_id},
                                    Deadline::After(kOutputLockTimeout)));
  absl::StatusOr<std::unique_ptr<MetricsWriter>> metrics =
      MetricsWriter::Create(absl::StrCat(output_->folder(), "/", kMetricsFile));
  if (!metrics.ok()) return output_->AsShown(metrics.status());
  metrics_ = *std::move(metrics);
  result_.artifacts.push_back(kMetricsFile);
  return absl::OkStatus();
}

absl::Status SessionRun::WriteSummary() {
  return metrics_->Write({{"type", "summary"},
                          {"ranks", int64_t{communicator_.size()}},
                          {"seconds", SecondsSince(begin_)},
                          {"t_comp", times_over_ranks_.compute_seconds},
                          {"t_sync", times_over_ranks_.sync_seconds},
                          {"bytes_sent", communicator_.BytesSent()}});
}

absl::Status SessionRun::PublishOutput() {
  if (!writes()) return absl::OkStatus();
  const SessionActivity::Files files(&activity_);
  ADJOIN_RETURN_IF_ERROR(output_->AsShown(WriteSummary()));
  ADJOIN_RETURN_IF_ERROR(output_->AsShown(metrics_->Sync()));
  return output_->Publish(result_.artifacts, Deadline::After(kOutputLockTimeout));
}

}  // namespace adjoin
