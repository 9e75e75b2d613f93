// What stays within its limits: plain text and ranks on their interfaces, jobs in the folders and sizes that they may
// have. Every refusal has its reason, and the daemons live on.
#include <sys/types.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/security/raw_call.h"
#include "proto/protocol.h"
#include "tests/fault/fake_jobs.h"
#include "tests/fault/security_fixture.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(SecurityTest, PlainTextStaysOnLoopback) {
  const std::string coordinator = Runfile("coordinator/adjoin-coordinator"), worker = Runfile("worker/adjoin-worker");
  const std::vector<std::string> data = {"--rank-binary", Runfile("worker/testing/fake-rank"), "--output-root",
                                         folder_};
  auto worker_refusal = [&](std::vector<std::string> flags) {
    std::vector<std::string> command = {worker, "--state-dir", folder_ + "/state"};
    command.insert(command.end(), data.begin(), data.end());
    command.insert(command.end(), flags.begin(), flags.end());
    return Refusal(command);
  };
  EXPECT_THAT(Refusal({coordinator, "--listen", "0.0.0.0:0", "--state-dir", folder_ + "/state"}),
              AllOf(HasSubstr("needs mutual TLS"), HasSubstr("tools/make-certs")));
  EXPECT_THAT(worker_refusal({"--coordinator", "10.1.2.3:7411"}),
              AllOf(HasSubstr("needs mutual TLS"), HasSubstr("tools/make-certs")));
  EXPECT_THAT(Refusal({Runfile("cli/adjoin"), "--coordinator", "10.1.2.3:7411", "ps"}),
              AllOf(HasSubstr("needs mutual TLS"), HasSubstr("tools/make-certs")));
  // Between ranks nothing is encrypted: the interface has to be named, and to exist.
  std::vector<std::string> elsewhere = Flags(Files("worker-worker-0"));
  elsewhere.insert(elsewhere.end(), {"--coordinator", "10.1.2.3:7411"});
  EXPECT_THAT(worker_refusal(elsewhere), HasSubstr("--net-device is missing"));
  elsewhere.insert(elsewhere.end(), {"--net-device", "nothing0"});
  EXPECT_THAT(worker_refusal(elsewhere),
              AllOf(HasSubstr("there is no interface 'nothing0'"), HasSubstr("lo (127.0.0.1")));
}

