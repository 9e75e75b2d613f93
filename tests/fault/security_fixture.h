// What tests of permissions share: a cluster that speaks TLS, with certificates of one authority in a folder of the
// test's own.
//
//   TEST_F(SecurityTest, ...) {
//     StartCluster(/*nodes=*/1);
//     EXPECT_THAT(Cli("user-bob", {"cancel", SubmitAs("user-alice", FakeJob("hang", 2))}).err, HasSubstr("may not"));
//   }
#ifndef ADJOIN_TESTS_FAULT_SECURITY_FIXTURE_H_
#define ADJOIN_TESTS_FAULT_SECURITY_FIXTURE_H_

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/security/certificates_fixture.h"
#include "base/security/tls.h"
#include "proto/coordinator.pb.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/child_process.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {

inline Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class SecurityTest : public CertificatesTest {
 protected:
  // Certificates of one authority for all that a cluster has.
  void SetUp() override {
    MakeCerts(
        "certs",
        "--server localhost,127.0.0.1 --client admin root --client user alice --client user bob --client viewer eve "
        "--client worker worker-0 --client worker worker-1");
  }
  static std::vector<std::string> Flags(const TlsFiles& files) {
    std::vector<std::string> flags = {"--tls-ca", files.ca};
    if (!files.cert.empty()) flags.insert(flags.end(), {"--tls-cert", files.cert, "--tls-key", files.key});
    return flags;
  }
  static std::shared_ptr<grpc::ChannelCredentials> Credentials(const TlsFiles& files,
                                                               const std::string& token_file = "") {
    auto credentials = MakeChannelCredentials({"127.0.0.1", 0}, files, token_file);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return credentials.ok() ? *credentials : nullptr;
  }

  void StartCluster(int nodes, bool real_ranks = false, std::vector<std::string> environment = {},
                    const std::vector<std::string>& coordinator_flags = {}) {
    LocalClusterOptions options;
    if (!real_ranks) options.rank_binary = "worker/testing/fake-rank";
    options.environment = std::move(environment);
    options.credentials = Credentials(Files("admin-root"));
    options.coordinator.flags = Flags(Files("server"));
    options.coordinator.flags.insert(options.coordinator.flags.end(), coordinator_flags.begin(),
                                     coordinator_flags.end());
    for (int node = 0; node < nodes; ++node)
      options.worker[node].flags = Flags(Files(absl::StrCat("worker-worker-", node)));
    auto cluster = LocalCluster::Start(nodes, 2, options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }
  LocalCluster::CliResult Cli(const TlsFiles& files, std::vector<std::string> arguments) {
    std::vector<std::string> all = Flags(files);
    all.insert(all.end(), {"--retry-seconds", "0"});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return cluster_->Cli(all);
  }
  LocalCluster::CliResult Cli(const std::string& who, std::vector<std::string> arguments) {
    return Cli(Files(who), arguments);
  }
  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path, std::ios::binary) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return path;
  }
  // The id. The test fails where it is refused.
  std::string SubmitAs(const std::string& who, const std::string& spec) {
    LocalCluster::CliResult result = Cli(who, {"submit", WriteFile("job.textproto", spec)});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find_first_of(" \n"));
  }
  std::shared_ptr<grpc::Channel> Channel(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(cluster_->address(), credentials, arguments);
  }
  // A request that has the right protocol version and nothing else.
  static std::string OnlyHeader() { return std::string("\x0a\x02\x08\x01", 4); }

  // Returns the error output of a program that is expected to end at once with exit code 1.
  std::string Refusal(const std::vector<std::string>& command) {
    auto child = ChildProgram::Start(command, {}, folder_ + "/refused");
    EXPECT_TRUE(child.ok()) << child.status();
    auto code = (*child)->Wait(Within(30));
    EXPECT_TRUE(code.ok() && *code == 1) << "it did not end, or not so";
    return (*child)->Errors();
  }
  void ExpectNextJobSucceeds() {
    const std::string job = SubmitAs("user-alice", FakeJob("succeed", 2));
    auto end = cluster_->WaitFor(job, Within(60));
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->state(), SUCCEEDED) << end->reason();
  }

  std::unique_ptr<LocalCluster> cluster_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FAULT_SECURITY_FIXTURE_H_
