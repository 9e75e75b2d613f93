// Connections, and thousands of calls, that are opened and left open, against a real coordinator over TLS: by clients
// without a certificate, and by a user. Everybody else is served meanwhile.
#include <arpa/inet.h>
#include <errno.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/endpoint.h"
#include "base/security/certificates_fixture.h"
#include "base/security/tls.h"
#include "base/unique_fd.h"
#include "proto/protocol.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/leftovers.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Calls with an empty first message that nobody ends, of any methods, over many connections.
class OpenCalls {
 public:
  OpenCalls() : reader_([this] { Read(); }) {}
  ~OpenCalls() {
    for (auto& call : calls_) call->context.TryCancel();
    queue_.Shutdown();
    reader_.join();
  }
  void Add(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
    calls_.push_back(std::make_unique<Call>());
    Call& call = *calls_.back();
    call.stub = std::make_unique<grpc::GenericStub>(channel);
    call.stream = call.stub->PrepareCall(&call.context, method, &queue_);
    call.stream->StartCall(&call);
  }
  size_t size() const { return calls_.size(); }
  size_t sent() const { return sent_; }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericStub> stub;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    bool started = false;
  };
  void Read() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
      Call& call = *static_cast<Call*>(tag);
      if (ok && !call.started) {
        call.started = true;
        call.stream->Write(grpc::ByteBuffer(&empty_, 1), &call);
      } else {
        ++sent_;
      }
    }
  }

  grpc::Slice empty_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::atomic<size_t> sent_{0};
  std::thread reader_;
};

class StreamsTest : public CertificatesTest {
 protected:
  void SetUp() override {
    MakeCerts("certs",
              "--server localhost,127.0.0.1 --client admin root --client user alice --client user bob "
              "--client worker worker-0");
    LocalClusterOptions options;
    options.rank_binary = "worker/testing/fake-rank";
    options.credentials = Credentials("admin-root");
    options.coordinator.flags = Flags("server");
    options.worker[0].flags = Flags("worker-worker-0");
    auto cluster = LocalCluster::Start(1, 2, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  std::vector<std::string> Flags(const std::string& who) const {
    const TlsFiles files = Files(who);
    return {"--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key};
  }
  std::shared_ptr<grpc::ChannelCredentials> Credentials(const std::string& who) const {
    auto credentials = MakeChannelCredentials({"127.0.0.1", 0}, Files(who), "");
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.ok() ? *credentials : nullptr;
  }
  // A client that trusts the coordinator and shows nothing.
  std::shared_ptr<grpc::ChannelCredentials> Anonymous() const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadAll(Files("server").ca);
    return grpc::SslCredentials(options);
  }
  std::shared_ptr<grpc::Channel> Channel(const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(cluster_->address(), credentials, arguments);
  }
  LocalCluster::CliResult CliAs(const std::string& who, const std::vector<std::string>& arguments) {
    std::vector<std::string> all = Flags(who);
    all.insert(all.end(), {"--retry-seconds", "0"});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return cluster_->Cli(all);
  }
  // The shortest of some calls: the machine may do other things, too.
  absl::Duration PsTakes(const std::string& who) {
    absl::Duration shortest = absl::InfiniteDuration();
    for (int i = 0; i < 5; ++i) {
      const absl::Time begin = absl::Now();
      const LocalCluster::CliResult ps = CliAs(who, {"ps"});
      EXPECT_EQ(ps.exit_code, 0) << ps.err;
      EXPECT_THAT(ps.out, HasSubstr("worker-0"));
      shortest = std::min(shortest, absl::Now() - begin);
    }
    return shortest;
  }
  std::string SubmitAs(const std::string& who, const std::string& name, int ranks = 2) {
    const std::string file = folder_ + "/job.textproto";
    std::ofstream(file) << FakeJob(name, ranks);
    const LocalCluster::CliResult result = CliAs(who, {"submit", file});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find_first_of(" \n"));
  }

  // What the coordinator has in memory, without its planners; 0: not found.
  int64_t ResidentBytes() const {
    for (const auto& [pid, command] : ProcessesIn(cluster_->folder())) {
      if (!absl::StrContains(command, "adjoin-coordinator")) continue;
      std::istringstream status(ReadAll(absl::StrCat("/proc/", pid, "/status")));
      int64_t kib = 0;
      for (std::string word; status >> word;) {
        if (word == "VmRSS:" && status >> kib) return kib << 10;
      }
    }
    return 0;
  }

  std::unique_ptr<LocalCluster> cluster_;
};

TEST_F(StreamsTest, ConnectionsThatSayNothingAreClosedAndHoldUpNobody) {
  const auto endpoint = ParseEndpoint(cluster_->address());
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(endpoint->port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << i;
  }
  EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10));
  const timeval time = {60, 0};
  for (const UniqueFd& fd : silent) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
    char byte = 0;
    const ssize_t got = recv(fd.get(), &byte, 1, 0);
    ASSERT_TRUE(got == 0 || (got < 0 && errno == ECONNRESET)) << "it is open still";
  }
  EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10));
}

