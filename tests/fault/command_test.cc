// The command adjoin against a real coordinator: what it changes, what it prints for programs, and that its streams go
// on over a coordinator that was killed.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "proto/protocol.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> objects;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    objects.push_back(nlohmann::json::parse(std::string(line), nullptr, /*allow_exceptions=*/false));
    EXPECT_TRUE(objects.back().is_object()) << line;
  }
  return objects;
}

// Returns this machine's answer to `GET path`.
std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval timeout = {20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    char part[4096];
    for (ssize_t n; (n = recv(fd, part, sizeof(part), 0)) > 0;) answer.append(part, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

class CommandTest : public ::testing::Test {
 protected:
  void StartCluster(int slots, LocalClusterOptions options = {}) {
    options.rank_binary = "worker/testing/fake-rank";
    auto cluster = LocalCluster::Start(1, slots, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  std::string SpecFile(const std::string& name, int ranks, const std::string& more = "") {
    const std::string file = absl::StrCat(cluster_->output_root(), "/", name, ".textproto");
    std::ofstream(file) << FakeJob(name, ranks, more);
    return file;
  }
  // Runs a command that has to succeed, and returns its output.
  std::string Run(const std::vector<std::string>& arguments) {
    LocalCluster::CliResult result = cluster_->Cli(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments[0] << ": " << result.err;
    return result.out;
  }
  std::string Refusal(const std::vector<std::string>& arguments) {
    LocalCluster::CliResult result = cluster_->Cli(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments[0] << ": " << result.out;
    return result.err;
  }
  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-o", "json"});
    return nlohmann::json::parse(Run(arguments), nullptr, false);
  }
  std::unique_ptr<ChildProgram> Start(const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {Runfile("cli/adjoin"), "--coordinator", cluster_->address()});
    auto child = ChildProgram::Start(arguments, {}, cluster_->output_root() + "/" + name);
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  void WaitForState(const std::string& job, JobState state) {
    auto reached = cluster_->WaitUntil(
        job, [&](const JobSummary& s) { return s.state() == state; }, Within(60));
    ASSERT_TRUE(reached.ok()) << reached.status();
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(CommandTest, TheQueueIsChangedAndShown) {
  StartCluster(2);
  EXPECT_EQ(Run({"submit", SpecFile("hang", 2)}), "job-1\n");
  WaitForState("job-1", RUNNING);
  EXPECT_EQ(Json({"submit", SpecFile("succeed", 2)})["job_id"], "job-2");
  Run({"submit", SpecFile("succeed", 2), "--priority", "7", "--set", "name=succeed", "--set", "output_dir=other"});
  nlohmann::json jobs = Json({"ps"})["job"];
  ASSERT_EQ(jobs.size(), 3);
  EXPECT_EQ(jobs[1]["queue_position"], 2) << "job-3 has a higher priority";
  EXPECT_EQ(jobs[2]["queue_position"], 1);
  EXPECT_EQ(jobs[2]["priority"], 7);
  EXPECT_EQ(Json({"describe", "job-3"})["spec"]["output_dir"], "other");

  Run({"hold", "job-3"});
  EXPECT_THAT(Run({"ps"}),
              AllOf(ContainsRegex("job-3 +succeed +pending .held. +7"), ContainsRegex("worker-0 .* ready ")));
  EXPECT_THAT(Run({"ps", "-o", "yaml"}), HasSubstr("state: PENDING"));
  EXPECT_THAT(Run({"cancel", "job-1"}), HasSubstr("job-1 is cancelled"));
  WaitForState("job-2", SUCCEEDED);
  EXPECT_THAT(Run({"ps"}), HasSubstr("pending (held)"));
  Run({"release", "job-3"});
  WaitForState("job-3", SUCCEEDED);

  EXPECT_THAT(Refusal({"retry", "job-3"}), HasSubstr("succeeded"));
  EXPECT_THAT(Refusal({"hold", "job-3"}), HasSubstr("job-3"));
  EXPECT_THAT(Run({"retry", "job-1"}), HasSubstr("job-1"));
  WaitForState("job-1", RUNNING);
  EXPECT_EQ(Json({"cancel", "job-1"})["state"], "CANCELLED");
  EXPECT_EQ(cluster_->Cli({"follow", "job-1"}).exit_code, 103);
  EXPECT_THAT(Run({"events", "job-1"}), AllOf(HasSubstr("TIME "), HasSubstr(" submitted "), HasSubstr("cancelled")));
}

TEST_F(CommandTest, PsShowsTheNewestOfManyJobsAndAllWhereAsked) {
  StartCluster(1);
  for (int i = 1; i <= 53; ++i) {
    ASSERT_TRUE(cluster_->Submit(FakeJob("hang", 2)).ok());  // more ranks than there are slots: it waits
    if (i == 1) continue;
    grpc::ClientContext context;
    CancelJobRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_job_id(absl::StrCat("job-", i));
    CancelJobResponse response;
    ASSERT_TRUE(cluster_->stub().CancelJob(&context, request, &response).ok());
  }
  EXPECT_THAT(Run({"ps"}),
              AllOf(ContainsRegex("job-1 +hang +pending"), Not(HasSubstr("job-2 ")), Not(HasSubstr("job-3 ")),
                    ContainsRegex("job-4 +hang +cancelled"), HasSubstr("job-53 "),
                    HasSubstr("\n2 older jobs that have ended are not shown; `adjoin ps --all` shows all")));
  EXPECT_THAT(Run({"ps", "--all"}), AllOf(HasSubstr("job-2 "), HasSubstr("job-3 "), Not(HasSubstr("not shown"))));
  nlohmann::json few = Json({"ps"}), all = Json({"ps", "--all"});
  EXPECT_EQ(few["job"].size(), 51);
  EXPECT_NE(few["next_page_token"], "");
  EXPECT_EQ(all["job"].size(), 53);
  EXPECT_EQ(all["job"][0]["job_id"], "job-1") << "the one that has not ended";
  EXPECT_EQ(all["job"][1]["job_id"], "job-53") << "then the newest";
  EXPECT_EQ(all["next_page_token"], "");
  EXPECT_EQ(Json({"ps", "--state", "pending,running"})["job"].size(), 1);
  EXPECT_EQ(Json({"ps", "--state", "succeeded"})["total_jobs"], "0");
  EXPECT_EQ(Run({"ps", "-q", "--limit", "2"}), "job-1\njob-53\njob-52\n") << "what has not ended, then the newest";
  EXPECT_THAT(Run({"ps", "--limit", "1"}), HasSubstr("\n51 older jobs that have ended are not shown"));
  EXPECT_EQ(cluster_->Cli({"ps", "-a", "--limit", "2"}).exit_code, 2);
  EXPECT_EQ(cluster_->Cli({"ps", "--limit", "1001"}).exit_code, 2);
  auto watch = Start("watch", {"ps", "-q", "--limit", "1", "-w", "0.1"});
  const Deadline seen = Within(20);
  while (!absl::StartsWith(watch->Output(), "job-1\njob-53\njob-1\njob-53\n") && !seen.Expired()) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_THAT(watch->Output(), HasSubstr("job-1\njob-53\njob-1\njob-53\n")) << watch->Errors();
  watch->Signal(SIGTERM);
  EXPECT_THAT(Run({"ps", "--owner", "nobody"}), HasSubstr("no jobs\n"));
  EXPECT_EQ(cluster_->Cli({"ps", "--state", "over"}).exit_code, 2);
}

TEST_F(CommandTest, AnIdempotencyKeyIsOneJob) {
  StartCluster(1);
  const std::string file = SpecFile("succeed", 1);
  EXPECT_FALSE(Json({"submit", file, "--idempotency-key", "k"})["existed"].get<bool>());
  nlohmann::json again = Json({"submit", file, "--idempotency-key", "k"});
  EXPECT_EQ(again["job_id"], "job-1");
  EXPECT_TRUE(again["existed"].get<bool>());
  EXPECT_THAT(Refusal({"submit", file, "--idempotency-key", "k", "--set", "seed=2"}), HasSubstr("another spec"));
  EXPECT_EQ(Run({"submit", file}), "job-2\n") << "without a key each is a job of its own";
  EXPECT_THAT(Refusal({"submit", file, "--set", "train.bach=1"}),
              HasSubstr("--set train.bach: there is no field 'bach'"));
  EXPECT_THAT(Refusal({"submit", file, "--set", "train.batch=0"}), HasSubstr("succeed.textproto with --set:"));
  EXPECT_THAT(Run({"plan", file, "--set", "train.batch=32"}), HasSubstr("a batch of 32 samples"));
  EXPECT_EQ(Json({"plan", file, "--set", "train.batch=32"})["program"][0]["batch"], "32");
  const std::vector<std::string> untrained = {file, "--unset", "train", "--set", "kind=EVALUATE"};
  for (const char* command : {"plan", "submit"}) {
    std::vector<std::string> arguments = untrained;
    arguments.insert(arguments.begin(), command);
    EXPECT_THAT(Refusal(arguments), HasSubstr("succeed.textproto with --unset and --set")) << command;
  }
  EXPECT_THAT(Refusal({"submit", file, "--unset", "restart"}), HasSubstr("--unset restart: the job has none"));
  EXPECT_EQ(Json({"ps"})["job"].size(), 2);
}

TEST_F(CommandTest, IncludedFilesAreReadBeforeTheJobIsSent) {
  StartCluster(1);
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(cluster_->output_root(), "/", name)) << text;
    return absl::StrCat(cluster_->output_root(), "/", name);
  };
  const std::string late = "layer { name: \"late\" input: \"nowhere\" linear { out_features: 1 } }";
  file("base.textproto", FakeJob("succeed", 1));
  file("wrong-base.textproto", FakeJob("succeed", 1, late));
  const std::string job = file("job.textproto", "include: \"base.textproto\" output_dir: \"included\"");
  EXPECT_EQ(Run({"submit", job}), "job-1\n");
  WaitForState("job-1", SUCCEEDED);
  const nlohmann::json spec = Json({"describe", "job-1"})["spec"];
  EXPECT_EQ(spec["name"], "succeed");
  EXPECT_EQ(spec["output_dir"], "included");
  EXPECT_EQ(spec["include"].size(), 0);

  const std::string wrong = file("wrong.textproto", "include: \"wrong-base.textproto\"");
  for (const char* command : {"plan", "submit"}) {
    EXPECT_THAT(Refusal({command, wrong}), ContainsRegex("/wrong-base.textproto:[0-9]+:[0-9]+: layer 2 .late.: "))
        << command;
    EXPECT_THAT(Refusal({command, file("none.textproto", "\ninclude: \"none\"")}),
                HasSubstr("none.textproto:2:1: include \"none\": "));
  }
  const auto sent = cluster_->Submit(absl::StrCat("include: \"base.textproto\"\n", FakeJob("succeed", 1)));
  EXPECT_THAT(std::string(sent.status().message()), HasSubstr(":1:1: include \"base.textproto\" is still in the job"));
}

TEST_F(CommandTest, StreamsGoOnOverADeadCoordinatorAndOverAttempts) {
  StartCluster(2);
  Run({"submit", SpecFile("steps-2000x10ms-kill-1-at-100-once", 2, "restart { max_restarts: 1 }")});
  auto follow = Start("follow", {"follow", "job-1"});
  auto logs = Start("logs", {"logs", "job-1", "-f"});
  auto events = Start("events", {"events", "job-1", "-f", "-o", "json"});
  Deadline connected = Within(60);
  for (ChildProgram* each : {follow.get(), logs.get(), events.get()}) {
    while (each->Output().empty() && !connected.Expired()) absl::SleepFor(absl::Milliseconds(10));
    ASSERT_FALSE(each->Output().empty()) << each->Errors();
  }
  for (int outage = 0; outage < 2; ++outage) {
    WaitForState("job-1", RUNNING);
    ASSERT_TRUE(cluster_->KillCoordinator().ok());
    ASSERT_TRUE(cluster_->StartCoordinator().ok());
  }
  for (ChildProgram* each : {follow.get(), logs.get(), events.get()}) {
    auto code = each->Wait(Within(90));
    ASSERT_TRUE(code.ok()) << code.status() << each->Output() << each->Errors();
    EXPECT_EQ(*code, 0) << each->Errors();
    EXPECT_THAT(each->Errors(), HasSubstr("does not answer, trying again for 30s"));
  }
  EXPECT_THAT(follow->Output(), HasSubstr("job-1 succeeded"));
  EXPECT_EQ(logs->Output(), Run({"logs", "job-1"})) << "each line once, and all of them";
  for (const char* rank : {"rank 0: rank 0 does", "rank 1: rank 1 does"}) {
    std::vector<std::string> parts = absl::StrSplit(logs->Output(), rank);
    EXPECT_EQ(parts.size(), 3) << "once in each attempt: " << logs->Output();
  }
  EXPECT_THAT(logs->Output(), HasSubstr("\n--- attempt "));
  EXPECT_EQ(events->Output(), Run({"events", "job-1", "-o", "json"}));
  std::vector<nlohmann::json> seen = JsonLines(events->Output());
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front()["kind"], "submitted");
  EXPECT_EQ(seen.back()["kind"], "succeeded");

  EXPECT_THAT(Run({"logs", "job-1", "--rank", "1-1"}), AllOf(HasSubstr("rank 1:"), Not(HasSubstr("rank 0:"))));
  EXPECT_THAT(Refusal({"logs", "job-1", "--rank", "9"}), HasSubstr("there is no rank 9: job-1 has 2, counted from 0"));
  EXPECT_EQ(Run({"logs", "job-1", "--since", "2100-01-01"}), "");
  EXPECT_EQ(Run({"logs", "job-1", "--since", "1h"}), logs->Output());
  std::set<std::string> attempts;
  for (const nlohmann::json& line : JsonLines(Run({"logs", "job-1", "-o", "json"}))) attempts.insert(line["epoch"]);
  EXPECT_EQ(attempts.size(), 2);
  EXPECT_THAT(Run({"describe", "job-1"}), ContainsRegex("attempt +[0-9]+ .2 so far."));
  EXPECT_THAT(Run({"describe", "job-1"}), ContainsRegex("restarts +1, of which 1 counts: 1 after rank_lost"));
}

TEST_F(CommandTest, MetricsAndLogsAreThereForPrograms) {
  LocalClusterOptions options;
  options.coordinator_flags = {"--metrics-listen", "127.0.0.1:0", "--log-format", "json"};
  options.worker_flags = {"--log-format", "json"};
  StartCluster(2, options);
  Run({"submit", SpecFile("hang", 2)});
  Run({"submit", SpecFile("succeed", 1)});
  WaitForState("job-1", RUNNING);
  int port = 0;
  for (const nlohmann::json& line : JsonLines(ReadFile(cluster_->folder() + "/coordinator-log.err"))) {
    EXPECT_EQ(line["program"], "adjoin-coordinator");
    const std::string message = line["message"];
    if (message.find("metrics on port ") == 0) port = std::stoi(message.substr(16));
  }
  EXPECT_FALSE(JsonLines(ReadFile(cluster_->folder() + "/worker-0-log.err")).empty());
  ASSERT_GT(port, 0);
  const std::string text = HttpGet(port, "/metrics");
  for (const char* line : {"adjoin_jobs{state=\"running\"} 1", "adjoin_jobs{state=\"pending\"} 1",
                           "adjoin_queue_length 1", "adjoin_workers{state=\"ready\"} 1", "adjoin_slots 2",
                           "adjoin_slots_free 0", "adjoin_submits_total 2", "adjoin_job_step{job=\"job-1\"} "}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line));
  }
  EXPECT_THAT(text, Not(HasSubstr("adjoin_store_commit_seconds_count 0\n")));
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
