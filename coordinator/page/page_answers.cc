#include "coordinator/page/page_answers.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/output_dir.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/trace_file.h"
#include "base/version.h"
#include "coordinator/page/trace_timeline.h"
#include "coordinator/services/request_id.h"
#include "planner/spec/spec_diff.h"
#include "proto/message_json.h"

namespace adjoin {
namespace {

using Json = nlohmann::ordered_json;
using Fields = PageAnswers::Fields;

constexpr size_t kRows = 50;  // where the query names no number
constexpr size_t kMostJobName = 256;
constexpr size_t kMostValue = 2000;  // bytes of a value that differs
constexpr absl::Duration kFileLimit = absl::Seconds(10);
constexpr absl::Duration kSeatLimit = absl::Seconds(1);  // few threads answer browsers
constexpr uint64_t kMostRank = 1 << 20;

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

const std::string* FieldOf(const Fields& query, const std::string& name) {
  const auto found = query.find(name);
  return found == query.end() || found->second.empty() ? nullptr : &found->second;
}

absl::StatusOr<uint64_t> NumberIn(const Fields& query, const std::string& name, uint64_t otherwise, uint64_t most) {
  const std::string* text = FieldOf(query, name);
  uint64_t number = otherwise;
  if (text != nullptr && (!absl::SimpleAtoi(*text, &number) || number > most)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "=", PrintableText(*text, 60), " is not a number from 0 to ", most));
  }
  return number;
}

absl::Status CheckName(const std::string& job) {
  if (!job.empty() && job.size() <= kMostJobName) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a job's name has 1 to ", kMostJobName, " bytes"));
}

// "running,pending"
absl::Status ReadStates(const std::string& text, ListJobsRequest& request) {
  for (absl::string_view name : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    JobState state = JOB_STATE_UNSPECIFIED;
    if (!JobState_Parse(absl::AsciiStrToUpper(name), &state) || state == JOB_STATE_UNSPECIFIED) {
      return absl::InvalidArgumentError(absl::StrCat("state=", PrintableText(text, 60),
                                                     ": states are pending, starting, running, succeeded, failed, "
                                                     "cancelled, separated by commas"));
    }
    request.add_state(state);
  }
  return absl::OkStatus();
}

// Without a mark of its own, a value that is left out is null.
Json ValueOf(const std::optional<std::string>& value) {
  return value.has_value() ? Json(PrintableText(*value, kMostValue)) : Json();
}

// The largest of what the ranks report.
Json MostOf(const DescribeJobResponse& response) {
  JobProgress most;
  for (const RankStatus& rank : response.rank()) {
    const JobProgress& progress = rank.progress();
    most.set_step_seconds(std::max(most.step_seconds(), progress.step_seconds()));
    most.set_compute_seconds(std::max(most.compute_seconds(), progress.compute_seconds()));
    most.set_sync_seconds(std::max(most.sync_seconds(), progress.sync_seconds()));
    most.set_peak_tensor_bytes(std::max(most.peak_tensor_bytes(), progress.peak_tensor_bytes()));
    most.set_peak_resident_bytes(std::max(most.peak_resident_bytes(), progress.peak_resident_bytes()));
    most.set_bytes_sent(std::max(most.bytes_sent(), progress.bytes_sent()));
  }
  return {{"step_seconds", most.step_seconds()},
          {"compute_seconds", most.compute_seconds()},
          {"sync_seconds", most.sync_seconds()},
          {"peak_tensor_bytes", most.peak_tensor_bytes()},
          {"peak_resident_bytes", most.peak_resident_bytes()},
          {"bytes_sent", most.bytes_sent()}};
}

}  // namespace

std::string PageAnswers::Me(const Caller& caller, bool token) const {
  Json me;
  me["caller"] = ToString(caller);
  me["name"] = caller.name;
  me["role"] = caller.local ? "admin" : std::string(NameOf(caller.role));
  me["local"] = caller.local;
  me["token"] = token;
  me["version"] = kVersion;
  return TextOf(me);
}

absl::StatusOr<ListJobsResponse> PageAnswers::List(const ListJobsRequest& request) const {
  return parts_.calls.ListJobs("the page", request, Stops());
}

