// Workers that join with a token, with real processes: they get a certificate, renew it while a job runs, and lose it.
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/security/raw_call.h"
#include "proto/coordinator.pb.h"
#include "tests/fault/fake_jobs.h"
#include "tests/fault/security_fixture.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class JoinTest : public SecurityTest {
 protected:
  // Only the coordinator, which issues certificates.
  void StartIssuing(const std::string& hours) {
    const TlsFiles server = Files("server");
    StartCluster(0, /*real_ranks=*/false, {},
                 {"--issue-cert", server.ca, "--issue-key", folder_ + "/certs/ca.key", "--certificate-hours", hours});
  }
  // The file with a new token.
  std::string TokenFor(const std::string& node, int uses = 1) {
    const LocalCluster::CliResult made =
        Cli("admin-root", {"token", "join", "--for", node, "--uses", absl::StrCat(uses)});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    const size_t at = made.out.find("adjjoin_");
    EXPECT_NE(at, std::string::npos) << made.out;
    if (at == std::string::npos) return "";
    return WriteFile(absl::StrCat("token-", ++tokens_), made.out.substr(at, made.out.find_first_of(" \n", at) - at));
  }
  std::vector<std::string> Command(const std::string& name, const std::string& token_file,
                                   const std::string& state = "") {
    return {Runfile("worker/adjoin-worker"),
            "--coordinator",
            cluster_->address(),
            "--name",
            name,
            "--slots",
            "2",
            "--memory",
            "1TiB",
            "--state-dir",
            absl::StrCat(folder_, "/state-", state.empty() ? name : state),
            "--rank-binary",
            Runfile("worker/testing/fake-rank"),
            "--data-root",
            cluster_->data_root(),
            "--output-root",
            cluster_->output_root(),
            "--join",
            token_file};
  }
  std::unique_ptr<ChildProgram> Daemon(const std::string& name, const std::string& token_file) {
    auto daemon = ChildProgram::Start(Command(name, token_file), {}, absl::StrCat(folder_, "/daemon-", ++daemons_));
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    return daemon.ok() ? *std::move(daemon) : nullptr;
  }
  static void ExpectSays(ChildProgram& daemon, const std::string& text, int times = 1, double seconds = 240) {
    const Deadline deadline = Within(seconds);
    const auto count = [&] {
      const std::string said = daemon.Errors();
      int found = 0;
      for (size_t at = said.find(text); at != std::string::npos; at = said.find(text, at + 1)) ++found;
      return found;
    };
    while (count() < times && !deadline.Expired()) absl::SleepFor(absl::Milliseconds(50));
    EXPECT_GE(count(), times) << "'" << text << "' in: " << daemon.Errors();
  }

  int tokens_ = 0, daemons_ = 0;
};

