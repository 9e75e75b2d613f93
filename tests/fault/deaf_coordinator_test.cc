// A coordinator that has run out of file descriptors: gRPC never accepts a connection again, so it ends with the
// reason, and jobs run on until it is there again.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "tests/fault/fake_jobs.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kTool[] = "/usr/bin/prlimit";

Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

// Connections that never say anything.
class Crowd {
 public:
  Crowd(int count, int port) {
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      EXPECT_GE(fd, 0);
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));  // goes on by itself
      fds_.push_back(fd);
    }
  }
  ~Crowd() {
    for (int fd : fds_) close(fd);
  }

 private:
  std::vector<int> fds_;
};

TEST(DeafCoordinatorTest, EndsByItselfAndJobsRunOn) {
  if (access(kTool, X_OK) != 0) GTEST_SKIP() << "there is no " << kTool;
  LocalClusterOptions options;
  options.rank_binary = "worker/testing/fake-rank";
  options.coordinator.prefix = {kTool, "--nofile=256:256"};  // the hard limit, too: it cannot be raised
  options.coordinator.flags = {"--self-check-seconds", "0.5"};
  auto started = LocalCluster::Start(1, 2, options);
  ASSERT_TRUE(started.ok()) << started.status();
  LocalCluster& cluster = **started;
  absl::StatusOr<std::string> job = cluster.Submit(FakeJob("steps-100000x5ms", 2));
  ASSERT_TRUE(job.ok()) << job.status();
  auto running = cluster.WaitUntil(
      *job, [](const JobSummary& s) { return s.progress().step() >= 3; }, Within(60));
  ASSERT_TRUE(running.ok()) << running.status();
  auto pids = cluster.RankPids(*job);
  ASSERT_TRUE(pids.ok()) << pids.status();

  auto address = ParseEndpoint(cluster.address());
  ASSERT_TRUE(address.ok()) << address.status();
  {
    Crowd crowd(300, address->port);
    auto code = cluster.WaitForCoordinatorEnd(Within(60));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 1);
  }
  EXPECT_THAT(ReadFile(cluster.folder() + "/coordinator-log.err"),
              AllOf(HasSubstr(absl::StrCat("error: this server does not answer at ", cluster.address(),
                                           ", 3 times in a row: ")),
                    AnyOf(HasSubstr("no file descriptor is left of 256"), HasSubstr("a connection is not accepted"))));

  ASSERT_TRUE(cluster.StartCoordinator().ok());
  ASSERT_TRUE(cluster.WaitForWorkers(Within(60)).ok());
  running = cluster.WaitUntil(
      *job, [](const JobSummary& s) { return s.state() == RUNNING; }, Within(60));
  ASSERT_TRUE(running.ok()) << running.status();
  auto same = cluster.RankPids(*job);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, *pids);
  EXPECT_EQ(cluster.Stop(), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
