// Permissions, with real processes that speak TLS on loopback: certificates, roles, owners, tokens. Every refusal has
// its reason, and the daemons live on.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/security/raw_call.h"
#include "base/security/tls.h"
#include "base/testing/expired_certificate.h"
#include "proto/protocol.h"
#include "tests/fault/fake_jobs.h"
#include "tests/fault/security_fixture.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(SecurityTest, AJobRunsOverTlsAndItsOwnerFetchesItsResults) {
  StartCluster(2);
  LocalCluster::CliResult run = Cli("user-alice", {"submit", "--follow", WriteFile("job", FakeJob("succeed", 4))});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(Cli("user-alice", {"get", "succeed", "result.bin", "-O", "-"}).out.size(), 3000000);
  EXPECT_THAT(Cli("user-alice", {"logs", "succeed"}).out, HasSubstr("rank 3 does succeed"));
  EXPECT_EQ(cluster_->Describe("succeed")->job().owner(), "alice");
  EXPECT_THAT(Cli("user-bob", {"get", "succeed", "result.bin", "-O", "-"}).err,
              HasSubstr("user bob may not see a result of"));
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
}

TEST_F(SecurityTest, BadCertificatesAreRefusedWithTheReason) {
  StartCluster(1);
  MakeCerts("other", "--client user alice");
  const std::string client = "subjectAltName=URI:adjoin://user/alice\\nextendedKeyUsage=clientAuth\\n";
  ASSERT_EQ(
      Shell(absl::StrCat(
          "cd ", folder_, "/certs && printf '", client, "' > x.ext && cp user-alice.key expired.key && ",
          "openssl req -new -key expired.key -subj /CN=expired -out x.csr && openssl x509 -req -in x.csr -CA ca.pem ",
          "-CAkey ca.key -set_serial 7 ", kExpired, " -extfile x.ext -out expired.pem")),
      0);
  // The command looks at its own certificate first.
  EXPECT_THAT(Cli("expired", {"ps"}).err, AllOf(HasSubstr("expired on 20"), HasSubstr("; make-certs makes a new one")));

  auto refusal = [&](const std::string& certificate, const std::string& key) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = ReadFile(folder_ + "/certs/ca.pem");
    options.pem_cert_chain = certificate.empty() ? "" : ReadFile(absl::StrCat(folder_, "/", certificate));
    options.pem_private_key = key.empty() ? "" : ReadFile(absl::StrCat(folder_, "/", key));
    grpc::Status status = RawCall(Channel(grpc::SslCredentials(options)), "/adjoin.Adjoin/ListJobs", OnlyHeader());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    return status.error_message();
  };
  EXPECT_THAT(refusal("certs/expired.pem", "certs/expired.key"), HasSubstr("certificate \"CN=expired\" expired on 20"));
  EXPECT_THAT(refusal("other/user-alice.pem", "other/user-alice.key"),
              HasSubstr("\"CN=alice\" was signed by another authority"));
  EXPECT_THAT(refusal("", ""), HasSubstr("neither a certificate nor a token was shown"));
  EXPECT_THAT(Cli("user-alice", {"ps"}).out, HasSubstr("worker-0"));

  // The other way round: a coordinator of another authority, plain text to one that speaks TLS, TLS to nothing like it.
  TlsFiles distrusting = Files("user-alice", "other");
  EXPECT_THAT(Cli(distrusting, {"ps"}).err,
              AllOf(StartsWith("adjoin: error: "), HasSubstr("the coordinator is not trusted"),
                    HasSubstr("signed by another authority")));
  LocalCluster::CliResult plain = cluster_->Cli({"--retry-seconds", "0", "ps"});
  EXPECT_EQ(plain.exit_code, 1);
  EXPECT_THAT(plain.err, AllOf(StartsWith("adjoin: error: "), HasSubstr("if it speaks TLS, give --tls-ca")));
  ExpectNextJobSucceeds();
}

