// What the coordinator's page gets of a job that trains on real ranks, beside what the command prints of it; and pages
// of many jobs.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"
#include "proto/protocol.h"
#include "tests/e2e/line_job.h"
#include "tests/harness/local_cluster.h"
#include "tests/page/page_client.h"
#include "worker/trace/read_trace.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Json = nlohmann::json;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class PageDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LocalClusterOptions options;
    options.coordinator_flags = {"--page-listen", "127.0.0.1:0"};
    auto cluster = LocalCluster::Start(/*nodes=*/1, /*slots_per_node=*/2, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    port_ = PagePortIn(ReadFile(cluster_->folder() + "/coordinator-log.err"));
    ASSERT_GT(port_, 0);
  }
  PageResponse Get(const std::string& path, const PageClient::Headers& headers = {}) {
    const absl::StatusOr<PageResponse> response = PageClient(port_).Get(path, headers);
    EXPECT_TRUE(response.ok()) << path << ": " << response.status();
    return response.ok() ? *response : PageResponse();
  }
  Json GetJson(const std::string& path) {
    const PageResponse response = Get(path);
    EXPECT_EQ(response.status, 200) << path << ": " << response.body;
    const Json json = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(json.is_discarded()) << path;
    return json;
  }
  std::string Command(const std::vector<std::string>& arguments) {
    const LocalCluster::CliResult result = cluster_->Cli(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  static std::vector<Json> Lines(const std::string& text) {
    std::vector<Json> lines;
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      lines.push_back(Json::parse(std::string(line)));
    }
    return lines;
  }
  static std::string Job(const std::string& steps, const std::string& name, const std::string& lr = "0.1") {
    return absl::StrReplaceAll(kLineJob, {{"steps: 3", "steps: " + steps},
                                          {"name: \"line\"", absl::StrCat("name: \"", name, "\"")},
                                          {"lr: 0.1", "lr: " + lr},
                                          {"output_dir: \"models/line\"", ""}});
  }

  std::unique_ptr<LocalCluster> cluster_;
  int port_ = 0;
};

TEST_F(PageDataTest, AJobThatHasEndedShowsWhatTheCommandPrints) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("40", "line"));
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(120));
  ASSERT_TRUE(end.ok() && end->state() == SUCCEEDED) << end.status();
  ASSERT_EQ(cluster_->WaitUntilIdle(Within(60)), absl::OkStatus());
  const std::string path = "/api/jobs/" + *job;

  const Json described = GetJson(path + "?spec=1")["described"];
  EXPECT_EQ(described, Json::parse(Command({"describe", *job, "-o", "json"})));
  ASSERT_EQ(described["rank"].size(), 2);
  for (const Json& rank : described["rank"]) {
    EXPECT_GT(rank["progress"]["compute_seconds"], 0);
    EXPECT_GT(rank["progress"]["sync_seconds"], 0);
    EXPECT_NE(rank["progress"]["peak_resident_bytes"], "0");
  }
  const Json second_rank = GetJson(path + "?ranks_from=1");
  EXPECT_EQ(second_rank["ranks_total"], 2);
  ASSERT_EQ(second_rank["described"]["rank"].size(), 1);
  EXPECT_EQ(second_rank["described"]["rank"][0], described["rank"][1]);
  double longest = 0;
  for (const Json& rank : described["rank"]) {
    longest = std::max(longest, rank["progress"]["compute_seconds"].get<double>());
  }
  EXPECT_DOUBLE_EQ(second_rank["most"]["compute_seconds"], longest) << "of all ranks";
  EXPECT_TRUE(GetJson(path + "?ranks_from=7")["described"]["rank"].empty());
  EXPECT_EQ(GetJson("/api/jobs")["job"], Json::parse(Command({"ps", "-o", "json"}))["job"]);

  const Json metrics = GetJson(path + "/metrics");
  EXPECT_EQ(metrics["from"], 0);
  EXPECT_EQ(metrics["next"], metrics["total"]);
  EXPECT_EQ(Lines(metrics["text"]), Lines(Command({"metrics", *job})));
  // From the middle of a line on, whole lines come from there.
  const std::string text = metrics["text"];
  const size_t second = text.find('\n') + 1;
  const Json rest = GetJson(absl::StrCat(path, "/metrics?from=", second, "&epoch=", metrics["epoch"].get<uint64_t>()));
  EXPECT_EQ(rest["text"], text.substr(second));
  EXPECT_EQ(rest["next"], metrics["total"]);
  EXPECT_EQ(GetJson(absl::StrCat(path, "/metrics?from=", second, "&epoch=1000000"))["text"], text)
      << "of another attempt it is all";

  EXPECT_EQ(GetJson(path + "/events")["event"], Json(Lines(Command({"events", *job, "-o", "json"}))));
  std::vector<Json> lines;
  for (std::string from = "0";;) {
    const Json log = GetJson(absl::StrCat(path, "/logs?from=", from));
    for (const Json& line : log["line"]) lines.push_back(line);
    if (log["next"] == from) break;
    from = log["next"];
  }
  EXPECT_EQ(lines, Lines(Command({"logs", *job, "-o", "json"})));
  for (const Json& line : GetJson(path + "/logs?rank=1")["line"]) EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(Get(path + "/logs?rank=7").status, 400);

  const PageResponse plan = Get(path + "/plan.html");
  ASSERT_EQ(plan.status, 200) << plan.body;
  EXPECT_THAT(plan.body, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(plan.body, HasSubstr(described["plan_hash"].get<std::string>()));
  EXPECT_THAT(plan.body, Not(HasSubstr("<script")));
  EXPECT_EQ(Get(path + "/plan.html").body, plan.body);
}