absl::StatusOr<std::string> PageAnswers::Jobs(const Fields& query) {
  ListJobsRequest request;
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t rows, NumberIn(query, "page_size", kRows, kMostRows));
  request.set_page_size(static_cast<uint32_t>(std::max<uint64_t>(rows, 1)));
  if (const std::string* token = FieldOf(query, "page_token")) request.set_page_token(*token);
  if (const std::string* owner = FieldOf(query, "owner")) request.set_owner(*owner);
  if (const std::string* states = FieldOf(query, "state")) ADJOIN_RETURN_IF_ERROR(ReadStates(*states, request));
  ADJOIN_ASSIGN_OR_RETURN(const ListCache::Answer answer, lists_.Of(request));
  ListJobsResponse shown = *answer;
  shown.clear_worker();
  return JsonText(shown, /*lines=*/false);
}

absl::StatusOr<std::string> PageAnswers::Workers(const Fields& query) {
  constexpr uint64_t kMostWorkers = 1000000;
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t from, NumberIn(query, "from", 0, kMostWorkers));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t count, NumberIn(query, "count", kRows, kMostRows));
  ListJobsRequest request;
  request.set_page_size(1);
  ADJOIN_ASSIGN_OR_RETURN(const ListCache::Answer answer, lists_.Of(request));
  const ListJobsResponse& response = *answer;
  ListJobsResponse shown;
  const auto all = static_cast<uint64_t>(response.worker_size());
  for (uint64_t i = from; i < std::min(all, from + count); ++i) {
    *shown.add_worker() = response.worker(static_cast<int>(i));
  }
  uint64_t slots = 0, free_slots = 0;
  for (const WorkerSummary& worker : response.worker()) {
    slots += worker.slots();
    free_slots += worker.free_slots();
  }
  Json json = Json::parse(JsonText(shown, /*lines=*/false));
  return TextOf({{"worker", json["worker"]}, {"total", all}, {"slots", slots}, {"free_slots", free_slots}});
}

absl::StatusOr<DescribeJobResponse> PageAnswers::Described(const Caller& caller, const std::string& job) const {
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  DescribeJobRequest request;
  request.set_job_id(job);
  return parts_.calls.DescribeJob(caller, request, Stops());
}

absl::StatusOr<std::string> PageAnswers::Job(const Caller& caller, const std::string& job, const Fields& query) const {
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t from, NumberIn(query, "ranks_from", 0, std::numeric_limits<int>::max()));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t spec, NumberIn(query, "spec", 0, 1));
  ADJOIN_ASSIGN_OR_RETURN(DescribeJobResponse response, Described(caller, job));
  const JobSummary& summary = response.job();
  Json answer;
  answer["may_read"] = MayRead(caller, summary.owner(), summary.job_id(), "the spec").ok();
  answer["may_change"] = MayChange(caller, summary.owner(), summary.job_id()).ok();
  const int ranks = response.rank_size();
  const int first = static_cast<int>(std::min<uint64_t>(from, static_cast<uint64_t>(ranks)));
  answer["ranks_from"] = first;
  answer["ranks_total"] = ranks;
  answer["most"] = MostOf(response);
  const std::string head = TextOf(answer);
  const int end = std::min(ranks, first + std::min(kMostRanks, ranks - first));
  response.mutable_rank()->DeleteSubrange(end, ranks - end);
  response.mutable_rank()->DeleteSubrange(0, first);
  if (spec == 0) response.clear_spec();
  // Without the brace and the end of the line.
  return absl::StrCat(head.substr(0, head.size() - 2), ",\"described\":", JsonText(response, /*lines=*/false), "}\n");
}

absl::StatusOr<std::string> PageAnswers::Events(const Caller& caller, const std::string& job,
                                                const Fields& query) const {
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t after,
                          NumberIn(query, "after", 0, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  ADJOIN_ASSIGN_OR_RETURN(const JobSummary found, parts_.calls.Find(caller, job));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<JobEvent> events, parts_.calls.Events(found.job_id(), after));
  ReadEventsResponse response;
  for (JobEvent& event : events) *response.add_event() = std::move(event);
  return JsonText(response, /*lines=*/false);
}

