#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/metrics_lines.h"
#include "cli/text.h"

namespace adjoin {
namespace {

constexpr absl::Duration kBetweenReads = absl::Milliseconds(500);

class MetricsPrinter {
 public:
  MetricsPrinter(const CommandOptions& options, const MetricsOptions& metrics)
      : options_(options),
        metrics_(metrics),
        reader_(options.client),
        table_(metrics.type.empty() ? "step" : metrics.type) {}

  // Prints what the job has written since the last call.
  absl::Status Read(const std::string& job) {
    GetArtifactRequest request;
    request.set_job_id(job);
    request.set_name(kMetricsFile);
    request.set_unfinished(true);
    request.set_from(lines_.offset());
    request.set_from_epoch(lines_.epoch());
    const absl::Status status = reader_.GetArtifact(std::move(request), [this](const ArtifactChunk& chunk) {
      const uint64_t epoch = chunk.header().epoch();
      if (lines_.epoch() != 0 && epoch != lines_.epoch()) {
        std::cout << std::flush;
        std::cerr << "adjoin: attempt " << epoch << " begins here; steps that it does again are not shown again"
                  << std::endl;
      }
      return lines_.Add(epoch, chunk.data());
    });
    std::cout << std::flush;
    if (status.ok() && !std::cout) return absl::UnavailableError("standard output cannot be written");
    return status;
  }

  // Goes on until the job has ended and no process of it is left.
  absl::Status Follow(std::string job) {
    CoordinatorClient client(options_.client);
    Deadline next = Deadline::After(absl::ZeroDuration());
    absl::Status wrong;
    const absl::Status followed = client.FollowJob(job, [&](const JobSummary& summary) {
      job = summary.job_id();  // a name may come to mean a later job
      if (IsFinalState(summary.state()) || summary.epoch() == 0 || !next.Expired()) return;
      const absl::Status read = Read(job);
      // A file that is not there yet, or whose worker is away for a while, is looked for again.
      const bool later = absl::IsNotFound(read) || (absl::IsUnavailable(read) && std::cout);
      if (!read.ok() && !later) {
        wrong = read;
        client.Cancel();
      }
      next = Deadline::After(kBetweenReads);
    });
    ADJOIN_RETURN_IF_ERROR(wrong);
    ADJOIN_RETURN_IF_ERROR(followed);
    // The events end when nothing of the job is left that could write.
    ADJOIN_RETURN_IF_ERROR(client.ReadEvents(job, /*follow=*/true, [](const JobEvent&) {}));
    return Read(job);
  }

 private:
  void Print(const std::string& written) {
    const std::string line = PrintableText(written);  // it may come to a terminal
    if (metrics_.csv) {
      std::cout << table_.Add(line);
    } else if (metrics_.type.empty() || MetricsTypeOf(line) == metrics_.type) {
      std::cout << line << "\n";
    }
  }

  const CommandOptions& options_;
  const MetricsOptions& metrics_;
  CoordinatorClient reader_;  // beside the one that follows the job
  MetricsTable table_;
  MetricsLines lines_{[this](const std::string& line) { Print(line); }};
};

}  // namespace

absl::StatusOr<int> RunMetrics(const CommandOptions& options, const MetricsOptions& metrics) {
  MetricsPrinter printer(options, metrics);
  ADJOIN_RETURN_IF_ERROR(metrics.follow ? printer.Follow(metrics.job) : printer.Read(metrics.job));
  return 0;
}

}  // namespace adjoin