TEST_F(SecurityTest, TlsToACoordinatorInPlainTextIsReported) {
  LocalClusterOptions options;
  options.rank_binary = "worker/testing/fake-rank";
  auto cluster = LocalCluster::Start(1, 2, options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  cluster_ = *std::move(cluster);
  EXPECT_THAT(Cli("user-alice", {"ps"}).err,
              AllOf(StartsWith("adjoin: error: "), HasSubstr("the coordinator does not speak TLS")));
  EXPECT_EQ(cluster_->Cli({"ps"}).exit_code, 0);
}

TEST_F(SecurityTest, WorkersCallWorkerMethodsAndUsersTheirs) {
  StartCluster(1);
  const google::protobuf::FileDescriptor* file = SubmitRequest::descriptor()->file();
  struct Kind {
    const char* who;
    bool worker;
  };
  for (const Kind& kind : {Kind{"worker-worker-0", true}, Kind{"user-alice", false}, Kind{"viewer-eve", false},
                           Kind{"admin-root", false}}) {
    auto channel = Channel(Credentials(Files(kind.who)));
    for (int s = 0; s < file->service_count(); ++s) {
      if ((file->service(s)->name() == "WorkerLink") == kind.worker) continue;
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const std::string name = file->service(s)->method(m)->name();
        if (name == "JoinNode" || name == "ReadAuthorities") continue;  // for those who have no certificate yet
        const std::string method = absl::StrCat("/", file->service(s)->full_name(), "/", name);
        grpc::Status status = RawCall(channel, method, OnlyHeader());
        EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
            << kind.who << " " << method << ": " << status.error_message();
        EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat("may not call ", name)));
      }
    }
  }
  // Daemons with a user's certificate, and with another daemon's.
  struct Wrong {
    const char* who;
    const char* why;
  };
  for (const Wrong& wrong :
       {Wrong{"user-alice", "user alice may not call Connect"},
        Wrong{"worker-worker-1", "the certificate of worker worker-1 calls itself another name"}}) {
    std::vector<std::string> command = {Runfile("worker/adjoin-worker"),
                                        "--coordinator",
                                        cluster_->address(),
                                        "--name",
                                        "worker-2",
                                        "--state-dir",
                                        absl::StrCat(folder_, "/", wrong.who),
                                        "--rank-binary",
                                        Runfile("worker/testing/fake-rank"),
                                        "--output-root",
                                        folder_};
    for (const std::string& flag : Flags(Files(wrong.who))) command.push_back(flag);
    auto daemon = ChildProgram::Start(command, {}, absl::StrCat(folder_, "/daemon-", wrong.who));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    Deadline deadline = Within(30);
    while (!absl::StrContains((*daemon)->Errors(), wrong.why) && !deadline.Expired())
      absl::SleepFor(absl::Milliseconds(20));
    EXPECT_THAT((*daemon)->Errors(), HasSubstr(wrong.why));
  }
  EXPECT_EQ(cluster_->ListJobs()->worker_size(), 1);
  ExpectNextJobSucceeds();
}

TEST_F(SecurityTest, UsersChangeTheirOwnJobsAndViewersSeeNoContents) {
  StartCluster(1);
  const std::string spec = FakeJob("hang", 2, "output_dir: \"out/hang\"");
  const std::string job = SubmitAs("user-alice", spec);
  auto running = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.state() == RUNNING; }, Within(60));
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_EQ(running->owner(), "alice");

  for (const char* verb : {"cancel", "retry", "hold", "release", "trace"}) {
    LocalCluster::CliResult refused = Cli("user-bob", {verb, job});
    EXPECT_EQ(refused.exit_code, 1) << verb;
    EXPECT_THAT(refused.err, HasSubstr(absl::StrCat("user bob may not change ", job, ", which is alice's"))) << verb;
    EXPECT_THAT(Cli("viewer-eve", {verb, job}).err, HasSubstr("viewer eve may not call")) << verb;
  }
  EXPECT_THAT(Cli("user-bob", {"logs", job}).err, HasSubstr("user bob may not see"));
  EXPECT_THAT(Cli("viewer-eve", {"logs", job}).err, HasSubstr("viewer eve may not call ReadLogs"));
  EXPECT_THAT(Cli("viewer-eve", {"get", job, "result.bin", "-O", "-"}).err,
              HasSubstr("viewer eve may not call GetArtifact"));
  EXPECT_THAT(Cli("viewer-eve", {"submit", WriteFile("job", FakeJob("succeed", 1))}).err,
              HasSubstr("viewer eve may not call Submit"));

  auto described = [&](const std::string& who) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    DescribeJobRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_job_id(job);
    DescribeJobResponse response;
    grpc::Status status = Adjoin::NewStub(Channel(Credentials(Files(who))))->DescribeJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.job().state(), RUNNING);
    return response;
  };
  EXPECT_TRUE(described("user-alice").has_spec());
  EXPECT_TRUE(described("admin-root").has_spec());
  EXPECT_FALSE(described("user-bob").has_spec());
  EXPECT_FALSE(described("viewer-eve").has_spec());
  EXPECT_THAT(Cli("viewer-eve", {"ps"}).out, HasSubstr(job));
  EXPECT_EQ(Cli("viewer-eve", {"events", job}).exit_code, 0);
  EXPECT_THAT(Cli("user-alice", {"logs", job}).out, HasSubstr("rank 0"));

  EXPECT_EQ(Cli("user-alice", {"cancel", job}).exit_code, 0);
  EXPECT_EQ(cluster_->WaitFor(job, Within(30))->state(), CANCELLED);
  LocalCluster::CliResult over = Cli("user-bob", {"submit", WriteFile("job", spec)});
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_THAT(over.err, HasSubstr(absl::StrCat("output_dir \"out/hang\" is the folder of ", job)));
  const std::string second =
      SubmitAs("user-bob", absl::StrReplaceAll(spec, {{"output_dir: \"", "output_dir: \"bob/"}}));
  EXPECT_EQ(Cli("admin-root", {"cancel", second}).exit_code, 0);
  EXPECT_EQ(cluster_->WaitFor(second, Within(30))->state(), CANCELLED);
}

