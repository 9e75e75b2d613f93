// Ranks as processes, one of which is killed or stopped while it writes a message into the other's memory, or reads
// one: the other must learn it from its wait. (Nothing can be left: the memory has no name.)
//
// The test starts itself again for every rank: "shared_links_fault_test --rank <rank> <scene>". A rank talks with the
// test by lines on its standard input and output.
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/shared_peers.h"
#include "primitives/transport/talking_process.h"
#include "primitives/transport/transport_factory.h"

namespace adjoin {
namespace {

constexpr int kVictim = 1;
constexpr int kSteps = 9;  // the last of them is the victim's end
constexpr int64_t kElements = 4000;

// ---- in the ranks' processes ----

// Host memory whose copies stop in the middle, from some moment on.
class HaltingMemory final : public HostMemory {
 public:
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override {
    if (!halts) return HostMemory::Copy(element_bytes, from, onto, rows);
    Rows half = rows;
    half.row_elements /= 2;
    ADJOIN_RETURN_IF_ERROR(HostMemory::Copy(element_bytes, from, onto, half));
    Say("in the middle");
    Hear();  // until killed, or told to go on
    return HostMemory::Copy(element_bytes, from, onto, rows);
  }
  bool halts = false;
};

absl::Status RankMain(int rank, const std::string& scene) {
  TransportOptions options;
  options.rank = rank;
  options.size = 2;
  options.other_nodes = false;
  ADJOIN_ASSIGN_OR_RETURN(auto transport, MakeTransport(options));
  Say(absl::Base64Escape(transport->Address()));
  std::vector<std::string> addresses;
  for (int r = 0; r < 2; ++r) {
    addresses.emplace_back();
    if (!absl::Base64Unescape(Hear(), &addresses.back())) return absl::InternalError("the test sent no address");
  }
  ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, Deadline::After(absl::Seconds(20))));
  HaltingMemory memory;
  Communicator communicator(transport.get(), &memory, {0, absl::Seconds(scene == "stopped" ? 3 : 20)});
  // From the survivor to the victim, or a sum of both.
  const bool one_way = scene == "one way";
  const Layout everywhere = *Layout::Replicated({kElements}, DType::kFloat64, {0, 1});
  const Distribution from = Distribution::Of(one_way ? *Layout::Replicated({kElements}, DType::kFloat64, {0})
                                                     : *everywhere.Dual()),
                     to = Distribution::Of(one_way ? *Layout::Replicated({kElements}, DType::kFloat64, {kVictim})
                                                   : everywhere);
  const auto plan = MovementPlan::Build(from, to, rank);
  const bool has_source = !one_way || rank != kVictim, has_sum = !one_way || rank == kVictim;
  // The sender of messages that nobody answers goes on until there is no room.
  for (int step = 1; step <= (one_way && rank != kVictim ? kSteps + 9 : kSteps); ++step) {
    std::vector<double> x(has_source ? kElements : 0, step + rank), y(has_sum ? kElements : 0, 0);
    Buffer source, destination;
    source.data = x.data();
    destination.data = y.data();
    source.bytes = x.size() * sizeof(double);
    destination.bytes = y.size() * sizeof(double);
    memory.halts = rank == kVictim && step == kSteps;
    if (rank != kVictim && step == kSteps) {
      Say(transport->shared_peers() != nullptr && transport->shared_peers()->BytesSent() > 0 ? "shared" : "not shared");
    }
    ADJOIN_RETURN_IF_ERROR(communicator.Execute({7, "conv1.x"}, *plan, source, destination));
    const double right = one_way ? step : 2 * step + 1;
    if (y != std::vector<double>(y.size(), right)) return absl::DataLossError("a wrong sum");
  }
  return transport->Close(Deadline::After(absl::Seconds(20)));
}

// ---- in the test's process ----

constexpr absl::Duration kPatience = absl::Seconds(30);

struct Job {
  explicit Job(const std::string& scene)
      : survivor({"--rank", "0", scene}), victim({"--rank", absl::StrCat(kVictim), scene}) {
    const std::string first = survivor.Read(kPatience), second = victim.Read(kPatience);
    for (TalkingProcess* rank : {&survivor, &victim}) {
      rank->Write(first);
      rank->Write(second);
    }
    EXPECT_EQ(survivor.Read(kPatience), "shared");
    EXPECT_EQ(victim.Read(kPatience), "in the middle");
  }
  TalkingProcess survivor, victim;
};

TEST(SharedLinksFaultTest, TellsThePeerOfARankThatIsKilledWhileItWrites) {
  Job job("killed");
  const auto killed = Deadline::Clock::now();
  job.victim.Signal(SIGKILL);
  job.victim.Reap();
  const std::string status = job.survivor.Read(kPatience);
  const absl::Duration took = absl::FromChrono(Deadline::Clock::now() - killed);
  EXPECT_TRUE(absl::StartsWith(status,
                               "UNAVAILABLE: operator 7 (conv1.x) forward, generation 8: waiting for rank 1: "
                               "rank 1 died or cannot be reached: "))
      << status;
  EXPECT_LT(took, absl::Seconds(5)) << status;
  job.survivor.Reap();
}

TEST(SharedLinksFaultTest, TellsASenderThatItsReceiverWasKilledWhileItRead) {
  Job job("one way");
  job.victim.Signal(SIGKILL);
  job.victim.Reap();
  const std::string status = job.survivor.Read(kPatience);
  EXPECT_TRUE(absl::StartsWith(status, "UNAVAILABLE: ")) << status;
  EXPECT_TRUE(absl::StrContains(status, "rank 1 died or cannot be reached")) << status;
  job.survivor.Reap();
}

TEST(SharedLinksFaultTest, EndsAtItsDeadlineWhereThePeerIsStopped) {
  Job job("stopped");
  job.victim.Signal(SIGSTOP);
  const std::string status = job.survivor.Read(kPatience);
  EXPECT_TRUE(absl::StartsWith(status,
                               "DEADLINE_EXCEEDED: operator 7 (conv1.x) forward, generation 8: waiting for rank 1: "
                               "rank 0 waited too long for rank 1 to write a message in shared memory"))
      << status;
  job.survivor.Reap();
}

// What was half written is never taken for a message: the sum is right once the writer goes on.
TEST(SharedLinksFaultTest, GoesOnWithARankThatWasStopped) {
  Job job("going on");
  job.victim.Signal(SIGSTOP);
  EXPECT_EQ(job.survivor.Read(absl::Milliseconds(300)), "(nothing)");  // past spinning, yielding and many sleeps
  job.victim.Signal(SIGCONT);
  job.victim.Write("go on");
  // Every copy of the last execution halts.
  std::string line;
  while ((line = job.victim.Read(kPatience)) == "in the middle") job.victim.Write("go on");
  EXPECT_EQ(line, "OK");
  EXPECT_EQ(job.survivor.Read(kPatience), "OK");
  EXPECT_EQ(job.victim.Reap(), 0);
  EXPECT_EQ(job.survivor.Reap(), 0);
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--rank") {
    const absl::Status status = adjoin::RankMain(std::atoi(argv[2]), argv[3]);
    adjoin::Say(status.ToString());
    return status.ok() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
