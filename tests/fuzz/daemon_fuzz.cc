// Messages to a daemon, in any order, from a coordinator and from processes that claim to be ranks. The ranks' program
// does not exist, so that each start fails: what is tested is the daemon's account of it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "proto/plan.pb.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/check.h"
#include "worker/daemon/attempts.h"

namespace adjoin {
namespace {

// A start is an attempt to run a program, which takes long for a fuzzer.
constexpr int kMostStarts = 3;

class DeafPeer : public RankPeer {
 public:
  void Send(const DaemonMessage&) override {}
};

// Each rank ends once, and none after its attempt was said to be cleared: not even where that was the answer to a stop
// that came before the start. A start that is refused is answered each time.
class Account {
 public:
  void Hear(const WorkerMessage& message) {
    absl::MutexLock lock(&mutex_);
    const uint64_t epoch = message.header().epoch();
    if (message.has_rank_ended()) {
      const RankEnded& ended = message.rank_ended();
      const std::string attempt = absl::StrCat(ended.job_id(), " ", epoch);
      FuzzCheck(ended.end() != RANK_END_UNSPECIFIED, "an end has its kind");
      if (absl::StartsWith(ended.error(), "was not started: ")) return;
      FuzzCheck(ended_[attempt].insert(ended.rank()).second, absl::StrCat("rank ", ended.rank(), " ends once"));
      FuzzCheck(cleared_.count(attempt) == 0, "a rank ends before its attempt is cleared");
    } else if (message.has_attempt_cleared()) {
      cleared_.insert(absl::StrCat(message.attempt_cleared().job_id(), " ", epoch));
    }
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::set<uint32_t>> ended_;
  std::set<std::string> cleared_;
};

StartRanks Start(ByteReader& bytes, const std::string& job) {
  StartRanks start;
  start.set_job_id(job);
  for (uint32_t count = 1 + bytes.Below(2); count > 0; --count) start.add_rank(bytes.Below(4));
  start.set_world_size(static_cast<uint32_t>(bytes.Number()));
  start.set_memory_bytes(bytes.Number());
  Plan plan;
  plan.mutable_spec()->set_output_dir("out");
  start.set_plan(bytes.Flag() ? plan.SerializeAsString() : bytes.Text(32));
  return start;
}

RankMessage Said(ByteReader& bytes) {
  RankMessage message;
  switch (bytes.Below(5)) {
    case 0: message.set_transport_address(bytes.Text(16)); break;
    case 1: message.mutable_result()->set_end(static_cast<RankEnd>(bytes.Below(8))); break;
    case 2: message.mutable_progress()->set_step(bytes.Number()); break;
    case 3: message.mutable_pulse()->set_step(bytes.Number()); break;
    case 4: message.ParsePartialFromString(bytes.Text(64)); break;
  }
  return message;
}

void OneThing(NodeAttempts& attempts, ByteReader& bytes, int& starts) {
  const std::string job = absl::StrCat("job-", bytes.Below(2));
  const uint64_t epoch = bytes.Below(4);
  const uint32_t rank = bytes.Below(4);
  switch (bytes.Below(12)) {
    case 0:
    case 1:
      if (++starts <= kMostStarts) attempts.Start(epoch, Start(bytes, job));
      break;
    case 2: {
      ConnectRanks connect;
      connect.set_job_id(job);
      connect.add_transport_address(bytes.Text(8));
      attempts.ConnectRanks(epoch, connect);
      break;
    }
    case 3: attempts.Stop(job, epoch, "cancelled"); break;
    case 4: attempts.Acknowledged(job, epoch); break;
    case 5: {
      WorkerHello hello;
      attempts.MakeReports(hello, [] {});
      for (const AttemptReport& report : hello.attempt()) {
        FuzzCheck(report.rank_size() > 0, "a report has ranks");
        for (const RankReport& each : report.rank()) {
          FuzzCheck(!report.cleared() || each.has_ended(), "a cleared attempt's ranks have ended");
        }
      }
      break;
    }
    case 6: {
      Heartbeat heartbeat;
      attempts.FillHeartbeat(heartbeat);
      break;
    }
    case 7: bytes.Flag() ? attempts.Connected() : attempts.Disconnected(); break;
    case 8: {
      RankHello hello;
      hello.set_job_id(job);
      hello.set_rank(rank);
      hello.set_pid(static_cast<int64_t>(bytes.Number()));
      attempts.RankConnected(epoch, hello, std::make_shared<DeafPeer>()).IgnoreError();
      break;
    }
    case 9: attempts.RankSaid({job, epoch, rank}, Said(bytes)); break;
    case 10: attempts.RankDisconnected({job, epoch, rank}); break;
    case 11:
      switch (bytes.Below(8)) {
        case 0: attempts.Drain("the daemon stops"); break;
        case 1: attempts.LeaseOver(); break;
        default: attempts.SetLease(static_cast<int64_t>(bytes.Number()), absl::Seconds(bytes.Byte())); break;
      }
      break;
  }
}

// A folder of the process's own, which goes with it.
struct Folder {
  Folder() : path("/tmp/adjoin-daemon-fuzz-XXXXXX") { FuzzCheck(mkdtemp(path.data()) != nullptr, "a folder"); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

}  // namespace
}  // namespace adjoin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  adjoin::ByteReader bytes(data, size);
  adjoin::Account account;
  adjoin::NodeAttempts::Settings settings;
  settings.rank_binary = "/nowhere/adjoin-rank";
  settings.socket = "link/rank.sock";
  static const adjoin::Folder folder;  // in which only notes are written: no rank runs
  settings.data_root = settings.output_root = folder.path;
  adjoin::NodeAttempts attempts(std::move(settings),
                                [&account](adjoin::WorkerMessage message) { account.Hear(message); });
  int starts = 0;
  while (!bytes.empty()) adjoin::OneThing(attempts, bytes, starts);
  attempts.KillAll("the test is over");
  adjoin::FuzzCheck(attempts.WaitUntilCleared(adjoin::Deadline::After(absl::Seconds(20))), "everything is cleared");
  return 0;
}
