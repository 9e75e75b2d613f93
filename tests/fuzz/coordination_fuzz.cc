// The coordinator's decisions under any history: each byte of the input is something that happens to a simulated
// cluster.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/simulated_cluster.h"

namespace adjoin {
namespace {

constexpr int kDaemons = 3;
constexpr uint32_t kSlots = 2;
constexpr int kMostJobs = 12;
constexpr int kMostWithGpus = 2;  // of ranks that all at once have a GPU; on one or two nodes

JobSpec Spec(ByteReader& bytes) {
  JobSpec spec;
  spec.set_name(absl::StrCat("job", bytes.Below(2)));
  spec.set_ranks(1 + bytes.Below(4));
  spec.set_seed(bytes.Below(3));
  const uint8_t policy = bytes.Byte();
  spec.mutable_restart()->set_max_restarts(policy % 4);
  spec.mutable_restart()->set_backoff_s((policy & 4) != 0 ? 2 : 0);
  if ((policy & 8) != 0) spec.mutable_restart()->add_on("error");
  if ((policy & 16) != 0) spec.add_dataset()->set_name("train");
  if ((policy & 64) != 0 && spec.ranks() <= kMostWithGpus) spec.mutable_resources()->set_gpus(1);
  if ((policy & 32) != 0 && spec.ranks() <= kDaemons) spec.mutable_resources()->set_max_ranks_per_node(1);
  return spec;
}

absl::Duration Time(ByteReader& bytes) {
  static constexpr int kMillis[] = {0, 100, 999, 1000, 3001, 10001, 31000, 61000, 119000, 120001, 126000, 601000};
  return absl::Milliseconds(kMillis[bytes.Below(12)]);
}

// A message about existing jobs, from a connection that does not keep the protocol.
WorkerMessage Garbage(ByteReader& bytes) {
  WorkerMessage message;
  message.mutable_header()->set_epoch(bytes.Number());
  const std::string job = absl::StrCat("job-", bytes.Below(4));
  switch (bytes.Below(5)) {
    case 0:
      message.mutable_rank_ready()->set_job_id(job);
      message.mutable_rank_ready()->set_rank(static_cast<uint32_t>(bytes.Number()));
      break;
    case 1:
      message.mutable_rank_ended()->set_job_id(job);
      message.mutable_rank_ended()->set_rank(static_cast<uint32_t>(bytes.Number()));
      message.mutable_rank_ended()->set_end(static_cast<RankEnd>(bytes.Number()));
      break;
    case 2: {
      AttemptPulse& pulse = *message.mutable_heartbeat()->add_attempt();
      pulse.set_job_id(job);
      pulse.set_epoch(bytes.Number());
      pulse.add_rank()->set_rank(static_cast<uint32_t>(bytes.Number()));
      pulse.mutable_rank(0)->set_step(bytes.Number());
      break;
    }
    case 3:
      message.mutable_rank_update()->set_job_id(job);
      message.mutable_rank_update()->mutable_progress()->set_step(bytes.Number());
      break;
    case 4: message.ParsePartialFromString(bytes.Text(64)); break;
  }
  // Only a daemon's own message clears an attempt; a daemon with wrong reports about its processes is not tested here.
  if (message.has_attempt_cleared()) message.clear_attempt_cleared();
  return message;
}

// Arguments are read in statements of their own: compilers differ in the order in which they evaluate those of a call.
void Submit(SimulatedCluster& cluster, ByteReader& bytes) {
  const JobSpec spec = Spec(bytes);
  const uint32_t key = bytes.Below(6);
  cluster.Submit(spec, key < 3 ? "" : absl::StrCat("key-", key));
}

void OneThing(SimulatedCluster& cluster, ByteReader& bytes, int& jobs) {
  static constexpr RankEnd kEnds[] = {RANK_SUCCEEDED, RANK_ERROR,       RANK_HOPELESS,
                                      RANK_LOST,      RANK_PEER_FAILED, RANK_DRAINED};
  const int daemon = static_cast<int>(bytes.Below(kDaemons));
  switch (bytes.Below(24)) {
    case 0:
    case 1:
      cluster.Advance(Time(bytes));
      cluster.Tick();
      break;
    case 2: cluster.Tick(); break;
    case 3:
    case 4:
    case 5:
      cluster.MakePlans(true);
      cluster.Commit();
      break;
    case 6: cluster.Commit(); break;
    case 7:
      if (++jobs <= kMostJobs) Submit(cluster, bytes);
      break;
    case 8: cluster.Connect(daemon); break;
    case 9: cluster.BreakStream(daemon); break;
    case 10: cluster.CrashDaemon(daemon); break;
    case 11:
    case 12:
    case 13: cluster.DaemonReads(daemon); break;
    case 14:
    case 15: cluster.CoordinatorReads(daemon); break;
    case 16: cluster.Heartbeat(daemon, bytes.Below(16) == 1); break;
    case 17: cluster.RankReady(daemon, bytes.Byte()); break;
    case 18: {
      const uint8_t which = bytes.Byte();
      cluster.RankStep(daemon, which, bytes.Byte());
      break;
    }
    case 19: {
      const uint8_t which = bytes.Byte();
      cluster.RankEnds(daemon, which, kEnds[bytes.Below(6)]);
      break;
    }
    case 20: cluster.CrashCoordinator(); break;
    case 21: cluster.Garbage(daemon, Garbage(bytes)); break;
    case 22:
      switch (bytes.Below(6)) {
        case 5: cluster.SetWallClock(absl::Hours(static_cast<int>(bytes.Byte()) - 128)); break;
        case 0: cluster.Cancel(bytes.Byte()); break;
        case 1: cluster.Retry(bytes.Byte()); break;
        case 2: cluster.Hold(bytes.Byte(), true); break;
        case 3: cluster.Hold(bytes.Byte(), false); break;
        case 4: cluster.MakePlans(false); break;
      }
      break;
    case 23: cluster.FailCommit(); break;
  }
  cluster.Check();
}

}  // namespace
}  // namespace adjoin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  adjoin::ByteReader bytes(data, size);
  adjoin::SimulatedCluster cluster(adjoin::kDaemons, adjoin::kSlots);
  for (int i = 0; i < adjoin::kDaemons; ++i) cluster.Connect(i);
  int jobs = 0;
  while (!bytes.empty()) adjoin::OneThing(cluster, bytes, jobs);
  cluster.ExpectEverythingEnds();
  return 0;
}
