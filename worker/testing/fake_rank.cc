// A rank process for tests of the control plane. What it does is in the name of the job's spec: "succeed", "hang",
// "fail-rank-1" (reports an error on that rank), "exit-rank-1" (exits with code 3 without a result), "peer-rank-1" (the
// others report that a peer died, then rank 1 kills itself), "stubborn" (hangs and ignores the request to stop), "silent"
// (never becomes ready).
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/flags.h"
#include "proto/plan.pb.h"
#include "worker/rank_process_link.h"

namespace adjoin {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(60);

// "fail-rank-1" with "fail-rank-" is 1; -1 where the name is another.
int RankIn(absl::string_view name, absl::string_view prefix) {
  int rank = -1;
  return absl::ConsumePrefix(&name, prefix) && absl::SimpleAtoi(name, &rank) ? rank : -1;
}

int Report(RankProcessLink& link, const std::string& error, RankEnd end) {
  RankResult result;
  result.set_end(end);
  result.set_error(error);
  if (error.empty()) result.add_artifact("result.bin");
  link.SendResult(result, Deadline::After(kTimeout));
  return error.empty() ? 0 : 1;
}

int Succeed(RankProcessLink& link, const RankStart& start, const Plan& plan, uint32_t rank) {
  JobProgress progress;
  progress.set_step(10);
  progress.set_total_steps(10);
  progress.set_loss(0.25);
  (*progress.mutable_metric())["accuracy"] = 0.5;
  link.SendProgress(progress);
  if (rank == 0) {
    std::filesystem::path folder = std::filesystem::path(start.output_root()) / plan.spec().output_dir();
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "result.bin", std::ios::binary) << std::string(3000000, 'r');
  }
  return Report(link, "", RANK_SUCCEEDED);
}

int Run(const RankProcessLink::Settings& settings) {
  auto link = RankProcessLink::Connect(settings, Deadline::After(kTimeout));
  if (!link.ok()) return 1;
  auto start = (*link)->WaitForStart(Deadline::After(kTimeout));
  Plan plan;
  if (!start.ok() || !plan.ParseFromString(start->plan())) return 1;
  const std::string& name = plan.spec().name();
  int rank = static_cast<int>(settings.rank);
  std::cout << "rank " << rank << " does " << name << std::endl;
  absl::Notification stop;
  bool stubborn = name == "stubborn";
  (*link)->OnAbort([&](const absl::Status&) {
    if (!stubborn) stop.Notify();
  });
  if (name == "silent") return stop.WaitForNotificationWithTimeout(kTimeout) ? 1 : 2;
  (*link)->SendTransportAddress("nowhere");
  auto connect = (*link)->WaitForConnect(Deadline::After(kTimeout));
  if (!connect.ok()) return 1;
  (*link)->SendTransport("none");
  if (name == "succeed") return Succeed(**link, *start, plan, settings.rank);
  if (RankIn(name, "fail-rank-") == rank) return Report(**link, "the disk is full", RANK_ERROR);
  if (RankIn(name, "exit-rank-") == rank) return 3;
  int dying = RankIn(name, "peer-rank-");
  if (dying >= 0 && dying != rank) return Report(**link, "a peer died", RANK_PEER_FAILED);
  if (dying == rank) {
    absl::SleepFor(absl::Milliseconds(300));  // the peers' reports are to be first; part of what is simulated
    kill(getpid(), SIGSEGV);
  }
  stop.WaitForNotificationWithTimeout(kTimeout);
  return 1;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  adjoin::RankProcessLink::Settings settings;
  CLI::App app("A rank process for tests", "fake-rank");
  app.add_option("--socket", settings.socket)->required();
  app.add_option("--job", settings.job_id)->required();
  app.add_option("--rank", settings.rank)->required();
  app.add_option("--epoch", settings.epoch)->required();
  if (std::optional<int> code = adjoin::ParseFlags(app, argc, argv)) return *code;
  _exit(adjoin::Run(settings));
}