TEST_F(StreamsTest, EightThousandOfNobodyLeaveUsersServed) {
  const std::string job = SubmitAs("user-alice", "steps-100000x5ms");
  auto running = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.state() == RUNNING; }, Within(60));
  ASSERT_TRUE(running.ok()) << running.status();
  const std::vector<std::string> methods = {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                            "/grpc.health.v1.Health/Watch",
                                            "/adjoin.WorkerLink/UploadArtifact",
                                            "/adjoin.WorkerLink/Connect",
                                            "/adjoin.Adjoin/FollowJob",
                                            "/adjoin.Adjoin/GetArtifact"};
  OpenCalls calls;
  for (int connection = 0; connection < 80; ++connection) {
    auto channel = Channel(Anonymous());
    for (int i = 0; i < 100; ++i) calls.Add(channel, methods[calls.size() % methods.size()]);
  }
  EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10)) << calls.sent() << " of " << calls.size() << " are there";
  const Deadline deadline = Within(60);
  while (calls.sent() < calls.size() && !deadline.Expired()) EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10));
  EXPECT_EQ(calls.sent(), 8000);
  EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10));
  EXPECT_EQ(cluster_->Describe(job)->job().state(), RUNNING);
  EXPECT_EQ(CliAs("user-alice", {"cancel", job}).exit_code, 0);
}

TEST_F(StreamsTest, AUsersOwnStreamsAreBoundedAndOthersFollow) {
  const std::string job = SubmitAs("user-alice", "steps-100000x5ms");
  struct Following {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<FollowJobResponse>> reader;
  };
  std::vector<std::unique_ptr<Adjoin::Stub>> stubs;
  std::vector<std::unique_ptr<Following>> open;
  int let_in = 0;
  std::string refusal;
  for (int i = 0; i < 150; ++i) {
    if (i % 50 == 0) stubs.push_back(Adjoin::NewStub(Channel(Credentials("user-alice"))));
    auto following = std::make_unique<Following>();
    following->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    FollowJobRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_job_id(job);
    following->reader = stubs.back()->FollowJob(&following->context, request);
    FollowJobResponse response;
    if (following->reader->Read(&response)) {
      ++let_in;
      open.push_back(std::move(following));
    } else {
      refusal = following->reader->Finish().error_message();
    }
  }
  EXPECT_EQ(let_in, 100);
  EXPECT_THAT(refusal, HasSubstr("user alice has 100 streams (follow, logs, events, get) open already"));
  EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10));
  const LocalCluster::CliResult events = CliAs("user-bob", {"events", job});
  EXPECT_EQ(events.exit_code, 0) << events.err;
  for (auto& each : open) each->context.TryCancel();
  EXPECT_EQ(CliAs("user-alice", {"cancel", job}).exit_code, 0);
}

TEST_F(StreamsTest, FilesThatAUserDoesNotReadHoldUpNobodyElses) {
  const std::string alices = SubmitAs("user-alice", "succeed");
  ASSERT_EQ(cluster_->WaitFor(alices, Within(60))->state(), SUCCEEDED);
  const std::string bobs = SubmitAs("user-bob", "succeed");
  ASSERT_EQ(cluster_->WaitFor(bobs, Within(60))->state(), SUCCEEDED);
  // A client that takes nothing but the first bytes.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
  const std::unique_ptr<Adjoin::Stub> stub =
      Adjoin::NewStub(grpc::CreateCustomChannel(cluster_->address(), Credentials("user-alice"), arguments));
  GetArtifactRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(alices);
  request.set_name("result.bin");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<ArtifactChunk>>> files;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 40; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    files.push_back(stub->GetArtifact(contexts.back().get(), request));
    if (i < 4) files.back()->WaitForInitialMetadata();  // it comes with the first chunk
  }
  ASSERT_LT(absl::Now() - begin, absl::Seconds(25));
  for (int i = 0; i < 3; ++i) {
    const LocalCluster::CliResult get = CliAs("user-bob", {"get", bobs, "result.bin", "-O", "-"});
    EXPECT_EQ(get.exit_code, 0) << get.err;
    EXPECT_EQ(get.out.size(), 3000000);
  }
  ArtifactChunk chunk;
  EXPECT_FALSE(files[4]->Read(&chunk));
  EXPECT_THAT(files[4]->Finish().error_message(), HasSubstr("4 files from worker-0 are on their way to alice already"));
  for (auto& context : contexts) context->TryCancel();
  for (size_t i = 0; i < files.size(); ++i) {
    if (i != 4) files[i]->Finish();
  }
  const LocalCluster::CliResult own = CliAs("user-alice", {"get", alices, "result.bin", "-O", "-"});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(own.out.size(), 3000000);
}