absl::StatusOr<std::string> PageAnswers::Logs(const Caller& caller, const std::string& job, const Fields& query) const {
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t from,
                          NumberIn(query, "from", 0, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
  ReadLogsRequest request;
  request.set_job_id(job);
  if (FieldOf(query, "rank") != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const uint64_t rank, NumberIn(query, "rank", 0, std::numeric_limits<uint32_t>::max()));
    request.add_rank(static_cast<uint32_t>(rank));
  }
  ADJOIN_ASSIGN_OR_RETURN(const JobSummary found, parts_.calls.FindLog(caller, request));
  if (const std::string* before = FieldOf(query, "before")) {
    int64_t end = std::numeric_limits<int64_t>::max(), begin = 0;
    if (*before != "end" && (!absl::SimpleAtoi(*before, &end) || end < 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("before=", PrintableText(*before, 60), " is neither a position nor \"end\""));
    }
    ADJOIN_ASSIGN_OR_RETURN(const ReadLogsResponse response,
                            parts_.calls.LogLinesBefore(found.job_id(), request, end, &begin));
    return absl::StrCat("{\"begin\":\"", begin, "\",", JsonText(response, /*lines=*/false).substr(1));
  }
  ADJOIN_ASSIGN_OR_RETURN(const ReadLogsResponse response,
                          parts_.calls.LogLines(found.job_id(), request, static_cast<int64_t>(from), /*flush=*/false));
  return JsonText(response, /*lines=*/false);
}

absl::Status PageAnswers::ReadStream(ArtifactStream& stream,
                                     const std::function<absl::StatusOr<bool>(absl::string_view)>& take) const {
  const Deadline deadline = Deadline::After(kFileLimit);
  while (true) {
    // Its error names the worker.
    absl::StatusOr<std::optional<ArtifactChunk>> chunk =
        stream.Next([this] { return !stopping_; }, deadline.Remaining());
    if (stopping_ && !chunk.ok()) return absl::UnavailableError("the coordinator stops");
    ADJOIN_RETURN_IF_ERROR(chunk.status());
    if (!chunk->has_value()) return absl::OkStatus();
    ADJOIN_ASSIGN_OR_RETURN(const bool more, take((*chunk)->data()));
    if (!more) return absl::OkStatus();
    if (deadline.Expired()) {
      return absl::DeadlineExceededError(
          absl::StrCat("the file is not whole after ", absl::FormatDuration(kFileLimit), "; `adjoin get` fetches it"));
    }
  }
}

absl::StatusOr<std::string> PageAnswers::Timeline(const Caller& caller, const std::string& job,
                                                  const Fields& query) const {
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  const std::string* file = FieldOf(query, "file");
  if (file == nullptr || !IsTraceFile(*file)) {
    return absl::InvalidArgumentError(absl::StrCat("file=", file == nullptr ? "" : PrintableText(*file, 60),
                                                   " is not the name of a trace, as trace-41-45.pftrace"));
  }
  TraceTimeline::Wanted wanted;
  ADJOIN_ASSIGN_OR_RETURN(wanted.step, NumberIn(query, "step", 1, std::numeric_limits<int64_t>::max()));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t first, NumberIn(query, "first_rank", 0, kMostRank));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t ranks,
                          NumberIn(query, "ranks", TraceTimeline::kMostRanks, TraceTimeline::kMostRanks));
  wanted.first_rank = static_cast<int>(first);
  wanted.ranks = static_cast<int>(ranks);
  GetArtifactRequest request;
  request.set_job_id(job);
  request.set_name(*file);
  request.set_unfinished(true);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArtifactStream> stream,
                          parts_.calls.OpenArtifact(caller, request, Stops(), kSeatLimit));
  TraceTimeline timeline(wanted);
  size_t bytes = 0;
  ADJOIN_RETURN_IF_ERROR(ReadStream(*stream, [&](absl::string_view part) -> absl::StatusOr<bool> {
    ADJOIN_RETURN_IF_ERROR(timeline.Take(part));
    bytes += part.size();
    return bytes < kTraceBytes;
  }));
  const int64_t left_out = std::max<int64_t>(0, stream->total_bytes() - static_cast<int64_t>(bytes));
  return absl::StrCat("{\"bytes_left_out\":", left_out, ",", timeline.Json().substr(1));
}

absl::StatusOr<std::string> PageAnswers::Trace(const Caller& caller, const std::string& job,
                                               const Fields& query) const {
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  TraceJobRequest request;
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t steps, NumberIn(query, "steps", 1, std::numeric_limits<uint32_t>::max()));
  request.set_job_id(job);
  request.set_steps(static_cast<uint32_t>(steps));
  request.set_request_id(NewRequestId());
  ADJOIN_RETURN_IF_ERROR(parts_.calls.Trace(caller, request).status());
  return TextOf({{"done", "trace"}, {"request_id", request.request_id()}});
}