TEST_F(JoinTest, AWorkerJoinsRunsAJobAndComesBackWithItsCertificate) {
  StartIssuing("24");
  const std::string token = TokenFor("node-1");
  std::unique_ptr<ChildProgram> daemon = Daemon("node-1", token);
  ASSERT_NE(daemon, nullptr);
  ExpectSays(*daemon, "connected to the coordinator");
  ExpectNextJobSucceeds();
  struct stat info;
  ASSERT_EQ(stat((folder_ + "/state-node-1/certificate/node.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  // Whoever comes later with the token is refused; the worker itself needs it no more, also at another start.
  EXPECT_THAT(Refusal(Command("node-1", token, "other")), HasSubstr("is used up"));
  daemon.reset();
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
  EXPECT_THAT(Refusal(Command("node-1", token, "other")), HasSubstr("is used up"));
  daemon = Daemon("node-1", token);
  ASSERT_NE(daemon, nullptr);
  ExpectNextJobSucceeds();
  EXPECT_THAT(Cli("admin-root", {"token", "list"}).out, HasSubstr("join"));
}

TEST_F(JoinTest, ARevokedWorkerIsCutOffAndCannotComeBack) {
  StartIssuing("24");
  const std::string any = TokenFor("any", 5);
  std::unique_ptr<ChildProgram> daemon = Daemon("node-1", any);
  ASSERT_NE(daemon, nullptr);
  ExpectSays(*daemon, "connected to the coordinator");
  const LocalCluster::CliResult nobody = Cli("admin-root", {"token", "join", "--for", ""});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("--for is empty: give the name of the worker, or any"));
  EXPECT_THAT(Cli("user-alice", {"node", "revoke", "node-1"}).err, HasSubstr("user alice may not call RevokeNode"));
  const LocalCluster::CliResult revoked = Cli("admin-root", {"node", "revoke", "node-1"});
  EXPECT_EQ(revoked.exit_code, 0) << revoked.err;
  EXPECT_THAT(revoked.out, HasSubstr("with 1 certificates"));
  ExpectSays(*daemon, "node node-1 was revoked");
  EXPECT_THAT(Refusal(Command("node-1", any, "other")), HasSubstr("was revoked: it can join only with a token for it"));
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
  EXPECT_THAT(Refusal(Command("node-1", any, "other")), HasSubstr("was revoked: it can join only with a token for it"));
  // With the certificate that it still has.
  daemon.reset();
  daemon = Daemon("node-1", any);
  ASSERT_NE(daemon, nullptr);
  ExpectSays(*daemon, "node node-1 was revoked");
  daemon.reset();
  // A token that an operator makes for it afterwards lets it in again, though its own certificate looks valid to it.
  daemon = Daemon("node-1", TokenFor("node-1"));
  ASSERT_NE(daemon, nullptr);
  ExpectSays(*daemon, "joined the coordinator");
  ExpectSays(*daemon, "connected to the coordinator");
  daemon.reset();
  daemon = Daemon("node-2", any);
  ASSERT_NE(daemon, nullptr);
  ExpectNextJobSucceeds();
}

TEST_F(JoinTest, ACoordinatorOfAnotherAuthorityGetsNoToken) {
  StartIssuing("24");
  const std::string file = TokenFor("node-1");
  std::string token = ReadFile(file);
  token.back() = token.back() == '0' ? '1' : '0';
  EXPECT_THAT(Refusal(Command("node-1", WriteFile("wrong", token))),
              ::testing::AllOf(HasSubstr("is not the one that made the token"), HasSubstr("the token was not sent")));
  std::vector<std::string> by_file = Command("node-1", file, "other");
  MakeCerts("other", "--client user alice");
  by_file.insert(by_file.end(), {"--tls-ca", folder_ + "/other/ca.pem"});
  EXPECT_THAT(Refusal(by_file), HasSubstr("the coordinator is not trusted"));
  // Nothing of that has used the token up.
  std::unique_ptr<ChildProgram> daemon = Daemon("node-1", file);
  ASSERT_NE(daemon, nullptr);
  ExpectNextJobSucceeds();
}

TEST_F(JoinTest, AnswersThatAreNotReadCountUntilTheyAreCutOff) {
  StartIssuing("24");
  const std::string method = "/adjoin.WorkerLink/ReadAuthorities";
  grpc::SslCredentialsOptions roots;
  roots.pem_root_certs = ReadFile(Files("server").ca);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);  // so much is sent to one who reads nothing
  grpc::GenericStub stub(grpc::CreateCustomChannel(cluster_->address(), grpc::SslCredentials(roots), arguments));
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls;
  const auto finish_step = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  for (int i = 0; i < 60; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    calls.push_back(stub.PrepareCall(contexts.back().get(), method, &queue));
    calls.back()->StartCall(nullptr);
    ASSERT_TRUE(finish_step());
    grpc::Slice slice(OnlyHeader());
    calls.back()->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(finish_step());
  }
  const auto becomes = [&](grpc::StatusCode code) {
    grpc::Status status;
    const Deadline deadline = Within(60);
    do {
      status = RawCall(Channel(grpc::SslCredentials(roots)), method, OnlyHeader());
    } while (status.error_code() != code && !deadline.Expired());
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return status.error_message();
  };
  EXPECT_THAT(becomes(grpc::StatusCode::RESOURCE_EXHAUSTED), HasSubstr("calls of those who have shown nothing"));
  EXPECT_NE(RawCall(Channel(grpc::SslCredentials(roots)), "/adjoin.WorkerLink/JoinNode", OnlyHeader()).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED)
      << "joins are counted by themselves";
  becomes(grpc::StatusCode::OK);
  EXPECT_THAT(RawCall(Channel(grpc::SslCredentials(roots)), method, "\xff\xff").error_message(),
              HasSubstr("the request is no message of this protocol"));
  for (auto& context : contexts) context->TryCancel();
  queue.Shutdown();
  while (finish_step()) {
  }
}

// It would outlive its own end, and what its authority revokes.
TEST_F(JoinTest, ACertificateOfMakeCertsIsNotRenewed) {
  StartIssuing("24");
  ASSERT_EQ(Shell(absl::StrCat("cd ", folder_, "/certs && openssl req -new -key worker-worker-0.key -outform DER ",
                               "-subj /CN=any -out request")),
            0);
  RenewCertificateRequest request;
  request.ParseFromString(OnlyHeader());
  request.set_certificate_request(ReadFile(folder_ + "/certs/request"));
  const grpc::Status status = RawCall(Channel(Credentials(Files("worker-worker-0"))),
                                      "/adjoin.WorkerLink/RenewCertificate", request.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("the certificate of node worker-0 with serial "));
  EXPECT_THAT(status.error_message(), HasSubstr("is renewed with make-certs"));
}

// A certificate is valid for 18 s here, and renewed after 12 s.
TEST_F(JoinTest, ACertificateIsRenewedWhileAJobRunsAndItsRanksStay) {
  StartIssuing("0.005");
  std::unique_ptr<ChildProgram> daemon = Daemon("node-1", TokenFor("node-1", 100));
  ASSERT_NE(daemon, nullptr);
  ExpectSays(*daemon, "connected to the coordinator");
  const std::string job = SubmitAs("user-alice", FakeJob("hang", 2));
  auto running = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.state() == RUNNING; }, Within(240));
  ASSERT_TRUE(running.ok()) << running.status();
  const auto before = cluster_->RankPids(job);
  ASSERT_TRUE(before.ok()) << before.status();
  // What is revoked meanwhile, the node learns with its next certificate.
  const std::string authorities = folder_ + "/state-node-1/certificate/ca.pem";
  EXPECT_THAT(ReadFile(authorities), Not(HasSubstr("BEGIN X509 CRL")));
  MakeCerts("certs", "--revoke user-bob");
  ExpectSays(*daemon, "the certificate is renewed", /*times=*/1);
  // The first renewal may have come before the list, or within the second in which the file is not looked at again.
  for (const Deadline deadline = Within(60);
       !absl::StrContains(ReadFile(authorities), "BEGIN X509 CRL") && !deadline.Expired();) {
  }
  EXPECT_THAT(ReadFile(authorities), HasSubstr("BEGIN X509 CRL"));
  // The stream ends with the first certificate, and the next one begins.
  ExpectSays(*daemon, "connected to the coordinator", /*times=*/2);
  const auto after = cluster_->RankPids(job);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*before, *after);
  EXPECT_EQ(cluster_->Describe(job)->job().attempts(), 1);
  EXPECT_EQ(Cli("user-alice", {"cancel", job}).exit_code, 0);
}

}  // namespace
}  // namespace adjoin
