#include "primitives/transport/shared_arena.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

constexpr int64_t kSmall = int64_t{1} << 20;

// The exit code of a child that runs `fn`; 128 + the signal that ended it.
int InChild(const std::function<int()>& fn) {
  const pid_t child = fork();
  if (child == 0) _exit(fn());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool Rings(const SharedArena& arena) {
  pollfd event = {arena.bell(), POLLIN, 0};
  return poll(&event, 1, 0) == 1;
}

TEST(SharedArenaTest, IsTheSameMemoryInAnotherProcess) {
  const auto arena = SharedArena::Create(kSmall);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const auto offset = (*arena)->Take(1000);
  ASSERT_TRUE(offset.ok()) << offset.status();
  char* const own = (*arena)->At(*offset, 1000);
  std::strcpy(own, "from the owner");
  const int code = InChild([&] {
    const auto peer = PeerArena::Map((*arena)->Address());
    if (!peer.ok()) return 1;
    char* const memory = (*peer)->At(*offset, 1000);
    if (memory == nullptr || memory == own || std::string(memory) != "from the owner") return 2;
    std::strcpy(memory, "from the peer");
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_STREQ(own, "from the peer");
}

TEST(SharedArenaTest, GivesNothingOutsideOfIt) {
  const auto arena = SharedArena::Create(kSmall);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const auto peer = PeerArena::Map((*arena)->Address());
  ASSERT_TRUE(peer.ok()) << peer.status();
  constexpr int64_t kMost = INT64_MAX;
  EXPECT_NE((*peer)->At(4096, kSmall - 4096), nullptr);
  EXPECT_NE((*peer)->At(kSmall - 64, 64), nullptr);
  const std::vector<std::pair<int64_t, int64_t>> outside = {
      {0, 64},           {-64, 64},         {4032, 64},
      {4100, 8},         {4096, kSmall},    {4096, -1},
      {kSmall - 64, 65}, {kMost - 63, 64},  {kMost / 64 * 64, kMost},
      {INT64_MIN, 64},   {4096, INT64_MIN}, {kSmall, 1}};
  for (const auto& [offset, bytes] : outside) EXPECT_EQ((*peer)->At(offset, bytes), nullptr) << offset << " " << bytes;
}

// Against a map of every byte.
TEST(SharedArenaTest, TakesAndGivesInAnyOrder) {
  constexpr int64_t kBytes = 64 << 10;
  const auto arena = SharedArena::Create(kBytes);
  ASSERT_TRUE(arena.ok()) << arena.status();
  std::mt19937_64 random(7);
  std::vector<bool> used(kBytes, false);
  std::map<int64_t, int64_t> taken;
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    if (!taken.empty() && random() % 2 == 0) {
      const auto it = std::next(taken.begin(), static_cast<int64_t>(random() % taken.size()));
      for (int64_t at = it->first; at < it->first + it->second; ++at) used[at] = false;
      (*arena)->Give(it->first, it->second);
      taken.erase(it);
      continue;
    }
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 9000);
    const auto offset = (*arena)->Take(bytes);
    if (!offset.ok()) {
      EXPECT_EQ(offset.status().code(), absl::StatusCode::kResourceExhausted);
      ++refused;
      continue;
    }
    char* const memory = (*arena)->At(*offset, bytes);
    ASSERT_NE(memory, nullptr) << *offset;
    for (int64_t at = 0; at < bytes; ++at) {
      ASSERT_FALSE(used[*offset + at]) << "taken twice";
      ASSERT_EQ(memory[at], 0) << "not fresh";
      used[*offset + at] = true;
    }
    std::memset(memory, 'x', static_cast<size_t>(bytes));
    taken[*offset] = bytes;
  }
  EXPECT_GT(refused, 0);
  for (const auto& [offset, bytes] : taken) (*arena)->Give(offset, bytes);
  EXPECT_EQ((*arena)->taken(), 0);
  EXPECT_TRUE((*arena)->Take(kBytes - 4096).ok()) << "what was given back is not one piece again";
  EXPECT_FALSE((*arena)->Take(1).ok());
}

TEST(SharedArenaTest, RingsOnlyForWhoSleeps) {
  const auto arena = SharedArena::Create(kSmall);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const auto peer = PeerArena::Map((*arena)->Address());
  ASSERT_TRUE(peer.ok()) << peer.status();
  (*peer)->WakeIfAsleep();
  EXPECT_FALSE(Rings(**arena));
  (*arena)->AnnounceSleep();
  EXPECT_FALSE(Rings(**arena));
  (*peer)->WakeIfAsleep();
  EXPECT_TRUE(Rings(**arena));
  (*arena)->Awake();
  EXPECT_FALSE(Rings(**arena));
  (*peer)->WakeIfAsleep();
  EXPECT_FALSE(Rings(**arena));
}

// A pipe without readers would end the process by a signal, and memory that shrank by another.
TEST(SharedArenaTest, OutlivesItsOwner) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto arena = SharedArena::Create(kSmall);
    const std::string address = arena.ok() ? (*arena)->Address() : "";
    if (!arena.ok() || write(pipes[1], address.data(), address.size()) < 0) _exit(1);
    (*arena)->AnnounceSleep();
    pause();
  }
  std::string address(1000, '\0');
  address.resize(static_cast<size_t>(read(pipes[0], address.data(), address.size())));
  const auto peer = PeerArena::Map(address);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  ASSERT_TRUE(peer.ok()) << peer.status();
  for (int i = 0; i < 100000; ++i) (*peer)->WakeIfAsleep();
  char* const memory = (*peer)->At(4096, kSmall - 4096);
  std::memset(memory, 'x', kSmall - 4096);
  EXPECT_EQ(memory[kSmall - 4097], 'x');
  EXPECT_EQ(PeerArena::Map(address).status().code(), absl::StatusCode::kUnavailable);
}

TEST(SharedArenaTest, RefusesWhatIsNoArena) {
  const auto arena = SharedArena::Create(kSmall);
  ASSERT_TRUE(arena.ok()) << arena.status();
  const std::string address = (*arena)->Address();
  EXPECT_EQ(PeerArena::Map("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PeerArena::Map(address.substr(1)).status().code(), absl::StatusCode::kInvalidArgument);
  int mapped = 0;
  for (size_t i = 0; i < address.size(); ++i) {
    std::string changed = address;
    changed[i] ^= 0x40;
    if (PeerArena::Map(changed).ok()) ++mapped;
  }
  EXPECT_LE(mapped, 4) << "only the unused bytes may be anything";
}

// A limit must not end the process: without memory there is a status.
TEST(SharedArenaTest, SaysWhatThisProcessHasNot) {
  const auto under = [](int limit, rlim_t value) {
    return InChild([=] {
      const rlimit limits = {value, value};
      if (setrlimit(static_cast<__rlimit_resource>(limit), &limits) != 0) return 1;
      const auto arena = SharedArena::Create();
      if (arena.ok()) return 2;
      return arena.status().message().empty() ? 3 : 0;
    });
  };
  EXPECT_EQ(under(RLIMIT_FSIZE, 1 << 20), 0);
  EXPECT_EQ(under(RLIMIT_NOFILE, 3), 0);
  EXPECT_EQ(under(RLIMIT_AS, 32 << 20), 0);
}

}  // namespace
}  // namespace adjoin
