#include "worker/daemon/rank_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two sockets of four cores with two threads each; hwloc numbers the processors of such a machine in their order.
constexpr char kTwoSockets[] = "numa:2 core:4 pu:2";

std::vector<RankPlace> Places(RankBinding binding, int slots, const std::string& machine, int threads = 1) {
  const absl::StatusOr<std::vector<RankPlace>> places =
      RankPlaces(binding, {.slots = slots, .threads = threads, .machine = machine});
  EXPECT_EQ(places.status(), absl::OkStatus());
  return places.ok() ? *places : std::vector<RankPlace>();
}

TEST(RankBindingTest, NeighboursShareANodeOfMemory) {
  const std::vector<RankPlace> places = Places(RankBinding::kAuto, 4, kTwoSockets);
  ASSERT_THAT(places, SizeIs(4));
  for (int slot : {0, 1}) {
    EXPECT_THAT(places[slot].processors, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    EXPECT_EQ(places[slot].memory, 0);
    EXPECT_EQ(places[slot].text, "processors 0-7, memory 0");
  }
  for (int slot : {2, 3}) EXPECT_EQ(places[slot].text, "processors 8-15, memory 1");
}

TEST(RankBindingTest, OneNodeOfMemoryBindsNothingUnlessTold) {
  EXPECT_THAT(Places(RankBinding::kAuto, 4, "core:4 pu:2"), IsEmpty());
  EXPECT_THAT(Places(RankBinding::kNone, 4, kTwoSockets), IsEmpty());
  EXPECT_THAT(Places(RankBinding::kAuto, 1, kTwoSockets), IsEmpty()) << "one rank has the whole machine";
  EXPECT_THAT(Places(RankBinding::kAuto, 2, kTwoSockets, /*threads=*/16), IsEmpty());
  EXPECT_THAT(Places(RankBinding::kAuto, 2, kTwoSockets, /*threads=*/8), SizeIs(2));
  EXPECT_THAT(Places(RankBinding::kAuto, 4, kTwoSockets, /*threads=*/8), IsEmpty()) << "two ranks of a node do not fit";
  EXPECT_THAT(Places(RankBinding::kAuto, 3, "numa:4 core:2 pu:1"), IsEmpty()) << "a node would be idle";
  const std::vector<RankPlace> places = Places(RankBinding::kNuma, 3, "core:4 pu:2");
  ASSERT_THAT(places, SizeIs(3));
  EXPECT_EQ(places[2].text, "processors 0-7, memory 0");
}

TEST(RankBindingTest, EachSlotHasCoresOfItsOwn) {
  const std::vector<RankPlace> places = Places(RankBinding::kCores, 3, kTwoSockets);
  ASSERT_THAT(places, SizeIs(3));
  EXPECT_EQ(places[0].text, "processors 0-3, memory 0");
  EXPECT_EQ(places[1].text, "processors 4-9") << "its cores have two nodes of memory";
  EXPECT_EQ(places[1].memory, -1);
  EXPECT_EQ(places[2].text, "processors 10-15, memory 1");
  const absl::Status status = RankPlaces(RankBinding::kCores, {.slots = 9, .machine = kTwoSockets}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there are 9 slots and 8 cores"));
}

// Every number of slots on some machines: each slot has a place, no node of memory has more than its share, and of
// cores none is used twice and none left over.
TEST(RankBindingTest, SlotsAreSpreadEvenly) {
  for (const auto& [nodes, cores, threads] : {std::array{1, 6, 1}, {2, 4, 2}, {3, 5, 1}, {4, 2, 2}, {8, 3, 2}}) {
    const std::string machine = absl::StrCat("numa:", nodes, " core:", cores, " pu:", threads);
    for (int slots = 1; slots <= 2 * nodes * cores; ++slots) {
      SCOPED_TRACE(absl::StrCat(machine, ", ", slots, " slots"));
      std::map<int, int> by_memory;
      const std::vector<RankPlace> places = Places(RankBinding::kNuma, slots, machine);
      ASSERT_THAT(places, SizeIs(slots));
      for (const RankPlace& place : places) {
        ASSERT_EQ(place.processors.size(), cores * threads);
        ASSERT_EQ(place.memory, place.processors[0] / (cores * threads));
        ++by_memory[place.memory];
      }
      for (const auto& [memory, ranks] : by_memory) ASSERT_LE(ranks, (slots + nodes - 1) / nodes);
      if (slots > nodes * cores) continue;
      std::set<int> used;
      for (const RankPlace& place : Places(RankBinding::kCores, slots, machine)) {
        ASSERT_GE(place.processors.size(), nodes * cores / slots * threads);
        for (int processor : place.processors) ASSERT_TRUE(used.insert(processor).second);
      }
      ASSERT_EQ(used.size(), nodes * cores * threads);
    }
  }
}

TEST(RankBindingTest, NamesOfBindings) {
  EXPECT_EQ(*ParseRankBinding("auto"), RankBinding::kAuto);
  EXPECT_EQ(*ParseRankBinding("cores"), RankBinding::kCores);
  EXPECT_EQ(ParseRankBinding("socket").status(),
            absl::InvalidArgumentError("ranks cannot be bound to 'socket'; possible are auto, none, numa and cores"));
  EXPECT_EQ(RankPlaces(RankBinding::kAuto, {.machine = "nonsense"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// On this machine, whatever it is: no processor that this process may not use.
TEST(RankBindingTest, UsesOnlyProcessorsThatTheProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (CPU_ISSET(first, &before) == 0) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const std::vector<RankPlace> places = Places(RankBinding::kCores, 1, "");
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  ASSERT_THAT(places, SizeIs(1));
  EXPECT_THAT(places[0].processors, ElementsAre(first));
}

}  // namespace
}  // namespace adjoin
