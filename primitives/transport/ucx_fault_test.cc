// Ranks as processes, one of which is killed: the others must learn it from their waits, and soon.
//
// The test starts itself again for every rank: "ucx_fault_test --rank <rank> <size> <shm|tcp> <scene>". A rank talks
// with the test by lines on its standard input and output.
#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/talking_process.h"
#include "primitives/transport/ucx_transport.h"

namespace adjoin {
namespace {

constexpr int kSurvivor = 0;
constexpr int kVictim = 1;
constexpr int kWitness = 2;
constexpr int kRanks = 3;
constexpr size_t kLarge = size_t{64} << 20;

Tag MakeTag(int source, int64_t op) { return *Tag::Make({0, op, 0, Direction::kForward, source, 0}); }

Buffer BufferOf(const std::shared_ptr<std::vector<char>>& memory) {
  Buffer buffer;
  buffer.data = memory->data();
  buffer.bytes = memory->size();
  buffer.keepalive = memory;
  return buffer;
}

// ---- in the ranks' processes ----

absl::Status Exchange(UcxTransport& t, int from, int to, int64_t op) {
  auto memory = std::make_shared<std::vector<char>>(1000, 'w');
  const Tag tag = MakeTag(from, op);
  const Buffer buffer = BufferOf(memory);
  ADJOIN_ASSIGN_OR_RETURN(Handle handle,
                          t.rank() == from ? t.StartSend(to, tag, buffer) : t.StartRecv(from, tag, buffer));
  return t.Wait(handle, Deadline::After(absl::Seconds(20)));
}

// Waits for the victim, tells what came of it, then shows that failure is sticky and the witness still reachable.
absl::Status Survive(UcxTransport& t, const std::string& scene) {
  const bool send = scene == "sending";
  auto memory = std::make_shared<std::vector<char>>(scene == "waiting" ? 8 : kLarge);
  ADJOIN_ASSIGN_OR_RETURN(Handle handle, send ? t.StartSend(kVictim, MakeTag(kSurvivor, 1), BufferOf(memory))
                                              : t.StartRecv(kVictim, MakeTag(kVictim, 1), BufferOf(memory)));
  Say(absl::StrCat("ready ", t.Describe(kVictim)));
  Hear();  // that the victim has done its part: until here this rank has taken in nothing
  const absl::Status status = t.Wait(handle, Deadline::After(absl::Seconds(20)));
  Say(absl::StrCat("status ", status.ToString()));
  const absl::Status again = t.StartSend(kVictim, MakeTag(kSurvivor, 2), BufferOf(memory)).status();
  const absl::Status more = t.StartRecv(kVictim, MakeTag(kVictim, 2), BufferOf(memory)).status();
  if (!absl::IsUnavailable(again) || !absl::IsUnavailable(more)) {
    return absl::InternalError(absl::StrCat("not sticky: ", again.ToString(), ", ", more.ToString()));
  }
  return Exchange(t, kWitness, kSurvivor, 3);
}

absl::Status PlayVictim(UcxTransport& t, const std::string& scene) {
  auto memory = std::make_shared<std::vector<char>>(kLarge);
  if (scene == "partial") {
    ADJOIN_ASSIGN_OR_RETURN(Handle handle, t.StartSend(kSurvivor, MakeTag(kVictim, 1), BufferOf(memory)));
    for (int i = 0; i < 100; ++i) t.Test(handle);
    Say(t.Test(handle) ? "sent all" : "sent a part");
  } else {
    Say("idle");
  }
  Hear();  // until killed
  return absl::InternalError("the victim was not killed");
}

absl::Status RankMain(char** argv) {
  UcxTransport::Options options;
  options.rank = std::atoi(argv[2]);
  options.size = std::atoi(argv[3]);
  options.shared_memory = std::string(argv[4]) == "shm";
  const std::string scene = argv[5];
  ADJOIN_ASSIGN_OR_RETURN(auto transport, UcxTransport::Create(options));
  Say(absl::Base64Escape(transport->Address()));
  std::vector<std::string> addresses;
  for (int r = 0; r < options.size; ++r) {
    addresses.emplace_back();
    if (!absl::Base64Unescape(Hear(), &addresses.back())) return absl::InternalError("the test sent no address");
  }
  ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, Deadline::After(absl::Seconds(20))));
  if (options.rank == kSurvivor) return Survive(*transport, scene);
  if (options.rank == kVictim) return PlayVictim(*transport, scene);
  Say("witness");
  Hear();
  return Exchange(*transport, kWitness, kSurvivor, 3);
}

