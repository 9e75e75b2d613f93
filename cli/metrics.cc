#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/csv.h"
#include "cli/job_metrics_table.h"
#include "cli/metrics_lines.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace adjoin {
namespace {

constexpr absl::Duration kBetweenReads = absl::Milliseconds(500);
constexpr char kSteps[] = "step";
constexpr size_t kMostTableBytes = size_t{1} << 30;

// A request for what the job's newest attempt has written, from where `lines` ends.
GetArtifactRequest RequestOf(const std::string& job, const MetricsLines& lines) {
  GetArtifactRequest request;
  request.set_job_id(job);
  request.set_name(kMetricsFile);
  request.set_unfinished(true);
  request.set_from(lines.offset());
  request.set_from_epoch(lines.epoch());
  return request;
}

// One job's lines, each when it has come.
class MetricsPrinter {
 public:
  MetricsPrinter(const CommandOptions& options, const MetricsOptions& metrics)
      : options_(options),
        metrics_(metrics),
        reader_(options.client),
        table_(metrics.type.empty() ? kSteps : metrics.type, metrics.fields),
        fields_(metrics.format == MetricsFormat::kCsv && metrics.type.empty() ? kSteps : metrics.type, metrics.fields) {
  }

  // Prints what the job has written since the last call.
  absl::Status Read(const std::string& job) {
    const absl::Status status = reader_.GetArtifact(RequestOf(job, lines_), [this](const ArtifactChunk& chunk) {
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

  // Errors: as MetricsFields::Check.
  absl::Status CheckFields() const { return fields_.Check(); }

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
  // What is written may come to a terminal.
  void Print(const std::string& line) {
    fields_.Add(line);
    if (metrics_.format == MetricsFormat::kCsv) {
      std::cout << table_.Add(line);
    } else if (metrics_.type.empty() || MetricsTypeOf(line) == metrics_.type) {
      std::cout << PrintableText(fields_.Chosen("", line)) << "\n";
    }
  }

  const CommandOptions& options_;
  const MetricsOptions& metrics_;
  CoordinatorClient reader_;  // beside the one that follows the job
  MetricsTable table_;
  MetricsFields fields_;
  MetricsLines lines_{[this](const std::string& line) { Print(line); }};
};

// The lines of several jobs, or of one, as a table or with the job's name in each.
class MetricsOfJobs {
 public:
  MetricsOfJobs(const CommandOptions& options, const MetricsOptions& metrics)
      : metrics_(metrics),
        client_(options.client),
        type_(metrics.type.empty() && metrics.format != MetricsFormat::kJson ? kSteps : metrics.type),
        fields_(type_, metrics.fields),
        table_({.type = type_,
                .fields = ShownFields(),
                .by_epoch = metrics.by_epoch,
                .short_numbers = metrics.format == MetricsFormat::kText,
                .most_bytes = kMostTableBytes},
               metrics.jobs) {}

  absl::Status Print() {
    for (size_t job = 0; job < metrics_.jobs.size(); ++job) ADJOIN_RETURN_IF_ERROR(Read(job));
    ADJOIN_RETURN_IF_ERROR(fields_.Check());
    if (metrics_.format == MetricsFormat::kJson || table_.empty()) return absl::OkStatus();
    std::vector<std::vector<std::string>> rows;
    table_.ForEachRow([&](const std::vector<std::string>& row) {
      metrics_.format == MetricsFormat::kCsv ? void(std::cout << CsvLine(row)) : rows.push_back(row);
    });
    if (!rows.empty()) std::cout << CutLines(TextTable(rows), static_cast<size_t>(TerminalWidth()));
    return absl::OkStatus();
  }

 private:
  // For people a few fields of a step, unless they have chosen some.
  std::vector<std::string> ShownFields() const {
    if (!metrics_.fields.empty() || metrics_.format != MetricsFormat::kText || type_ != kSteps) return metrics_.fields;
    if (metrics_.jobs.size() > 1) return {"loss"};
    return {"loss", "lr", "t_comp", "t_sync"};
  }

  // A job without metrics has empty columns, and a line on stderr.
  absl::Status Read(size_t index) {
    const std::string& job = metrics_.jobs[index];
    std::string id = job;
    if (metrics_.jobs.size() > 1) {
      ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse described, client_.DescribeJob(job));
      id = described.job().job_id();  // a name may come to mean a later job
    }
    absl::Status wrong;
    MetricsLines lines([&](const std::string& line) {
      if (wrong.ok()) wrong = Take(index, line);
    });
    const absl::Status read = client_.GetArtifact(RequestOf(id, lines), [&](const ArtifactChunk& chunk) {
      const absl::Status added = lines.Add(chunk.header().epoch(), chunk.data());
      return wrong.ok() ? added : wrong;
    });
    const bool none = absl::IsNotFound(read) || absl::IsFailedPrecondition(read);
    if (!none || metrics_.jobs.size() == 1) return read;
    std::cerr << "adjoin: no metrics of " << PrintableText(job) << ": " << PrintableText(read.message()) << std::endl;
    return absl::OkStatus();
  }

  absl::Status Take(size_t index, const std::string& line) {
    fields_.Add(line);
    if (metrics_.format != MetricsFormat::kJson) return table_.Add(index, line);
    if (type_.empty() || MetricsTypeOf(line) == type_) {
      std::cout << PrintableText(fields_.Chosen(metrics_.jobs[index], line)) << "\n";
    }
    return absl::OkStatus();
  }

  const MetricsOptions& metrics_;
  CoordinatorClient client_;
  const std::string type_;  // empty: all
  MetricsFields fields_;
  JobMetricsTable table_;
};

absl::Status CheckOptions(const MetricsOptions& metrics) {
  const std::set<std::string> jobs(metrics.jobs.begin(), metrics.jobs.end());
  if (jobs.size() < metrics.jobs.size()) return absl::InvalidArgumentError("a job is named twice");
  if (metrics.follow && (jobs.size() > 1 || metrics.format == MetricsFormat::kText || metrics.by_epoch)) {
    return absl::InvalidArgumentError(
        "--follow shows one job's lines as they come: right would be one JOB, with -o json or -o csv, and without "
        "--by");
  }
  if (metrics.by_epoch && metrics.format == MetricsFormat::kJson) {
    return absl::InvalidArgumentError("--by goes with the tables, -o csv and -o text");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunMetrics(const CommandOptions& options, const MetricsOptions& metrics) {
  ADJOIN_RETURN_IF_ERROR(CheckOptions(metrics));
  if (metrics.jobs.size() > 1 || metrics.format == MetricsFormat::kText || metrics.by_epoch) {
    ADJOIN_RETURN_IF_ERROR(MetricsOfJobs(options, metrics).Print());
    return 0;
  }
  MetricsPrinter printer(options, metrics);
  ADJOIN_RETURN_IF_ERROR(metrics.follow ? printer.Follow(metrics.jobs[0]) : printer.Read(metrics.jobs[0]));
  ADJOIN_RETURN_IF_ERROR(printer.CheckFields());
  return 0;
}

}  // namespace adjoin