TEST_F(SecurityTest, JobsThatReachBeyondTheirLimitsAreRefusedAndDaemonsLive) {
  StartCluster(1);
  fs::create_symlink("/etc/passwd", cluster_->data_root() + "/outside.idx");
  fs::create_directory_symlink("/etc", cluster_->data_root() + "/etc");
  fs::create_directory_symlink("/tmp", cluster_->output_root() + "/elsewhere");
  const std::string good = FakeJob("succeed", 2, "output_dir: \"out\"");
  auto refusal = [&](const std::string& spec) {
    LocalCluster::CliResult result = Cli("user-alice", {"submit", WriteFile("job.textproto", spec)});
    EXPECT_EQ(result.exit_code, 1) << spec.substr(0, 1000);
    return result.err;
  };
  auto with = [&](const std::string& from, const std::string& to) {
    EXPECT_THAT(good, HasSubstr(from));
    return absl::StrReplaceAll(good, {{from, to}});
  };
  const std::string path = "mnist/test-images.idx.gz";
  EXPECT_THAT(refusal(with(path, "../../etc/passwd")), HasSubstr("no '..'"));
  EXPECT_THAT(refusal(with(path, "mnist/../../secret")), HasSubstr("no '..'"));
  EXPECT_THAT(refusal(with(path, "/etc/passwd")), HasSubstr("no leading '/'"));
  EXPECT_THAT(refusal(with(path, "outside.idx")), HasSubstr("leads out of the root by a symbolic link"));
  EXPECT_THAT(refusal(with(path, "etc/passwd")), HasSubstr("leads out of the root by a symbolic link"));
  const std::string output = "output_dir: \"";
  EXPECT_THAT(refusal(with(output, output + "../")), HasSubstr("no '..'"));
  // A link in the way on one node only is found when the job starts there.
  const std::string linked = SubmitAs("user-alice", with(output, output + "elsewhere/"));
  auto end = cluster_->WaitFor(linked, Within(60));
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->state(), FAILED);
  EXPECT_THAT(end->reason(), HasSubstr("symbolic link"));

  std::string text = "layer {", json = "{\"layer\":";
  for (int i = 0; i < 100000; ++i) text += " custom {";
  json += std::string(100000, '[');
  EXPECT_THAT(refusal(text), HasSubstr("job.textproto:1:"));
  EXPECT_THAT(refusal(json), HasSubstr("nested too deeply"));
  EXPECT_THAT(refusal(std::string(64 << 20, ' ')), HasSubstr("1048576"));

  // Past the command, which would look at these itself.
  auto channel = Channel(Credentials(Files("user-alice")));
  SubmitRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_spec_source(std::string(2 << 20, ' '));
  grpc::Status status = RawCall(channel, "/adjoin.Adjoin/Submit", request.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("at most 1048576"));
  request.set_spec_source(std::string(64 << 20, ' '));
  status = RawCall(channel, "/adjoin.Adjoin/Submit", request.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("larger than max"));
  request.set_spec_source(text);
  status = RawCall(channel, "/adjoin.Adjoin/Submit", request.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  // 100,000 nested groups, as an unknown field of a binary spec.
  std::string groups;
  for (int i = 0; i < 100000; ++i) groups += "\xc3\x3e";
  for (int i = 0; i < 100000; ++i) groups += "\xc4\x3e";
  SubmitRequest binary;
  *binary.mutable_header() = MakeHeader();
  binary.set_spec_source(groups);  // the same length as a spec, of which it takes the place
  std::string bytes = binary.SerializeAsString();
  const size_t at = bytes.find('\x2a');
  ASSERT_NE(at, std::string::npos);
  bytes[at] = '\x12';
  status = RawCall(channel, "/adjoin.Adjoin/Submit", bytes);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("nested"));
  status = RawCall(channel, "/adjoin.Adjoin/Submit", std::string(1000, '\xff'));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("no message of this protocol"));

  ExpectNextJobSucceeds();
  EXPECT_EQ(cluster_->Stop(), absl::OkStatus());
}

// The local addresses on which a process listens for TCP, in hexadecimal as /proc has them.
std::set<std::string> ListensOn(pid_t pid) {
  std::set<std::string> sockets, addresses;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), ignored)) {
    sockets.insert(fs::read_symlink(entry.path(), ignored).string());
  }
  for (const char* file : {"tcp", "tcp6"}) {
    std::istringstream table(ReadFile(absl::StrCat("/proc/", pid, "/net/", file)));
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
      if (state == "0A" && sockets.count(absl::StrCat("socket:[", inode, "]")) > 0)
        addresses.insert(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

TEST_F(SecurityTest, RanksListenOnTheirInterfaceOnly) {
  StartCluster(1, /*real_ranks=*/true, {"UCX_TLS=tcp,self"});
  const std::string spec = absl::StrReplaceAll(FakeJob("listens", 2), {{"steps: 10 ", "steps: 1000000 "}});
  const std::string job = SubmitAs("user-alice", spec);
  auto running = cluster_->WaitUntil(
      job, [](const JobSummary& s) { return s.progress().step() > 0; }, Within(60));
  ASSERT_TRUE(running.ok()) << running.status();
  auto pids = cluster_->RankPids(job);
  ASSERT_TRUE(pids.ok()) << pids.status();
  for (pid_t pid : *pids) EXPECT_THAT(ListensOn(pid), ::testing::ElementsAre("0100007F")) << "127.0.0.1 would be right";
  EXPECT_EQ(Cli("user-alice", {"cancel", job}).exit_code, 0);
}

}  // namespace
}  // namespace adjoin
