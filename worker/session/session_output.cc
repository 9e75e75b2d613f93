#include "worker/session/session_output.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/output_dir.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr absl::Duration kOutputLockTimeout = absl::Seconds(60);

double SecondsNow() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// The attempt's folder, below the output root; "" for the root itself.
std::string AttemptPath(const SessionEnvironment& environment) {
  std::string path = environment.spec().output_dir();
  const uint64_t epoch = environment.options.epoch;
  if (epoch != 0) absl::StrAppend(&path, path.empty() ? "" : "/", AttemptFolder(epoch));
  return path;
}

}  // namespace

absl::Status SessionOutput::Open() {
  if (!environment_.writes()) return absl::OkStatus();
  const SessionActivity::Files files(environment_.activity);
  const SessionOptions& options = environment_.options;
  ADJOIN_ASSIGN_OR_RETURN(attempt_, AttemptOutput::Begin({.root = options.output_root,
                                                          .output_dir = environment_.spec().output_dir(),
                                                          .epoch = options.epoch,
                                                          .job_id = options.job_id,
                                                          .store_id = options.store_id},
                                                         Deadline::After(kOutputLockTimeout)));
  absl::StatusOr<std::unique_ptr<MetricsWriter>> metrics =
      MetricsWriter::Create(absl::StrCat(attempt_->folder(), "/", kMetricsFile));
  if (!metrics.ok()) return AsShown(metrics.status());
  metrics_ = *std::move(metrics);
  AddArtifact(kMetricsFile);
  if (!environment_.spec().train().tensorboard()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<EventLog>> events =
      EventLog::Create(absl::StrCat(attempt_->folder(), "/", kEventFile), SecondsNow);
  if (!events.ok()) return AsShown(events.status());
  events_ = *std::move(events);
  AddArtifact(kEventFile);
  return absl::OkStatus();
}

absl::Status SessionOutput::WriteMetrics(const MetricsWriter::Line& line) {
  if (metrics_ == nullptr) return absl::OkStatus();
  const SessionActivity::Files files(environment_.activity);
  const std::string text = MetricsWriter::TextOf(line);
  ADJOIN_RETURN_IF_ERROR(AsShown(metrics_->Append(text)));
  return events_ == nullptr ? absl::OkStatus() : AsShown(events_->Add(text));
}

absl::Status SessionOutput::AppendMetrics(const std::string& lines) {
  if (metrics_ == nullptr) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(AsShown(metrics_->Append(lines)));
  return events_ == nullptr ? absl::OkStatus() : AsShown(events_->Add(lines));
}

void SessionOutput::BeginPast(double seconds) {
  if (events_ != nullptr) events_->BeginPast(seconds);
}

void SessionOutput::EndPast() {
  if (events_ != nullptr) events_->EndPast();
}

std::string SessionOutput::metrics_path() const {
  const std::string folder = AttemptPath(environment_);
  return absl::StrCat(folder, folder.empty() ? "" : "/", kMetricsFile);
}

absl::StatusOr<std::string> SessionOutput::PathOfNewFile(const std::string& name) const {
  ADJOIN_RETURN_IF_ERROR(CheckAndRestore());
  return absl::StrCat(attempt_->folder(), "/", name);
}

absl::Status SessionOutput::CheckAndRestore() const {
  ADJOIN_RETURN_IF_ERROR(attempt_->CheckLatest());
  ADJOIN_RETURN_IF_ERROR(AsShown(metrics_->RestoreAt(absl::StrCat(attempt_->folder(), "/", kMetricsFile))));
  if (events_ == nullptr) return absl::OkStatus();
  return AsShown(events_->RestoreAt(absl::StrCat(attempt_->folder(), "/", kEventFile)));
}

absl::StatusOr<std::string> SessionOutput::FindFolder() {
  if (attempt_ != nullptr) return attempt_->folder();
  const std::string relative = AttemptPath(environment_);
  ADJOIN_ASSIGN_OR_RETURN(folder_, HoldBelow(environment_.options.output_root, relative.empty() ? "." : relative));
  return folder_->path();
}

absl::Status SessionOutput::AsShown(const absl::Status& status) const {
  if (attempt_ != nullptr) return attempt_->AsShown(status);
  return folder_.has_value() ? folder_->AsShown(status) : status;
}

std::function<absl::Status()> SessionOutput::LatestCheck() const {
  if (attempt_ == nullptr) return nullptr;
  return [attempt = attempt_] { return attempt->CheckLatest(); };
}

absl::Status SessionOutput::Publish(const MetricsWriter::Line& summary) {
  if (!environment_.writes()) return absl::OkStatus();
  const SessionActivity::Files files(environment_.activity);
  ADJOIN_RETURN_IF_ERROR(CheckAndRestore());
  ADJOIN_RETURN_IF_ERROR(WriteMetrics(summary));
  ADJOIN_RETURN_IF_ERROR(AsShown(metrics_->Sync()));
  if (events_ != nullptr) ADJOIN_RETURN_IF_ERROR(AsShown(events_->Sync()));
  for (const std::string& name : std::exchange(extras_, {})) {
    std::error_code ignored;
    if (std::filesystem::exists(absl::StrCat(attempt_->folder(), "/", name), ignored)) AddArtifact(name);
  }
  return attempt_->Publish(artifacts_, Deadline::After(kOutputLockTimeout));
}

}  // namespace adjoin