absl::StatusOr<std::string> PageAnswers::Metrics(const Caller& caller, const std::string& job,
                                                 const Fields& query) const {
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  GetArtifactRequest request;
  request.set_job_id(job);
  request.set_name(kMetricsFile);
  request.set_unfinished(true);
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t from, NumberIn(query, "from", 0, kMost));
  ADJOIN_ASSIGN_OR_RETURN(const uint64_t epoch, NumberIn(query, "epoch", 0, kMost));
  ADJOIN_ASSIGN_OR_RETURN(const size_t most, NumberIn(query, "most", kMetricsBytes, kMetricsBytes));
  request.set_from(from);
  request.set_from_epoch(epoch);
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArtifactStream> stream,
                          parts_.calls.OpenArtifact(caller, request, Stops(), kSeatLimit));
  const uint64_t begin = stream->epoch() == epoch ? from : 0;
  std::string text;
  ADJOIN_RETURN_IF_ERROR(ReadStream(*stream, [&](absl::string_view bytes) {
    absl::StrAppend(&text, bytes);
    return text.size() < most;
  }));
  text.resize(std::min(text.size(), most));
  const size_t end = text.rfind('\n');  // a line that is not whole yet comes with the next answer
  text.resize(end == std::string::npos ? 0 : end + 1);
  const uint64_t total = begin + static_cast<uint64_t>(std::max<int64_t>(stream->total_bytes(), 0));
  return TextOf({{"epoch", stream->epoch()},
                 {"from", begin},
                 {"next", begin + text.size()},
                 {"total", total},
                 {"text", std::move(text)}});
}

absl::StatusOr<std::string> PageAnswers::Difference(const Caller& caller, const std::string& a,
                                                    const std::string& b) const {
  ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse first, Described(caller, a));
  ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse second, Described(caller, b));
  for (const DescribeJobResponse* each : {&first, &second}) {
    ADJOIN_RETURN_IF_ERROR(MayRead(caller, each->job().owner(), each->job().job_id(), "the spec"));
  }
  const std::vector<SpecDifference> differences = DifferencesOf(first.spec(), second.spec());
  Json list = Json::array();
  for (const SpecDifference& each : differences) {
    if (list.size() >= kMostDifferences) break;
    list.push_back({{"path", PrintableText(each.path, kMostValue)},
                    {"a", ValueOf(each.a)},
                    {"b", ValueOf(each.b)},
                    {"a_written", each.a_written},
                    {"b_written", each.b_written}});
  }
  const size_t left_out = differences.size() - list.size();
  return TextOf({{"difference", std::move(list)}, {"left_out", left_out}});
}

absl::StatusOr<std::string> PageAnswers::PlanPicture(const Caller& caller, const std::string& job) {
  ADJOIN_ASSIGN_OR_RETURN(const DescribeJobResponse described, Described(caller, job));
  ADJOIN_RETURN_IF_ERROR(MayRead(caller, described.job().owner(), described.job().job_id(), "the plan"));
  PlanPictures::Wanted wanted;
  wanted.job_id = described.job().job_id();
  wanted.plan_hash = described.plan_hash();
  wanted.owner = caller.name;
  wanted.rates = parts_.hub.Look([](CoordinationService& service) { return service.RatesOfMost(); });
  return pictures_.Of(wanted, [&] { return parts_.calls.ReadPlan(caller, described); });
}

absl::StatusOr<std::string> PageAnswers::Change(const Caller& caller, const std::string& job,
                                                const std::string& action) {
  const absl::Cleanup forget = [this] { lists_.Forget(); };
  ADJOIN_RETURN_IF_ERROR(CheckName(job));
  if (action == "cancel") {
    ADJOIN_RETURN_IF_ERROR(parts_.calls.Cancel(caller, job).status());
  } else if (action == "retry") {
    ADJOIN_RETURN_IF_ERROR(parts_.calls.Retry(caller, job).status());
  } else {
    ADJOIN_RETURN_IF_ERROR(parts_.calls.SetHeld(caller, job, action == "hold"));
  }
  return TextOf({{"done", action}});
}

}  // namespace adjoin