// What the page draws of a step is what the whole trace has of it.
TEST_F(PageDataTest, TheTimelineIsThatOfTheTrace) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("4 trace { first_step: 2 steps: 2 }", "traced"));
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::StatusOr<JobSummary> end = cluster_->WaitFor(*job, Within(120));
  ASSERT_TRUE(end.ok() && end->state() == SUCCEEDED) << end.status();
  const std::string file = "trace-2-3.pftrace";
  const auto trace = ReadTrace::Of(Command({"get", *job, file, "-O", "-"}));
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::map<std::string, ReadTrace::Slice> steps;  // by rank
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (const ReadTrace::Slice& slice : trace->slices) {
    if (slice.name != "step 3") continue;
    steps[slice.process] = slice;
    first = std::min(first, slice.begin);
    last = std::max(last, slice.end);
  }
  ASSERT_EQ(steps.size(), 2);

  const Json shown = GetJson(absl::StrCat("/api/jobs/", *job, "/timeline?step=3&file=", file));
  EXPECT_EQ(shown["length_ns"], last - first);
  EXPECT_EQ(shown["slices_left_out"], 0);
  ASSERT_EQ(shown["rank"].size(), 2);
  const auto within = [&](const std::string& rank, int64_t at) {
    return at >= steps[rank].begin && at <= steps[rank].end;
  };
  using Drawn = std::tuple<int64_t, int64_t, int, std::string>;  // begin, length, depth, name
  for (int rank = 0; rank < 2; ++rank) {
    const std::string process = absl::StrCat("rank ", rank);
    std::multiset<Drawn> expected, drawn;
    for (const ReadTrace::Slice& slice : trace->slices) {
      if (slice.process != process || slice.track != steps[process].track) continue;
      if (!within(process, slice.begin) || !within(process, slice.end)) continue;
      expected.emplace(slice.begin - first, slice.end - slice.begin, slice.depth, slice.name);
    }
    EXPECT_EQ(shown["rank"][rank]["rank"], rank);
    for (const Json& slice : shown["rank"][rank]["slice"]) {
      drawn.emplace(slice[0], slice[1], slice[2], shown["names"][slice[4].get<size_t>()]);
    }
    EXPECT_GT(expected.size(), 5);
    EXPECT_EQ(drawn, expected) << process;
  }
  std::multiset<std::tuple<int64_t, int64_t, int64_t>> expected, drawn;  // sent, came, bytes
  for (const ReadTrace::Message& message : trace->messages) {
    if (!within(message.send.process, message.send.begin) || !within(message.receive.process, message.receive.end)) {
      continue;
    }
    expected.emplace(message.send.begin - first, message.receive.end - first, message.send.args.at("bytes"));
  }
  for (const Json& message : shown["message"]) drawn.emplace(message[2], message[3], message[4]);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(drawn, expected);
}

TEST_F(PageDataTest, WhileAJobRunsItsNumbersMove) {
  const absl::StatusOr<std::string> job = cluster_->Submit(Job("1000000", "long"));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto runs = [](const JobSummary& s) { return s.state() == RUNNING && s.progress().step() > 0; };
  ASSERT_TRUE(cluster_->WaitUntil(*job, runs, Within(120)).ok());
  const std::string path = "/api/jobs/" + *job;
  std::set<std::string> steps;
  uint64_t next = 0, epoch = 0, last = 0;
  int grew = 0;
  for (const Deadline deadline = Within(60); !deadline.Expired() && (steps.size() < 3 || grew < 3);) {
    steps.insert(GetJson(path)["described"]["job"]["progress"]["step"].get<std::string>());
    const Json metrics = GetJson(absl::StrCat(path, "/metrics?from=", next, "&epoch=", epoch));
    EXPECT_EQ(metrics["from"], next) << "each line comes once";
    for (const Json& line : Lines(metrics["text"])) {
      if (line["type"] != "step") continue;
      EXPECT_EQ(line["step"], last + 1);
      last = line["step"];
    }
    next = metrics["next"];
    epoch = metrics["epoch"];
    grew += metrics["text"].get<std::string>().empty() ? 0 : 1;
  }
  EXPECT_GE(steps.size(), 3);
  EXPECT_GE(grew, 3);
  const Json workers = GetJson("/api/workers");
  ASSERT_EQ(workers["worker"].size(), 1);
  EXPECT_EQ(workers["worker"][0]["slots"], 2);
  EXPECT_EQ(workers["free_slots"], 0);
  const absl::StatusOr<PageResponse> cancelled =
      PageClient(port_).Send("POST", path + "/cancel",
                             {{"X-Adjoin-Action", "cancel"}, {"Origin", absl::StrCat("http://127.0.0.1:", port_)}}, "");
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->status, 200) << cancelled->body;
  EXPECT_EQ(cluster_->WaitFor(*job, Within(60))->state(), CANCELLED);
}