TEST_F(SecurityTest, UsersHaveTheLimitsThatTheCoordinatorIsGiven) {
  StartCluster(1, /*real_ranks=*/false, {}, {"--user-slots", "1,alice=2", "--user-queued-jobs", "bob=0"});
  const LocalCluster::CliResult large = Cli("user-bob", {"submit", WriteFile("large", FakeJob("hang", 2))});
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_THAT(large.err,
              HasSubstr("it needs 2 slots, and jobs of bob may have at most 1 (the coordinator's --user-slots)"));
  EXPECT_THAT(Cli("user-bob", {"submit", WriteFile("small", FakeJob("hang", 1))}).err,
              HasSubstr("0 jobs of bob wait, and at most 0 may (the coordinator's --user-queued-jobs)"));

  const std::string first = SubmitAs("user-alice", FakeJob("hang", 2));
  ASSERT_TRUE(cluster_
                  ->WaitUntil(
                      first, [](const JobSummary& s) { return s.state() == RUNNING; }, Within(60))
                  .ok());
  const std::string second = SubmitAs("user-alice", FakeJob("succeed", 1));
  EXPECT_THAT(Cli("user-alice", {"ps"}).out, HasSubstr("jobs of alice have 2 of the 2 that they may"));
  EXPECT_EQ(Cli("user-alice", {"cancel", first}).exit_code, 0);
  EXPECT_EQ(cluster_->WaitFor(second, Within(60))->state(), SUCCEEDED);
}

