// Lost requests, lost responses, delays and streams that break, on every RPC: each job exists once and ends
// as its spec demands, and users read all of its results.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/test_seed.h"
#include "cli/coordinator_client.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"
#include "tests/harness/rpc_faults.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNodes = 1;  // whose uploads and streams are enough for each kind of fault
constexpr int kRounds = 6;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

std::vector<std::string> MethodsOf(const std::string& service) {
  std::vector<std::string> methods;
  const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
  for (int i = 0; descriptor != nullptr && i < descriptor->method_count(); ++i) {
    methods.push_back(absl::StrCat("/", service, "/", descriptor->method(i)->name()));
  }
  return methods;
}

// For calls that the client must not repeat by itself.
absl::Status Insist(const std::function<absl::Status()>& call) {
  absl::Status status;
  for (int i = 0; i < 8; ++i) {
    status = call();
    if (status.code() != absl::StatusCode::kUnavailable && status.code() != absl::StatusCode::kDataLoss) break;
  }
  return status;
}

class RpcFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seed_ = TestSeed();
    faults_ = std::make_unique<RpcFaults>(seed_);
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    options.worker_binary = "tests/fault/faulty-worker";
    options.coordinator_flags = ImpatientCoordinator(/*dead_after_seconds=*/6);
    for (int node = 0; node < kNodes; ++node) {
      report_[node] = absl::StrCat(::testing::TempDir(), "/rpc-report-", node);
      options.worker[node].environment = {absl::StrCat("ADJOIN_RPC_SEED=", seed_ + node),
                                          absl::StrCat("ADJOIN_RPC_REPORT=", report_[node])};
    }
    auto started = LocalCluster::Start(kNodes, /*slots_per_node=*/2, options);
    ASSERT_TRUE(started.ok()) << started.status();
    cluster_ = *std::move(started);
    ClientOptions client;
    client.address = cluster_->address();
    client_ = std::make_unique<CoordinatorClient>(std::move(client), faults_->MakeFactories());
  }

  std::string Submit(const std::string& name, int ranks, const std::string& more = "") {
    absl::StatusOr<SubmitResponse> response = client_->Submit({.spec_source = FakeJob(name, ranks, more),
                                                               .spec_file = "faults.textproto",
                                                               .priority = 0,
                                                               .idempotency_key = ""});
    EXPECT_TRUE(response.ok()) << response.status();
    if (!response.ok()) return "";
    EXPECT_TRUE(submitted_.insert(response->job_id()).second) << response->job_id() << " was submitted twice";
    return response->job_id();
  }
  JobState Follow(const std::string& job) {
    JobState state = JOB_STATE_UNSPECIFIED;
    absl::Status status = client_->FollowJob(job, [&](const JobSummary& summary) { state = summary.state(); });
    EXPECT_TRUE(status.ok()) << job << ": " << status;
    return state;
  }

  // A job that succeeds; all that can be read of it is read, and complete.
  void Succeeds(int round) {
    const std::string job = Submit(absl::StrCat("steps-20x10ms-s", round), 2, "restart { max_restarts: 1000 }");
    EXPECT_EQ(Follow(job), SUCCEEDED);
    absl::StatusOr<DescribeJobResponse> described = client_->DescribeJob(job);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->job().attempts(), 1u) << "a stream that breaks ends no attempt";
    std::map<uint32_t, int> lines;
    absl::Status logs = client_->ReadLogs({.job = job, .ranks = {}, .follow = true, .since_unix_ms = 0},
                                          [&](const LogLine& line) { ++lines[line.rank()]; });
    EXPECT_TRUE(logs.ok()) << logs;
    EXPECT_EQ(lines, (std::map<uint32_t, int>{{0, 1}, {1, 1}}));
    std::vector<std::string> kinds;
    absl::Status events =
        client_->ReadEvents(job, /*follow=*/true, [&](const JobEvent& e) { kinds.push_back(e.kind()); });
    EXPECT_TRUE(events.ok()) << events;
    for (const char* kind : {"submitted", "started", "running", "succeeded"}) {
      EXPECT_EQ(std::count(kinds.begin(), kinds.end(), kind), 1) << kind;
    }
    std::string result;
    absl::Status got = Insist([&] {
      result.clear();
      return client_->GetArtifact(job, "result.bin", [&](const std::string& data) {
        result += data;
        return absl::OkStatus();
      });
    });
    EXPECT_TRUE(got.ok()) << got;
    EXPECT_EQ(result.size(), 3000000u);
  }

  void IsHeldCancelledAndRemoved(int round) {
    const std::string job = Submit(absl::StrCat("steps-100000x10ms-c", round), 64);  // more than there are slots
    // It does not run, so there is no step to trace, whatever happens to the call.
    const absl::StatusOr<std::string> traced = client_->TraceJob(job, 1, absl::StrCat("trace-", round));
    EXPECT_EQ(traced.status().code(), absl::StatusCode::kFailedPrecondition) << traced.status();
    EXPECT_EQ(client_->HoldJob(job), absl::OkStatus());
    EXPECT_EQ(client_->ReleaseJob(job), absl::OkStatus());
    absl::StatusOr<JobState> state = client_->CancelJob(job);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(*state, CANCELLED);
    const absl::StatusOr<RemoveJobResponse> removed = client_->RemoveJob(job, /*files=*/false);
    EXPECT_TRUE(removed.ok()) << removed.status();
    submitted_.erase(job);
  }

  void FailsAndIsTriedAgain(int round) {
    const std::string job = Submit(absl::StrCat("steps-20x10ms-fail-0-at-2-f", round), 1);
    EXPECT_EQ(Follow(job), FAILED);
    absl::StatusOr<JobState> state = client_->RetryJob(job);
    EXPECT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(Follow(job), FAILED);
    absl::StatusOr<DescribeJobResponse> described = client_->DescribeJob(job);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_GE(described->job().attempts(), 2u);
  }

  void TokensAreMadeAndRevoked(int round) {
    std::string id;
    absl::Status made = Insist([&] {
      auto token = client_->CreateToken(absl::StrCat("user-", round), "viewer", 1);
      if (token.ok()) id = token->summary().id();
      return token.status();
    });
    ASSERT_TRUE(made.ok()) << made;
    auto tokens = client_->ListTokens();
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    const auto is_it = [&](const TokenSummary& token) { return token.id() == id; };
    EXPECT_EQ(std::count_if(tokens->token().begin(), tokens->token().end(), is_it), 1);
    EXPECT_EQ(client_->RevokeToken(id), absl::OkStatus());
    tokens = client_->ListTokens();
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_EQ(std::count_if(tokens->token().begin(), tokens->token().end(), is_it), 0);
  }

  void NodesAreRevokedAndNoneIsLetIn(int round) {
    const absl::Status made =
        Insist([&] { return client_->CreateJoinToken("", /*uses=*/1, /*valid_hours=*/1).status(); });
    EXPECT_EQ(made.code(), absl::StatusCode::kFailedPrecondition) << "it issues no certificates: " << made;
    const absl::StatusOr<RevokeNodeResponse> revoked = client_->RevokeNode(absl::StrCat("node-", round));
    EXPECT_TRUE(revoked.ok()) << revoked.status();
  }

  void RatesAreRead() {
    const auto rates = client_->ReadRates();
    ASSERT_TRUE(rates.ok()) << rates.status();
    EXPECT_EQ(rates->node_size(), 0) << "no daemon has measured";
  }

  uint64_t seed_ = 0;
  std::unique_ptr<RpcFaults> faults_;
  std::unique_ptr<LocalCluster> cluster_;
  std::unique_ptr<CoordinatorClient> client_;
  std::map<int, std::string> report_;
  std::set<std::string> submitted_;
};

