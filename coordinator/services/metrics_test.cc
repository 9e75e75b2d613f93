#include "coordinator/services/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Get(int port, const std::string& path) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
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

TEST(MetricsTest, EveryScrapeShowsTheClusterAsItIsThen) {
  prometheus::Histogram commits(CommitSecondsBounds());
  commits.Observe(0.00390625);
  commits.Observe(9);
  ClusterSnapshot now;
  now.jobs = {{PENDING, 3}, {RUNNING, 1}};
  now.queue_length = 3;
  now.queue_oldest_seconds = 12.5;
  now.workers = {{"worker-0", "ready", 0.4, 4, 1, 4, 1}, {"worker-1", "suspect", 4, 2, 2, 0, 0}};
  now.running = {{"job-7", 120, 0.25, 0.2, 0.05, 1 << 20, -0.5, 0.75},
                 {"job-8", 0, 0, 0, 0, 0, std::nullopt, std::nullopt},
                 {"job-9", 1, 0, 0, 0, 0, std::nan(""), std::nullopt}};
  now.submits = 10;
  now.restarts = {{"node_lost", 2}};
  now.goodput_seconds = 3600;
  now.lost_seconds = 60;
  now.workers_lost = 5;
  Metrics metrics([&] { return now; }, commits);
  EXPECT_EQ(metrics.port(), 0);
  ASSERT_EQ(metrics.Listen("localhost:0", false), absl::OkStatus());
  ASSERT_GT(metrics.port(), 0);
  std::string text = Get(metrics.port(), "/metrics");
  EXPECT_THAT(text, HasSubstr("200 OK"));
  for (const char* line : {"# TYPE adjoin_jobs gauge",
                           "adjoin_jobs{state=\"pending\"} 3",
                           "adjoin_jobs{state=\"running\"} 1",
                           "adjoin_jobs{state=\"failed\"} 0",
                           "adjoin_queue_length 3",
                           "adjoin_queue_oldest_seconds 12.5",
                           "adjoin_workers{state=\"ready\"} 1",
                           "adjoin_workers{state=\"suspect\"} 1",
                           "adjoin_workers{state=\"unfit\"} 0",
                           "adjoin_workers{state=\"set aside\"} 0",
                           "adjoin_workers{state=\"lost\"} 0",
                           "# TYPE adjoin_workers_lost_total counter",
                           "adjoin_workers_lost_total 5",
                           "adjoin_slots 6",
                           "adjoin_slots_free 3",
                           "adjoin_gpus 4",
                           "adjoin_gpus_free 1",
                           "adjoin_worker_heartbeat_age_seconds{worker=\"worker-1\"} 4",
                           "adjoin_job_step{job=\"job-7\"} 120",
                           "adjoin_job_step{job=\"job-8\"} 0",
                           "adjoin_job_step_seconds{job=\"job-7\"} 0.25",
                           "adjoin_job_sync_seconds{job=\"job-7\"} 0.05",
                           "# TYPE adjoin_job_loss gauge",
                           "adjoin_job_loss{job=\"job-7\",loss=\"train\"} -0.5",
                           "adjoin_job_loss{job=\"job-7\",loss=\"validation\"} 0.75",
                           "adjoin_job_loss{job=\"job-9\",loss=\"train\"} Nan",
                           "# TYPE adjoin_job_sent_bytes_total counter",
                           "adjoin_job_sent_bytes_total{job=\"job-7\"} 1048576",
                           "adjoin_submits_total 10",
                           "adjoin_restarts_total{reason=\"node_lost\"} 2",
                           "adjoin_goodput_seconds_total 3600",
                           "adjoin_lost_seconds_total 60",
                           "# TYPE adjoin_store_commit_seconds histogram",
                           "adjoin_store_commit_seconds_bucket{le=\"0.0005\"} 0",
                           "adjoin_store_commit_seconds_bucket{le=\"0.002\"} 0",
                           "adjoin_store_commit_seconds_bucket{le=\"0.005\"} 1",
                           "adjoin_store_commit_seconds_bucket{le=\"5\"} 1",
                           "adjoin_store_commit_seconds_bucket{le=\"+Inf\"} 2",
                           "adjoin_store_commit_seconds_count 2",
                           "adjoin_store_commit_seconds_sum 9.00390625"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("adjoin_job_step_seconds{job=\"job-8\"}"))) << "its step time is not known yet";
  EXPECT_THAT(text, Not(HasSubstr("adjoin_job_loss{job=\"job-8\"")));

  now.running = {};
  now.workers.pop_back();
  text = Get(metrics.port(), "/metrics");
  EXPECT_THAT(
      text, AllOf(Not(HasSubstr("job-7")), Not(HasSubstr("worker-1")), HasSubstr("adjoin_workers{state=\"ready\"} 1")));
  EXPECT_THAT(Get(metrics.port(), "/etc/passwd"), HasSubstr("404"));
}

TEST(MetricsTest, ListensOnlyOnLoopbackUnlessPublicIsAllowed) {
  const prometheus::Histogram commits(CommitSecondsBounds());
  Metrics metrics([] { return ClusterSnapshot(); }, commits);
  absl::Status refused = metrics.Listen("0.0.0.0:0", false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--metrics-public"));
  EXPECT_THAT(std::string(metrics.Listen("7411", false).message()), HasSubstr("is not HOST:PORT"));
  EXPECT_EQ(metrics.Listen("0.0.0.0:0", true), absl::OkStatus());
  Metrics second([] { return ClusterSnapshot(); }, commits);
  EXPECT_EQ(second.Listen(absl::StrCat("127.0.0.1:", metrics.port()), false).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.port(), 0);
}

}  // namespace
}  // namespace adjoin
