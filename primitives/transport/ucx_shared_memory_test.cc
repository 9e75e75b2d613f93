// Whether ranks of one node agree on memory that they share, and that they do without where one of them cannot.
#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "gtest/gtest.h"
#include "primitives/transport/shared_peers.h"
#include "primitives/transport/ucx_address.h"
#include "primitives/transport/ucx_transport.h"

namespace adjoin {
namespace {

constexpr char kVariable[] = "ADJOIN_SHARED_CHANNELS";

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

UcxTransport::Options OptionsOf(int rank) {
  UcxTransport::Options options;
  options.rank = rank;
  options.size = 2;
  options.other_nodes = false;
  return options;
}

// Two connected ranks.
struct Pair {
  explicit Pair(UcxTransport::Options zero_options = OptionsOf(0), UcxTransport::Options one_options = OptionsOf(1))
      : zero(*UcxTransport::Create(zero_options)), one(*UcxTransport::Create(one_options)) {}
  void Connect() { Connect(one->Address()); }
  // Rank 0 hears `address` as that of rank 1.
  void Connect(const std::string& address) {
    absl::Status first, second;
    std::thread thread([&] { first = zero->Connect({zero->Address(), address}, Soon()); });
    second = one->Connect({zero->Address(), one->Address()}, Soon());
    thread.join();
    EXPECT_TRUE(first.ok()) << first;
    EXPECT_TRUE(second.ok()) << second;
  }
  // Both ranks share memory with the other one, or neither does.
  void ExpectShares(bool shares) {
    EXPECT_EQ(zero->shared_peers() != nullptr && zero->shared_peers()->With(1), shares);
    EXPECT_EQ(one->shared_peers() != nullptr && one->shared_peers()->With(0), shares);
  }
  std::unique_ptr<UcxTransport> zero, one;
};

TEST(UcxSharedMemoryTest, RanksOfOneNodeShareMemory) {
  Pair ranks;
  ranks.Connect();
  ranks.ExpectShares(true);
  SharedPeers& one = *ranks.one->shared_peers();
  const auto offset = one.arena().Take(100);
  ASSERT_TRUE(offset.ok()) << offset.status();
  std::strcpy(ranks.zero->shared_peers()->OfPeer(1, *offset, 100), "from rank 0");
  EXPECT_STREQ(one.arena().At(*offset, 100), "from rank 0");
  EXPECT_FALSE(one.With(1)) << "its own memory needs no way around";
  EXPECT_EQ(ranks.zero->BytesSent(), 0) << "what they agree by is no payload";
}

TEST(UcxSharedMemoryTest, IsTurnedOffByOptionAndByTheEnvironment) {
  UcxTransport::Options off = OptionsOf(1);
  off.shared_channels = false;
  Pair by_option(OptionsOf(0), off);
  by_option.Connect();
  by_option.ExpectShares(false);

  UcxTransport::Options no_shared_memory[] = {OptionsOf(0), OptionsOf(1)};
  for (UcxTransport::Options& options : no_shared_memory) {
    options.shared_memory = false;
    options.other_nodes = true;
  }
  Pair over_tcp(no_shared_memory[0], no_shared_memory[1]);
  over_tcp.Connect();
  over_tcp.ExpectShares(false);

  setenv(kVariable, "off", 1);
  Pair by_environment;
  setenv(kVariable, "of", 1);
  const absl::Status misspelt = UcxTransport::Create(OptionsOf(0)).status();
  unsetenv(kVariable);
  by_environment.Connect();
  by_environment.ExpectShares(false);
  EXPECT_EQ(misspelt.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(misspelt.message(), "ADJOIN_SHARED_CHANNELS=of: neither \"on\" nor \"off\"");
}

// A user who names UCX's transports gets what he named.
TEST(UcxSharedMemoryTest, IsOffWhereTheUserChoseTheWay) {
  setenv("UCX_TLS", "tcp,self", 1);
  setenv("UCX_NET_DEVICES", "lo", 1);
  Pair ranks;
  ranks.Connect();
  unsetenv("UCX_TLS");
  unsetenv("UCX_NET_DEVICES");
  ranks.ExpectShares(false);
}

TEST(UcxSharedMemoryTest, DoesWithoutWhereARankHasNoMemoryForIt) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto zero = *UcxTransport::Create(OptionsOf(0));
  const rlimit small = {32 << 20, before.rlim_max};  // enough for UCX
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  InitLogging("test");
  testing::internal::CaptureStderr();
  Pair ranks;
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::StrContains(said, "rank 1 shares no memory with ranks of its node, and uses UCX")) << said;
  ranks.zero = std::move(zero);
  ranks.Connect();
  ranks.ExpectShares(false);
}

// Rank 0 cannot open what rank 1 says; rank 1 could open rank 0's.
TEST(UcxSharedMemoryTest, DoesWithoutWhereARankCannotMapThePeers) {
  for (const bool empty : {true, false}) {
    Pair ranks;
    UcxAddress address = *DecodeUcxAddress(ranks.one->Address());
    address.arena.back() ^= 1;  // unused bytes: the length is right
    address.arena[8] ^= 1;      // the key
    if (empty) address.arena = "x";
    ranks.Connect(EncodeUcxAddress(address));
    ranks.ExpectShares(false);
  }
}

TEST(UcxSharedMemoryTest, WaitsForAWordAndIsWokenByItsWriter) {
  Pair ranks;
  ranks.Connect();
  SharedPeers& zero = *ranks.zero->shared_peers();
  SharedPeers& one = *ranks.one->shared_peers();
  const auto offset = zero.arena().Take(64);
  ASSERT_TRUE(offset.ok()) << offset.status();
  auto& own = *reinterpret_cast<std::atomic<uint64_t>*>(zero.arena().At(*offset, 64));
  auto& remote = *reinterpret_cast<std::atomic<uint64_t>*>(one.OfPeer(0, *offset, 64));
  const std::vector<SharedWord> words = {{&own, 0, 1}};
  EXPECT_EQ(ranks.zero->WaitAnyWord({}, words, Deadline::After(absl::Milliseconds(50))).code(),
            absl::StatusCode::kDeadlineExceeded);
  std::thread writer([&] {
    while (!ranks.zero->Reachable(1)) std::this_thread::yield();
    remote.store(5, std::memory_order_release);
    one.Touch(0);
    one.WakeTouched();
  });
  EXPECT_TRUE(ranks.zero->WaitAnyWord({}, words, Soon()).ok());
  writer.join();
  EXPECT_EQ(own.load(), 5u);
  // An abort ends it, too.
  const std::vector<SharedWord> never = {{&own, 5, 1}};
  std::thread aborter([&] { ranks.zero->Abort(absl::CancelledError("enough")); });
  EXPECT_EQ(ranks.zero->WaitAnyWord({}, never, Soon()).code(), absl::StatusCode::kCancelled);
  aborter.join();
  EXPECT_FALSE(ranks.zero->Reachable(1));
}

}  // namespace
}  // namespace adjoin
