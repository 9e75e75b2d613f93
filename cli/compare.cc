// adjoin compare: two jobs, or specs from files, beside each other.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/job_comparison.h"
#include "cli/job_facts.h"
#include "cli/metrics_lines.h"
#include "cli/terminal.h"
#include "planner/spec/spec_include.h"

namespace adjoin {
namespace {

// A job without metrics has none to show, and a line on stderr.
absl::Status ReadMetrics(CoordinatorClient& client, JobFacts& facts) {
  MetricsLines lines([&](const std::string& line) { facts.AddLine(line); });
  GetArtifactRequest request;
  request.set_job_id(facts.job->job_id());
  request.set_name(kMetricsFile);
  request.set_unfinished(true);
  const absl::Status read = client.GetArtifact(
      std::move(request), [&](const ArtifactChunk& chunk) { return lines.Add(chunk.header().epoch(), chunk.data()); });
  if (read.ok() || absl::IsDataLoss(read)) return read;
  std::cerr << "adjoin: no metrics of " << PrintableText(facts.name) << ": " << PrintableText(read.message())
            << std::endl;
  return absl::OkStatus();
}

absl::StatusOr<JobFacts> FactsOf(const std::string& reference, CoordinatorClient* client) {
  JobFacts facts;
  facts.name = reference;
  if (IsSpecFile(reference)) {
    ADJOIN_ASSIGN_OR_RETURN(LoadedSpec loaded, LoadSpec(reference, {}));
    facts.spec = std::move(loaded.parsed.spec);
    return facts;
  }
  ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse described, client->DescribeJob(reference));
  facts.Take(described);
  if (described.spec().kind() == KIND_UNSPECIFIED) {
    return absl::PermissionDeniedError(
        absl::StrCat("the coordinator does not show the spec of ", described.job().job_id(), " to you"));
  }
  ADJOIN_RETURN_IF_ERROR(ReadMetrics(*client, facts));
  return facts;
}

}  // namespace

bool IsSpecFile(const std::string& reference) {
  static constexpr const char* kEndings[] = {".textproto", ".txtpb", ".pbtxt", ".json"};
  return reference == "-" || absl::StrContains(reference, '/') ||
         std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return absl::EndsWith(reference, ending); });
}

absl::StatusOr<int> RunCompare(const CommandOptions& options, const CompareOptions& compare) {
  std::optional<CoordinatorClient> client;
  if (!IsSpecFile(compare.a) || !IsSpecFile(compare.b)) client.emplace(options.client);
  CoordinatorClient* coordinator = client.has_value() ? &*client : nullptr;
  ADJOIN_ASSIGN_OR_RETURN(const JobFacts a, FactsOf(compare.a, coordinator));
  ADJOIN_ASSIGN_OR_RETURN(const JobFacts b, FactsOf(compare.b, coordinator));
  const JobComparison comparison =
      Compare(a, b, {.steps = compare.steps, .now_unix_ms = absl::ToUnixMillis(absl::Now())});
  if (options.format == Format::kTable) {
    const size_t width = compare.wide ? 0 : static_cast<size_t>(TerminalWidth());
    std::cout << CutLines(ComparisonText(comparison), width) << std::flush;
  } else {
    std::cout << FormattedText(ComparisonJson(comparison), options.format) << std::flush;
  }
  return 0;
}

}  // namespace adjoin
