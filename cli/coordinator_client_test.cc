#include "cli/coordinator_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "proto/grpc_status.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "Socket closed");  // as gRPC itself reports it

// Breaks every stream after a few messages, and the answer to the first call of each kind after its work is done.
class BreakingCoordinator : public Adjoin::Service {
 public:
  grpc::Status Submit(grpc::ServerContext*, const SubmitRequest* request, SubmitResponse* response) override {
    keys.insert(request->idempotency_key());
    response->set_job_id(absl::StrCat("job-", keys.size()));
    return submits++ == 0 ? kBroken : grpc::Status::OK;
  }
  grpc::Status RetryJob(grpc::ServerContext*, const RetryJobRequest*, RetryJobResponse*) override {
    return retries++ == 0 ? kBroken : ToGrpc(absl::FailedPreconditionError("job-1 has not ended"));
  }
  grpc::Status DescribeJob(grpc::ServerContext*, const DescribeJobRequest*, DescribeJobResponse* response) override {
    response->mutable_job()->set_state(PENDING);
    return grpc::Status::OK;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const ListJobsRequest*, ListJobsResponse*) override {
    ++lists;
    return ToGrpc(absl::UnavailableError("the disk is full"));
  }
  // Forty lines, three in a message, positions 10 apart; of every call only two messages.
  grpc::Status ReadLogs(grpc::ServerContext*, const ReadLogsRequest* request,
                        grpc::ServerWriter<ReadLogsResponse>* writer) override {
    references.push_back(request->job_id());
    int next = static_cast<int>(request->from() / 10);
    for (int message = 0; message < 2; ++message) {
      ReadLogsResponse response;
      for (int end = std::min(next + 3, 40); next < end; ++next) response.add_line()->set_text(absl::StrCat(next));
      response.set_next(next * 10);
      response.set_job_id("job-1");
      writer->Write(response);
      if (next == 40) return grpc::Status::OK;
    }
    return kBroken;
  }
  grpc::Status ReadEvents(grpc::ServerContext*, const ReadEventsRequest* request,
                          grpc::ServerWriter<ReadEventsResponse>* writer) override {
    // An old coordinator that repeats what was read already.
    for (uint64_t i = request->after() < 2 ? 1 : request->after() - 1; i <= 12; ++i) {
      ReadEventsResponse response;
      response.add_event()->set_sequence(i);
      response.mutable_event(0)->set_job_id("job-1");
      writer->Write(response);
      if (i % 5 == 0 && i > request->after()) return grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone");
    }
    return grpc::Status::OK;
  }
  grpc::Status FollowJob(grpc::ServerContext* context, const FollowJobRequest*,
                         grpc::ServerWriter<FollowJobResponse>* writer) override {
    FollowJobResponse response;
    response.mutable_job()->set_state(follows++ < 3 ? RUNNING : SUCCEEDED);
    writer->Write(response);
    if (endless && response.job().state() == SUCCEEDED) {
      while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    }
    return response.job().state() == SUCCEEDED ? grpc::Status::OK : kBroken;
  }

  std::set<std::string> keys;
  std::vector<std::string> references;
  std::atomic<int> submits{0}, retries{0}, lists{0}, follows{0};
  std::atomic<bool> endless{false};
};

class CoordinatorClientTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }
  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  ClientOptions Options(absl::Duration retry = absl::Seconds(30)) {
    ClientOptions options;
    options.address = absl::StrCat("127.0.0.1:", port_);
    options.retry = retry;
    options.notice = [this](const std::string& text) { notices_.push_back(text); };
    return options;
  }

  BreakingCoordinator service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> notices_;
};

TEST_F(CoordinatorClientTest, ASubmitWhoseAnswerWasLostIsTheSameSubmit) {
  CoordinatorClient client(Options());
  auto submitted = client.Submit({});
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_EQ(service_.submits, 2);
  EXPECT_EQ(service_.keys.size(), 1);
  EXPECT_FALSE(service_.keys.begin()->empty());
  ASSERT_EQ(notices_.size(), 1);
  EXPECT_THAT(notices_[0], HasSubstr("does not answer, trying again for 30s"));
  ASSERT_TRUE(client.Submit({}).ok());
  EXPECT_EQ(service_.keys.size(), 2) << "the next one is another";
  Submission named;
  named.idempotency_key = "nightly";
  ASSERT_TRUE(client.Submit(named).ok());
  EXPECT_EQ(service_.keys.count("nightly"), 1);
}

TEST_F(CoordinatorClientTest, ARetryWhoseAnswerWasLostIsNoError) {
  CoordinatorClient client(Options());
  EXPECT_EQ(client.RetryJob("job-1").value(), PENDING);
  EXPECT_EQ(client.RetryJob("job-1").status().message(), "job-1 has not ended");
}