TEST_F(StreamsTest, LogsThatAUserDoesNotReadTakeLittleMemoryAndHoldUpNobody) {
  constexpr int kLines = 30000;  // of 12 MB
  const std::string job = SubmitAs("user-alice", absl::StrCat("lines-", kLines), 1);
  ASSERT_EQ(cluster_->WaitFor(job, Within(60))->state(), SUCCEEDED);
  const auto expect_all_lines = [&] {
    const LocalCluster::CliResult all = CliAs("admin-root", {"logs", "-f", job});
    EXPECT_EQ(all.exit_code, 0) << all.err;
    EXPECT_GE(std::count(all.out.begin(), all.out.end(), '\n'), kLines);
  };
  expect_all_lines();
  const std::string bobs = SubmitAs("user-bob", "steps-100000x5ms");
  const auto comes_to = [&](uint64_t step) {
    return cluster_->WaitUntil(
        bobs, [step](const JobSummary& s) { return s.progress().step() >= step; }, Within(60));
  };
  ASSERT_TRUE(comes_to(1).ok());
  const int64_t before = ResidentBytes();
  ASSERT_GT(before, 0);

  // A client that takes nothing but the first bytes, in all the streams that a user may have.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
  ReadLogsRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  request.set_follow(true);
  std::vector<std::unique_ptr<Adjoin::Stub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<ReadLogsResponse>>> streams;
  for (int i = 0; i < 100; ++i) {
    if (i % 50 == 0) {
      stubs.push_back(
          Adjoin::NewStub(grpc::CreateCustomChannel(cluster_->address(), Credentials("user-alice"), arguments)));
    }
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    streams.push_back(stubs.back()->ReadLogs(contexts.back().get(), request));
  }
  for (auto& stream : streams) stream->WaitForInitialMetadata();  // it comes with the first lines
  EXPECT_LT(PsTakes("user-alice"), absl::Seconds(10));
  expect_all_lines();
  const auto described = cluster_->Describe(bobs);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_TRUE(comes_to(described->job().progress().step() + 20).ok());
  // All that they could read is 1.2 GB. An answer of 256 KiB takes more as a message and in gRPC's buffers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int64_t kMost = int64_t{600} << 20;  // memory that is freed is kept for a while
#else
  constexpr int64_t kMost = int64_t{200} << 20;
#endif
  EXPECT_LT(ResidentBytes() - before, kMost);
  for (auto& stream : streams) {
    ReadLogsResponse first;
    EXPECT_TRUE(stream->Read(&first));
    EXPECT_GT(first.line_size(), 0);
  }
  for (auto& context : contexts) context->TryCancel();
  for (auto& stream : streams) stream->Finish();
  EXPECT_EQ(CliAs("user-bob", {"cancel", bobs}).exit_code, 0);
}

TEST_F(StreamsTest, AStreamEndsWhenItsTokenIsRevoked) {
  const std::string job = SubmitAs("user-alice", "steps-100000x5ms");
  CreateTokenRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_user("alice");
  request.set_role("user");
  request.set_valid_hours(1);
  CreateTokenResponse token;
  grpc::ClientContext create;
  ASSERT_TRUE(cluster_->stub().CreateToken(&create, request, &token).ok());
  const std::string file = folder_ + "/token";
  std::ofstream(file) << token.token() << "\n";
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  TlsFiles authority = Files("user-alice");
  authority.cert = authority.key = "";
  auto credentials = MakeChannelCredentials({"127.0.0.1", 0}, authority, file);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  auto stub = Adjoin::NewStub(Channel(*credentials));
  FollowJobRequest follow;
  *follow.mutable_header() = MakeHeader();
  follow.set_job_id(job);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  auto reader = stub->FollowJob(&context, follow);
  FollowJobResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_EQ(CliAs("admin-root", {"token", "revoke", token.summary().id()}).exit_code, 0);
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("the call of user alice ends here: the token is not known here"));
  EXPECT_EQ(CliAs("user-alice", {"cancel", job}).exit_code, 0);
}

}  // namespace
}  // namespace adjoin