TEST_F(PageDataTest, SpecsAreComparedAsTheCommandDoes) {
  const absl::StatusOr<std::string> a = cluster_->Submit(Job("3", "a")), b = cluster_->Submit(Job("4", "a", "0.2"));
  ASSERT_TRUE(a.ok() && b.ok());
  const Json difference = GetJson(absl::StrCat("/api/difference?a=", *a, "&b=", *b))["difference"];
  std::set<std::string> paths;
  for (const Json& each : difference) paths.insert(each["path"]);
  for (const char* path : {"train.steps", "train.optimizer.sgd.lr"}) EXPECT_EQ(paths.count(path), 1) << path;
  const std::string printed = Command({"compare", *a, *b});
  for (const std::string& path : paths) {
    if (path == "output_dir") continue;  // each has one of its own
    EXPECT_THAT(printed, HasSubstr(path));
  }
  EXPECT_TRUE(GetJson(absl::StrCat("/api/difference?a=", *a, "&b=", *a))["difference"].empty());
  EXPECT_EQ(Get(absl::StrCat("/api/difference?a=", *a, "&b=job-99")).status, 404);
}

// What a browser is made to ask by a page of another name that has come to mean 127.0.0.1.
TEST_F(PageDataTest, OnlyLoopbackIsAskedForOverPlainHttp) {
  EXPECT_EQ(Get("/api/jobs", {{"Host", absl::StrCat("localhost:", port_)}}).status, 200);
  for (const std::string path : {"/", "/api/jobs", "/assets/app.js"}) {
    EXPECT_EQ(Get(path, {{"Host", absl::StrCat("rebound.example:", port_)}}).status, 403) << path;
  }
}

// ADJOIN_PAGE_JOBS: how many; 10,000 take about a minute.
TEST_F(PageDataTest, ManyJobsComeInPages) {
  const char* text = std::getenv("ADJOIN_PAGE_JOBS");
  const int count = text == nullptr ? 600 : std::atoi(text);
  std::atomic<int> next{0}, wrong{0};
  const auto channel = grpc::CreateChannel(cluster_->address(), grpc::InsecureChannelCredentials());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const std::unique_ptr<Adjoin::Stub> stub = Adjoin::NewStub(channel);
      for (int job = 0; (job = next++) < count;) {
        SubmitRequest request;
        *request.mutable_header() = MakeHeader();
        request.set_spec_source(Job("1000000", "many"));
        SubmitResponse response;
        grpc::ClientContext context;
        if (!stub->Submit(&context, request, &response).ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(wrong, 0);
  for (int i = 0; i < 3; ++i) {
    const absl::Time begin = absl::Now();
    const Json page = GetJson("/api/jobs?page_size=50");
    const absl::Duration took = absl::Now() - begin;
    EXPECT_EQ(page["job"].size(), 50);
    EXPECT_EQ(page["total_jobs"], absl::StrCat(count));
    EXPECT_LT(took, absl::Seconds(10));
    RecordProperty("first_page_ms", static_cast<int>(absl::ToInt64Milliseconds(took)));
  }
  std::set<std::string> seen;
  std::string token;
  do {
    const Json page = GetJson(absl::StrCat("/api/jobs?page_size=200&page_token=", token));
    EXPECT_LE(page["job"].size(), 200);
    for (const Json& job : page["job"]) EXPECT_TRUE(seen.insert(job["job_id"]).second) << job["job_id"];
    token = page["next_page_token"];
  } while (!token.empty() && seen.size() <= static_cast<size_t>(count));
  EXPECT_EQ(seen.size(), count);
  EXPECT_EQ(Get("/api/jobs?page_size=201").status, 400);
  EXPECT_EQ(GetJson("/api/jobs?state=running,starting&page_size=200")["total_jobs"], "1");
}

}  // namespace
}  // namespace adjoin