TEST_F(CoordinatorClientTest, AnAnswerIsNoOutage) {
  CoordinatorClient client(Options());
  EXPECT_EQ(client.ListJobs().status().message(), "the disk is full");
  EXPECT_EQ(service_.lists, 1);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(CoordinatorClientTest, LinesAndEventsComeOnceEachOverBrokenStreams) {
  CoordinatorClient client(Options());
  std::vector<int> lines;
  LogQuery query;
  query.job = "a-name";
  auto on_line = [&](const LogLine& line) { EXPECT_TRUE(absl::SimpleAtoi(line.text(), &lines.emplace_back())); };
  ASSERT_EQ(client.ReadLogs(query, on_line), absl::OkStatus());
  std::vector<int> expected(40);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(lines, expected);
  ASSERT_EQ(service_.references.size(), 7);
  EXPECT_EQ(service_.references.front(), "a-name");
  EXPECT_EQ(service_.references.back(), "job-1") << "the name may mean another job by now";

  std::vector<uint64_t> events, all(12);
  std::iota(all.begin(), all.end(), 1);
  ASSERT_EQ(client.ReadEvents("job-1", true, [&](const JobEvent& event) { events.push_back(event.sequence()); }),
            absl::OkStatus());
  EXPECT_EQ(events, all);
}

TEST_F(CoordinatorClientTest, FollowingGoesOnUntilAFinalState) {
  CoordinatorClient client(Options());
  JobState last = PENDING;
  ASSERT_EQ(client.FollowJob("job-1", [&](const JobSummary& job) { last = job.state(); }), absl::OkStatus());
  EXPECT_EQ(last, SUCCEEDED);
  EXPECT_EQ(service_.follows, 4);
}

TEST_F(CoordinatorClientTest, ACallWaitsForACoordinatorThatStarts) {
  Stop();
  ClientOptions options = Options();
  options.notice = [this](const std::string&) { Start(); };
  CoordinatorClient client(options);
  EXPECT_TRUE(client.Submit({}).ok());
}

TEST_F(CoordinatorClientTest, WithoutRetriesAFailedCallHasFailed) {
  Stop();
  CoordinatorClient client(Options(absl::ZeroDuration()));
  absl::Status status = client.ListJobs().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot reach the coordinator at 127.0.0.1:"));
  EXPECT_TRUE(notices_.empty());
  CoordinatorClient patient(Options(absl::Milliseconds(300)));
  EXPECT_EQ(patient.ListJobs().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(notices_.size(), 1);
}

TEST_F(CoordinatorClientTest, CancelEndsAStreamAndAlsoTheWaitForACoordinator) {
  service_.endless = true;
  CoordinatorClient client(Options(absl::Hours(1)));
  std::thread canceller;
  EXPECT_EQ(client
                .FollowJob("job-1",
                           [&](const JobSummary& job) {
                             if (job.state() == SUCCEEDED) canceller = std::thread([&] { client.Cancel(); });
                           })
                .code(),
            absl::StatusCode::kCancelled);
  canceller.join();
  Stop();
  ClientOptions options = Options(absl::Hours(1));
  absl::Notification waits;
  options.notice = [&](const std::string&) { waits.Notify(); };
  CoordinatorClient waiting(options);
  canceller = std::thread([&] {
    waits.WaitForNotificationWithTimeout(absl::Seconds(60));
    waiting.Cancel();
  });
  EXPECT_EQ(waiting.FollowJob("job-1", [](const JobSummary&) {}).code(), absl::StatusCode::kCancelled);
  canceller.join();
}

// Does not end the first call that hangs, nor that stream after its first message, and tells then that it is revoked.
class HangingCoordinator final : public Adjoin::Service {
 public:
  grpc::Status ListJobs(grpc::ServerContext* context, const ListJobsRequest*, ListJobsResponse*) override {
    peers.push_back(context->peer());
    return grpc::Status::OK;
  }
  grpc::Status CreateToken(grpc::ServerContext* context, const CreateTokenRequest*, CreateTokenResponse*) override {
    peers.push_back(context->peer());
    return grpc::Status::OK;
  }
  grpc::Status Submit(grpc::ServerContext* context, const SubmitRequest* request, SubmitResponse* response) override {
    keys.insert(request->idempotency_key());
    response->set_job_id("job-1");
    return End(context);
  }
  grpc::Status FollowJob(grpc::ServerContext* context, const FollowJobRequest*,
                         grpc::ServerWriter<FollowJobResponse>* writer) override {
    FollowJobResponse response;
    response.mutable_job()->set_state(to_hang ? RUNNING : SUCCEEDED);
    writer->Write(response);
    return End(context);
  }
  grpc::Status GetArtifact(grpc::ServerContext* context, const GetArtifactRequest*,
                           grpc::ServerWriter<ArtifactChunk>* writer) override {
    ArtifactChunk chunk;
    chunk.set_total_bytes(1000);
    chunk.set_data("abc");
    writer->Write(chunk);
    return End(context);
  }

  std::vector<std::string> peers;  // of the calls
  std::set<std::string> keys;
  std::atomic<bool> to_hang{true}, is_revoked{false};

 private:
  grpc::Status End(grpc::ServerContext* context) {
    peers.push_back(context->peer());
    if (!to_hang.exchange(false)) return grpc::Status::OK;
    is_revoked = true;
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::CANCELLED;
  }
};

class RevokedServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    options_.address = absl::StrCat("127.0.0.1:", port);
    // As if the server had another certificate on the next connection.
    options_.check_server = [this](Deadline::Clock::time_point) {
      return service_.is_revoked.exchange(false) ? absl::UnauthenticatedError("its certificate was revoked")
                                                 : absl::OkStatus();
    };
  }
  void ExpectTwoConnections() {
    ASSERT_EQ(service_.peers.size(), 2);
    EXPECT_NE(service_.peers[0], service_.peers[1]);
  }

  HangingCoordinator service_;
  ClientOptions options_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(RevokedServerTest, AStreamGoesOnByAnotherConnection) {
  CoordinatorClient client(options_);
  JobState last = PENDING;
  EXPECT_EQ(client.FollowJob("job-1", [&](const JobSummary& job) { last = job.state(); }), absl::OkStatus());
  EXPECT_EQ(last, SUCCEEDED);
  ExpectTwoConnections();
}

TEST_F(RevokedServerTest, ASubmitThatWaitsIsTheSameSubmitByAnotherConnection) {
  CoordinatorClient client(options_);
  const auto submitted = client.Submit({});
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_EQ(submitted->job_id(), "job-1");
  EXPECT_EQ(service_.keys.size(), 1);
  ExpectTwoConnections();
}

TEST_F(RevokedServerTest, NothingBeginsByAConnectionToIt) {
  service_.to_hang = false;
  const auto streams = [](CoordinatorClient& client) { return client.FollowJob("job-1", [](const JobSummary&) {}); };
  const auto calls = [](CoordinatorClient& client) { return client.ListJobs().status(); };
  const auto calls_once = [](CoordinatorClient& client) { return client.CreateToken("bob", "user", 1).status(); };
  for (const std::function<absl::Status(CoordinatorClient&)>& begin :
       std::vector<std::function<absl::Status(CoordinatorClient&)>>{streams, calls, calls_once}) {
    service_.peers.clear();
    CoordinatorClient client(options_);
    ASSERT_TRUE(client.ListJobs().ok());
    service_.is_revoked = true;
    EXPECT_EQ(begin(client), absl::OkStatus());
    ExpectTwoConnections();
  }
}

TEST_F(RevokedServerTest, AFileThatIsHalfThereIsNotGoneOnWith) {
  CoordinatorClient client(options_);
  const absl::Status status = client.GetArtifact("job-1", "f", [](const std::string&) { return absl::OkStatus(); });
  EXPECT_EQ(status, absl::UnauthenticatedError(absl::StrCat(options_.address, ": its certificate was revoked")));
  EXPECT_EQ(service_.peers.size(), 1);
}

// A coordinator of a release that checks nothing.
class RawCoordinator final : public Adjoin::Service {
 public:
  grpc::Status ListJobs(grpc::ServerContext*, const ListJobsRequest*, ListJobsResponse* response) override {
    response->add_job()->set_name("a\x1b[2J\nb");
    response->add_worker()->set_name("w\xc2\x9b");
    return grpc::Status::OK;
  }
  grpc::Status ReadLogs(grpc::ServerContext*, const ReadLogsRequest*,
                        grpc::ServerWriter<ReadLogsResponse>* writer) override {
    ReadLogsResponse response;
    response.add_line()->set_text("\x1b]0;title\x07 step 1");
    writer->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const CancelJobRequest*, CancelJobResponse*) override {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no job '\x1b[2J\n'", "x");
  }
};

TEST(CoordinatorClientTextTest, NothingRawComesToTheTerminal) {
  RawCoordinator service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.address = absl::StrCat("127.0.0.1:", port);
  CoordinatorClient client(options);
  const auto list = client.ListJobs();
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->job(0).name(), "a\\x1b[2J\\nb");
  EXPECT_EQ(list->worker(0).name(), "w\\x9b");
  std::string text;
  EXPECT_TRUE(client.ReadLogs({}, [&](const LogLine& line) { text += line.text(); }).ok());
  EXPECT_EQ(text, "\\x1b]0;title\\x07 step 1");
  EXPECT_EQ(client.CancelJob("x").status().message(), "there is no job '\\x1b[2J\\n'");
}

}  // namespace
}  // namespace adjoin
