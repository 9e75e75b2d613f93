// Ranks as processes, one of which is killed or stopped in the middle of a refresh, through shared memory and over TCP:
// the other must learn it from its call.
//
// The test starts itself again for every rank: "halo_refresh_fault_test --rank <rank> <scene>". A rank talks with the
// test by lines on its standard input and output.
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/kept_halo.h"
#include "primitives/geometry/layout.h"
#include "primitives/halo_refresh.h"
#include "primitives/status_exception.h"
#include "primitives/transport/talking_process.h"
#include "primitives/transport/transport_factory.h"

namespace adjoin {
namespace {

constexpr int kVictim = 1;
constexpr int kSteps = 9;  // the last of them is the victim's end

// ---- in the ranks' processes ----

// Host memory whose user stops before a copy, from some moment on: before an edge is packed.
class WaitingMemory final : public HostMemory {
 public:
  absl::Status Copy(int64_t element_bytes, const void* from, void* onto, const Rows& rows) override {
    if (waits) {
      Say("in the middle");
      Hear();  // until killed
    }
    return HostMemory::Copy(element_bytes, from, onto, rows);
  }
  bool waits = false;
};

absl::Status RankMain(int rank, const std::string& scene) {
  TransportOptions options;
  options.rank = rank;
  options.size = 2;
  options.shared_channels = !absl::StartsWith(scene, "tcp");
  options.shared_memory = !absl::StartsWith(scene, "tcp");
  ADJOIN_ASSIGN_OR_RETURN(auto transport, MakeTransport(options));
  Say(absl::Base64Escape(transport->Address()));
  std::vector<std::string> addresses;
  for (int r = 0; r < 2; ++r) {
    addresses.emplace_back();
    if (!absl::Base64Unescape(Hear(), &addresses.back())) return absl::InternalError("the test sent no address");
  }
  ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, Deadline::After(absl::Seconds(20))));
  WaitingMemory memory;
  Communicator communicator(transport.get(), &memory, {0, absl::Seconds(absl::StrContains(scene, "stopped") ? 3 : 20)});
  // Columns: an edge has as many rows as the field, and is packed.
  ADJOIN_ASSIGN_OR_RETURN(const Layout row, Layout::Partition({50, 8}, DType::kFloat64, {1, 2}, {0, 1}));
  ADJOIN_ASSIGN_OR_RETURN(
      const auto halo, HaloRefresh::Create(&communicator, row, {{1, {.lo = 1, .hi = 1}}}, {.id = 7, .name = "field"}));
  const at::NoGradGuard no_grad;
  const at::Tensor padded = halo->NewPadded();
  const at::Tensor interior = halo->InteriorOf(padded);
  const at::Tensor ring = padded.select(1, rank == 0 ? 5 : 0);
  for (int step = 1; step <= kSteps; ++step) {
    interior.fill_(10 * step + rank);
    memory.waits = rank == kVictim && step == kSteps;
    halo->Refresh(padded);
    if (!ring.eq(10 * step + 1 - rank).all().item<bool>()) return absl::DataLossError("a wrong ring");
  }
  return transport->Close(Deadline::After(absl::Seconds(20)));
}

// ---- in the test's process ----

constexpr absl::Duration kPatience = absl::Seconds(30);

class HaloRefreshFaultTest : public testing::TestWithParam<std::string> {};

TEST_P(HaloRefreshFaultTest, TellsThePeerOfARankThatIsGone) {
  const std::string& scene = GetParam();
  TalkingProcess survivor({"--rank", "0", scene}), victim({"--rank", absl::StrCat(kVictim), scene});
  const std::string first = survivor.Read(kPatience), second = victim.Read(kPatience);
  for (TalkingProcess* rank : {&survivor, &victim}) {
    rank->Write(first);
    rank->Write(second);
  }
  ASSERT_EQ(victim.Read(kPatience), "in the middle");
  const bool stopped = absl::StrContains(scene, "stopped");
  victim.Signal(stopped ? SIGSTOP : SIGKILL);
  if (!stopped) victim.Reap();
  const std::string status = survivor.Read(kPatience);
  EXPECT_TRUE(
      absl::StartsWith(status, absl::StrCat(stopped ? "DEADLINE_EXCEEDED" : "UNAVAILABLE",
                                            ": operator 7 (field) forward, generation 8: waiting for rank 1: ")))
      << status;
  EXPECT_EQ(WEXITSTATUS(survivor.Reap()), 1);
}

INSTANTIATE_TEST_SUITE_P(Scenes, HaloRefreshFaultTest,
                         testing::Values("shared_killed", "shared_stopped", "tcp_killed", "tcp_stopped"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--rank") {
    absl::Status status;
    try {
      status = adjoin::RankMain(std::atoi(argv[2]), argv[3]);
    } catch (...) {
      status = adjoin::StatusFromCurrentException();
    }
    adjoin::Say(status.ToString());
    return status.ok() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