TEST_F(RpcFaultsTest, EveryMethodSurvivesEveryFault) {
  for (int round = 0; round < kRounds; ++round) {
    Succeeds(round);
    IsHeldCancelledAndRemoved(round);
    FailsAndIsTriedAgain(round);
    TokensAreMadeAndRevoked(round);
    NodesAreRevokedAndNoneIsLetIn(round);
    RatesAreRead();
  }
  absl::StatusOr<ListJobsResponse> list;
  for (int i = 0; i < 4; ++i) list = client_->ListJobs();
  ASSERT_TRUE(list.ok()) << list.status();
  std::set<std::string> listed;
  for (const JobSummary& job : list->job()) EXPECT_TRUE(listed.insert(job.job_id()).second) << job.job_id();
  EXPECT_EQ(listed, submitted_);
  EXPECT_THAT(TwiceAtOnce(cluster_->output_root()), IsEmpty());
  EXPECT_EQ(cluster_->WaitUntilIdle(Within(30)), absl::OkStatus());
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());

  // Nothing was left out: neither a method of the services, nor a kind of fault.
  auto injected = faults_->Injected();
  const std::vector<std::string> methods = MethodsOf("adjoin.Adjoin");
  ASSERT_THAT(methods, ::testing::Not(IsEmpty()));
  for (const std::string& method : methods) {
    for (RpcFault fault : kRpcFaults) EXPECT_GT(injected[method][fault], 0) << method << ": " << ToString(fault);
  }
  const std::string reports = ReadFile(report_[0]);
  // A daemon joins over TLS only; a join whose answer is lost is in coordinator/services:node_certificates_test.
  const std::set<std::string> joins = {"/adjoin.WorkerLink/ReadAuthorities", "/adjoin.WorkerLink/JoinNode",
                                       "/adjoin.WorkerLink/RenewCertificate"};
  for (const std::string& method : MethodsOf("adjoin.WorkerLink")) {
    if (joins.count(method) > 0) continue;
    for (RpcFault fault : kRpcFaults) EXPECT_THAT(reports, HasSubstr(absl::StrCat(method, " ", ToString(fault), "\n")));
  }
}

}  // namespace
}  // namespace adjoin