// ---- in the test's process ----

std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> files;
  DIR* directory = opendir("/dev/shm");
  if (directory == nullptr) return files;
  while (const dirent* entry = readdir(directory)) {
    if (absl::StrContains(entry->d_name, "ucx")) files.insert(entry->d_name);
  }
  closedir(directory);
  return files;
}

struct Scene {
  const char* way;
  const char* lane;
  const char* name;
};

class UcxFaultTest : public testing::TestWithParam<Scene> {};

TEST_P(UcxFaultTest, TellsThePeersOfAKilledRankSoon) {
  const Scene scene = GetParam();
  const std::set<std::string> files_before = SharedMemoryFiles();
  std::vector<std::unique_ptr<TalkingProcess>> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.push_back(std::make_unique<TalkingProcess>(
        std::vector<std::string>{"--rank", absl::StrCat(r), absl::StrCat(kRanks), scene.way, scene.name}));
  }
  std::vector<std::string> addresses;
  for (auto& rank : ranks) addresses.push_back(rank->Read(absl::Seconds(20)));
  for (auto& rank : ranks) {
    for (const std::string& address : addresses) rank->Write(address);
  }
  const std::string victim = ranks[kVictim]->Read(absl::Seconds(20));
  EXPECT_EQ(victim, std::string(scene.name) == "partial" ? "sent a part" : "idle");
  const std::string ready = ranks[kSurvivor]->Read(absl::Seconds(20));
  EXPECT_TRUE(absl::StrContains(ready, scene.lane)) << ready;
  EXPECT_EQ(ranks[kWitness]->Read(absl::Seconds(20)), "witness");

  // The victim is alive but makes no progress for several intervals of keepalive: that is not death.
  ranks[kSurvivor]->Write("wait");
  EXPECT_EQ(ranks[kSurvivor]->Read(absl::Milliseconds(400)), "(nothing)");

  const auto killed = Deadline::Clock::now();
  ranks[kVictim]->Kill();
  const std::string status = ranks[kSurvivor]->Read(absl::Seconds(25));
  const absl::Duration took = absl::FromChrono(Deadline::Clock::now() - killed);
  EXPECT_TRUE(absl::StartsWith(status, "status UNAVAILABLE: rank 1 died or cannot be reached: ")) << status;
  EXPECT_LT(took, absl::Seconds(5)) << status;
  std::cout << scene.way << " " << scene.name << ": known after " << took << "\n  " << status << std::endl;

  ranks[kWitness]->Write("go");
  EXPECT_EQ(ranks[kSurvivor]->Read(absl::Seconds(20)), "OK");
  EXPECT_EQ(ranks[kSurvivor]->Reap(), 0);
  EXPECT_EQ(ranks[kWitness]->Read(absl::Seconds(20)), "OK");
  EXPECT_EQ(ranks[kWitness]->Reap(), 0);
  // Workers of other programs come and go meanwhile; what is left of ours would stay.
  std::set<std::string> left;
  const Deadline deadline = Deadline::After(absl::Seconds(5));
  do {
    left = SharedMemoryFiles();
    for (const std::string& file : files_before) left.erase(file);
  } while (!left.empty() && !deadline.Expired());
  EXPECT_TRUE(left.empty()) << *left.begin();
}

INSTANTIATE_TEST_SUITE_P(All, UcxFaultTest,
                         testing::Values(Scene{"shm", "posix", "waiting"}, Scene{"shm", "posix", "partial"},
                                         Scene{"shm", "posix", "sending"}, Scene{"tcp", "tcp", "waiting"},
                                         Scene{"tcp", "tcp", "partial"}, Scene{"tcp", "tcp", "sending"}),
                         [](const testing::TestParamInfo<Scene>& info) {
                           return absl::StrCat(info.param.way, info.param.name);
                         });

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--rank") {
    const absl::Status status = adjoin::RankMain(argv);
    adjoin::Say(status.ToString());
    return status.ok() ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