TEST_F(SecurityTest, OnlyAdminsGiveJobsAHighPriority) {
  StartCluster(1, /*real_ranks=*/false, {}, {"--max-user-priority", "5"});
  const std::string job = WriteFile("job", FakeJob("succeed", 1));
  const LocalCluster::CliResult refused = Cli("user-alice", {"submit", job, "--priority", "6"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--max-user-priority"));
  EXPECT_EQ(cluster_->ListJobs()->job_size(), 0);
  const LocalCluster::CliResult allowed = Cli("user-alice", {"submit", job, "--priority", "5"});
  EXPECT_EQ(allowed.exit_code, 0) << allowed.err;
  const std::string id = allowed.out.substr(0, allowed.out.find_first_of(" \n"));
  EXPECT_EQ(cluster_->WaitFor(id, Within(60))->state(), SUCCEEDED);
  const LocalCluster::CliResult admin =
      Cli("admin-root", {"submit", WriteFile("job", FakeJob("hang", 1)), "--priority", "1000"});
  EXPECT_EQ(admin.exit_code, 0) << admin.err;
}

TEST_F(SecurityTest, ALimitThatIsNoneIsRefusedBeforeAnythingStarts) {
  const std::string error = Refusal({Runfile("coordinator/adjoin-coordinator"), "--listen", "127.0.0.1:0",
                                     "--state-dir", folder_ + "/state", "--user-slots", "16,alice=lots"});
  EXPECT_THAT(error, HasSubstr("--user-slots: 'lots' is neither a number up to 1000000000 nor unlimited"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/state"));
}

TEST_F(SecurityTest, TokensAreMadeByAdminsExpireAndAreRevoked) {
  StartCluster(1);
  EXPECT_THAT(Cli("user-alice", {"token", "create", "mallory", "--role", "admin"}).err,
              HasSubstr("user alice may not call CreateToken"));
  auto create = [&](const std::string& valid_for, const std::string& role) {
    grpc::ClientContext context;
    CreateTokenRequest request;
    *request.mutable_header() = MakeHeader();
    request.set_user("carol");
    request.set_role(role);
    request.set_valid_hours(valid_for == "short" ? 1.0 / 3600 : 1);
    CreateTokenResponse response;
    grpc::Status status = cluster_->stub().CreateToken(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  const CreateTokenResponse token = create("long", "user");
  const std::string file = WriteFile("token", token.token() + "\n");
  TlsFiles authority = Files("");
  authority.cert = authority.key = "";
  auto with_token = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--token-file", file});
    return Cli(authority, arguments);
  };
  LocalCluster::CliResult run = with_token({"submit", "--follow", WriteFile("job", FakeJob("succeed", 2))});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(cluster_->Describe("succeed")->job().owner(), "carol");
  EXPECT_THAT(with_token({"token", "list"}).err, HasSubstr("user carol may not call ListTokens"));
  EXPECT_THAT(cluster_->Cli({"--token-file", file, "ps"}).err, HasSubstr("over TLS only"));

  // Only its hash is in the store.
  const std::string& id = token.summary().id();
  const std::string secret = token.token().substr(token.token().find(id) + id.size() + 1);
  ASSERT_GE(secret.size(), 40u);
  for (const auto& entry : fs::recursive_directory_iterator(cluster_->folder() + "/coordinator")) {
    if (entry.is_regular_file()) {
      EXPECT_THAT(ReadFile(entry.path()), Not(HasSubstr(secret))) << entry.path();
    }
  }
  // It outlives the coordinator.
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->RestartCoordinator(), absl::OkStatus());
  EXPECT_EQ(with_token({"ps"}).exit_code, 0);
  LocalCluster::CliResult listed = Cli("admin-root", {"token", "list"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("carol"), HasSubstr(token.summary().id()), Not(HasSubstr(secret))));
  EXPECT_EQ(Cli("admin-root", {"token", "revoke", token.summary().id()}).exit_code, 0);
  EXPECT_THAT(with_token({"ps"}).err, HasSubstr("the token is not known here: it was revoked"));

  WriteFile("token", create("short", "viewer").token());
  Deadline deadline = Within(30);
  std::string said;
  while (!absl::StrContains(said, "of carol expired on") && !deadline.Expired()) said = with_token({"ps"}).err;
  EXPECT_THAT(said, HasSubstr("of carol expired on"));
}

TEST_F(SecurityTest, RenewedCertificatesNeedNoRestart) {
  StartCluster(1);
  MakeCerts("next", "--server localhost,127.0.0.1 --client admin root --client user alice --client worker worker-0");
  ASSERT_EQ(Cli("user-alice", {"ps"}).exit_code, 0);
  const TlsFiles stranger = Files("user-alice", "next");
  EXPECT_EQ(Cli(stranger, {"ps"}).exit_code, 1);
  // The authority and all certificates below it, file by file, in the place of those that the programs were started
  // with.
  for (const char* name : {"server.key", "server.pem", "worker-worker-0.key", "worker-worker-0.pem", "admin-root.key",
                           "admin-root.pem", "ca.pem"}) {
    fs::copy_file(absl::StrCat(folder_, "/next/", name), absl::StrCat(folder_, "/certs/", name, ".new"));
    fs::rename(absl::StrCat(folder_, "/certs/", name, ".new"), absl::StrCat(folder_, "/certs/", name));
  }
  Deadline deadline = Within(30);
  LocalCluster::CliResult result;
  do {
    result = Cli(stranger, {"ps"});
  } while (result.exit_code != 0 && !deadline.Expired());
  EXPECT_THAT(result.out, HasSubstr("worker-0")) << result.err;
  // The daemon, too: it connects again with its new certificate, to a coordinator that trusts the new authority alone.
  ASSERT_EQ(cluster_->KillCoordinator(), absl::OkStatus());
  ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
  LocalCluster::CliResult run = Cli(stranger, {"submit", "--follow", WriteFile("job", FakeJob("succeed", 2))});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST_F(SecurityTest, StreamsToACoordinatorThatWasRevokedEnd) {
  StartCluster(1);
  const std::string job = SubmitAs("user-alice", FakeJob("hang", 1));
  std::vector<std::string> command = {Runfile("cli/adjoin"), "--coordinator", cluster_->address()};
  for (const std::string& flag : Flags(Files("user-alice"))) command.push_back(flag);
  command.insert(command.end(), {"follow", job, "-o", "json"});
  auto follow = ChildProgram::Start(command, {}, folder_ + "/follow");
  ASSERT_TRUE(follow.ok()) << follow.status();
  const Deadline begun = Within(60);
  while ((*follow)->Output().empty() && !begun.Expired()) absl::SleepFor(absl::Milliseconds(10));
  ASSERT_FALSE((*follow)->Output().empty()) << (*follow)->Errors();

  MakeCerts("certs", "--revoke server");
  const auto code = (*follow)->Wait(Within(60));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 1);
  const auto refused = AllOf(HasSubstr("the coordinator is not trusted"), HasSubstr("was revoked on"));
  EXPECT_THAT((*follow)->Errors(), refused);
  EXPECT_THAT((*follow)->Output(), Not(HasSubstr("trusted"))) << "which programs read";
  // The daemon ends its stream, and is not let in again by itself.
  const std::string log = cluster_->folder() + "/worker-0-log.err";
  const Deadline left = Within(60);
  const auto says = [&] { return absl::StrContains(ReadFile(log), "yet: the coordinator is not trusted"); };
  while (!says() && !left.Expired()) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_THAT(ReadFile(log), AllOf(HasSubstr("connecting again: the coordinator is not trusted"), refused));
  EXPECT_TRUE(says());
}

TEST_F(SecurityTest, BothSidesRefuseWhatTheAuthorityHasRevoked) {
  StartCluster(1);
  const auto eventually = [&](const TlsFiles& files, int code) {
    LocalCluster::CliResult result;
    for (const Deadline deadline = Within(30); !deadline.Expired();) {
      result = Cli(files, {"ps"});
      if (result.exit_code == code) break;
    }
    EXPECT_EQ(result.exit_code, code) << result.err;
    return result.err;
  };
  const std::string base = folder_ + "/certs/", before = folder_ + "/ca-before.pem";
  fs::copy_file(base + "ca.pem", before);
  MakeCerts("certs", "--client user alice");  // the older certificate is revoked, too
  const TlsFiles old = {before, base + "user-alice.pem.revoked", base + "user-alice.key.revoked"};

  MakeCerts("certs", "--revoke user-alice");
  EXPECT_THAT(eventually(old, 1), ContainsRegex("certificate \"CN=alice\" was revoked on [-0-9]+ [:0-9]+ UTC"));
  EXPECT_EQ(eventually(Files("user-bob"), 0), "");
  const TlsFiles informed = {base + "ca.pem", old.cert, old.key};
  EXPECT_THAT(Cli(informed, {"ps"}).err, AllOf(HasSubstr("--tls-cert"), HasSubstr("was revoked on")));
  MakeCerts("certs", "--client user alice");
  EXPECT_EQ(eventually(Files("user-alice"), 0), "");

  MakeCerts("certs", "--revoke server");
  EXPECT_THAT(eventually(Files("user-bob"), 1),
              AllOf(HasSubstr("the coordinator is not trusted"), HasSubstr("was revoked on")));
  const TlsFiles uninformed = {before, Files("user-bob").cert, Files("user-bob").key};
  EXPECT_EQ(eventually(uninformed, 0), "");

  // A list of another authority stands for nothing.
  MakeCerts("others", "--client user mallory");
  MakeCerts("others", "--revoke user-mallory");
  ASSERT_EQ(Shell(absl::StrCat("openssl crl -in ", folder_, "/others/ca.pem -out ", folder_, "/list && cat ", before,
                               " ", folder_, "/list > ", folder_, "/mixed.pem")),
            0);
  EXPECT_THAT(Cli({folder_ + "/mixed.pem", uninformed.cert, uninformed.key}, {"ps"}).err,
              HasSubstr("which none of its certificates has signed"));
  // Nor is one that is cut off as none.
  const std::string whole = ReadFile(base + "ca.pem");
  WriteFile("cut.pem", whole.substr(0, whole.size() - 60));
  EXPECT_THAT(Cli({folder_ + "/cut.pem", uninformed.cert, uninformed.key}, {"ps"}).err,
              HasSubstr("holds a revocation list that cannot be read"));
}

}  // namespace
}  // namespace adjoin
