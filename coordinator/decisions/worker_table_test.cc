// The table against what its header says of each worker, asked of all of them after each of many random events.
#include "coordinator/decisions/worker_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/testing/test_seed.h"
#include "coordinator/decisions/coordination_options.h"
#include "coordinator/decisions/job_record.h"
#include "coordinator/decisions/outbox.h"
#include "proto/coordinator.pb.h"

namespace adjoin {
namespace {

class WorkerTableTest : public testing::Test {
 protected:
  WorkerTableTest() {
    options_.wall_clock = [] { return absl::UnixEpoch(); };
    options_.monotonic_clock = [this] { return now_; };
    options_.heartbeats_per_second = 2;  // so that few workers are told different times
  }
  WorkerHello Hello(int worker) {
    WorkerHello hello;
    hello.set_name(absl::StrCat("worker-", worker));
    hello.set_slots(2);
    hello.set_incarnation(1);
    return hello;
  }
  // The time of silence after which the worker is lost, by the rules in docs/failures.md.
  absl::Duration LostAfter(const WorkerRecord& worker) const {
    if (!worker.attached) return options_.reattach;
    const absl::Duration late = 2 * (worker.heartbeat - options_.heartbeat);
    const absl::Duration connected = options_.dead_after + std::max(late, absl::ZeroDuration());
    if (worker.connection != 0) return connected;
    return std::min(connected,
                    std::max(worker.detached - worker.last_heard, absl::ZeroDuration()) + options_.dead_after);
  }
  std::map<std::string, absl::Duration> ShouldBeSilent() const {
    std::map<std::string, absl::Duration> silent;
    for (const auto& [name, worker] : workers_.All()) {
      const absl::Duration limit = LostAfter(worker);
      if (!worker.dead && now_ - worker.last_heard >= limit) silent[name] = limit;
    }
    return silent;
  }

  absl::Duration now_ = absl::Seconds(1000);
  CoordinationOptions options_;
  Outbox outbox_{options_};
  WorkerTable workers_{options_, outbox_};
};

TEST_F(WorkerTableTest, WorkersAreLostExactlyWhenTheirTimeIsOver) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); };
  constexpr int kWorkers = 12;
  ConnectionId connections = 0;
  int lost = 0, forgotten = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::string name = absl::StrCat("worker-", draw(kWorkers));
    const WorkerRecord* worker = workers_.Find(name);
    switch (draw(8)) {
      case 0:
        if (worker == nullptr || worker->connection == 0) {
          WorkerHello hello = Hello(0);
          hello.set_name(name);
          workers_.Attach(++connections, hello);
        }
        break;
      case 1:
        if (worker != nullptr) workers_.CloseConnection(name);
        break;
      case 2: workers_.Expect(name, Holder()); break;
      case 3:
        if (worker != nullptr && !worker->dead) workers_.Hold(name, static_cast<uint64_t>(draw(3)), {.slots = 1});
        break;
      case 4: workers_.Release(name, static_cast<uint64_t>(draw(3))); break;
      case 5:
        if (draw(50) == 0) workers_.ForgivePause(absl::Seconds(draw(5)));
        break;
      default:
        if (worker == nullptr || worker->connection == 0) break;
        workers_.Heard(name);
        workers_.TellHeartbeat(name);
    }
    now_ += absl::Milliseconds(draw(700));
    const std::map<std::string, absl::Duration> silent = ShouldBeSilent();
    const auto found = workers_.Silent();
    const std::map<std::string, absl::Duration> told(found.begin(), found.end());
    ASSERT_EQ(told, silent) << "step " << step;
    for (const auto& [gone, limit] : silent) workers_.Lose(gone);
    lost += static_cast<int>(silent.size());

    std::set<std::string> dead, freed;
    for (const auto& [other, record] : workers_.All()) {
      if (!record.dead) continue;
      dead.insert(other);
      if (record.held.empty()) freed.insert(other);
    }
    ASSERT_EQ(workers_.Lost(), dead) << "step " << step;
    ASSERT_EQ(workers_.ForgetLost(), !freed.empty()) << "step " << step;
    for (const std::string& other : freed) ASSERT_EQ(workers_.Find(other), nullptr) << "step " << step;
    forgotten += static_cast<int>(freed.size());
  }
  EXPECT_GT(lost, 100);
  EXPECT_GT(forgotten, 100);
}

// The slots, GPUs and memory that are free, counted anew from what each worker offers and what each job holds.
TEST_F(WorkerTableTest, WhatIsFreeIsWhatNoJobHolds) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); };
  struct Worker {
    WorkerHello hello;
    bool draining = false;
    std::map<uint64_t, Held> held;
  };
  std::map<std::string, Worker> workers;
  ConnectionId connections = 0;
  int found = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::string name = absl::StrCat("worker-", draw(8));
    const bool is_there = workers.count(name) > 0;
    const auto job = static_cast<uint64_t>(draw(3));
    switch (draw(6)) {
      case 0: {
        WorkerHello hello = Hello(0);
        hello.set_name(name);
        hello.set_slots(static_cast<uint32_t>(1 + draw(4)));
        hello.set_memory_bytes(static_cast<uint64_t>(draw(3)) << 30);
        hello.set_output_id(draw(3) == 0 ? absl::StrCat("own-", draw(100000)) : absl::StrCat("root-", draw(3)));
        hello.set_rank_program(absl::StrCat("program-", draw(2)));
        for (int i = draw(3); i > 0; --i) hello.add_gpu()->set_uuid(absl::StrCat(name, "-gpu-", i));
        if (is_there) workers_.CloseConnection(name);
        workers_.Attach(++connections, hello);
        workers[name].hello = hello;
        workers[name].draining = false;
        break;
      }
      case 1:
        if (!is_there || workers[name].held.count(job) > 0) break;
        workers[name].held[job] = {.slots = draw(3), .gpus = draw(2), .memory = int64_t{draw(2)} << 29};
        workers_.Hold(name, job, workers[name].held[job]);
        break;
      case 2:
        if (!is_there) break;
        workers[name].held.erase(job);
        workers_.Release(name, job);
        break;
      case 3:
        if (!is_there) break;
        workers[name].hello.set_output_id(absl::StrCat("root-", draw(3)));
        workers_.SetOutputId(name, workers[name].hello.output_id());
        break;
      case 4:
        if (!is_there) break;
        workers[name].draining = draw(2) == 0;
        workers_.SetDraining(name, workers[name].draining);
        break;
      default:
        if (!is_there) break;
        workers[name].hello.set_condition(draw(2) == 0 ? "no disk" : "");
        workers_.SetCondition(name, workers[name].hello.condition());
    }
    std::vector<std::string> expected, free;
    for (const auto& [other, worker] : workers) {
      int slots = static_cast<int>(worker.hello.slots()), gpus = worker.hello.gpu_size();
      auto memory = static_cast<int64_t>(worker.hello.memory_bytes());
      const bool is_known = memory > 0;
      for (const auto& [number, held] : worker.held) {
        slots -= held.slots;
        gpus -= held.gpus;
        memory -= held.memory;
      }
      if (slots <= 0 || worker.draining || !worker.hello.condition().empty()) continue;
      expected.push_back(absl::StrCat(other, " ", slots, " ", std::max(gpus, 0), " ", is_known ? memory : -1, " ",
                                      worker.hello.output_id(), " ", worker.hello.rank_program()));
    }
    for (const FreeSlots& worker : workers_.FreeFor(Resources())) {
      free.push_back(absl::StrCat(worker.worker, " ", worker.slots, " ", worker.gpus, " ", worker.memory.value_or(-1),
                                  " ", worker.output_id, " ", worker.program));
    }
    ASSERT_EQ(free, expected) << "step " << step;
    found += static_cast<int>(free.size());
  }
  EXPECT_GT(found, 1000);
}

TEST_F(WorkerTableTest, WorkersShareTheTextsThatTheyHaveHoweverManyCameBefore) {
  ConnectionId connections = 0;
  WorkerHello hello = Hello(0);
  for (int i = 0; i < 3000; ++i) {  // its daemon is installed anew again and again, and its disk changed
    hello.set_rank_program(absl::StrCat("program-", i));
    hello.set_output_id(absl::StrCat("root-", i));
    if (i > 0) workers_.CloseConnection(hello.name());
    workers_.Attach(++connections, hello);
  }
  for (int worker = 1; worker <= 2; ++worker) {
    hello.set_name(absl::StrCat("worker-", worker));
    hello.set_rank_program("program-new");
    workers_.Attach(++connections, hello);
  }
  const std::vector<FreeSlots> free = workers_.FreeFor(Resources());
  ASSERT_EQ(free.size(), 3);
  EXPECT_EQ(free[0].program, "program-2999");
  EXPECT_EQ(free[1].program, "program-new");
  EXPECT_EQ(free[1].program.data(), free[2].program.data());
  for (const FreeSlots& worker : free) {
    EXPECT_EQ(worker.output_id, "root-2999");
    EXPECT_EQ(worker.output_id.data(), free[0].output_id.data());
  }
}

// What is kept up to date is what a look at all workers finds, also at those that are lost and hold slots still.
TEST_F(WorkerTableTest, SumsOverAllWorkersAreThoseOfALookAtEach) {
  std::mt19937_64 random(TestSeed());
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); };
  ConnectionId connections = 0;
  int lacked = 0, held_by_some = 0;
  for (int step = 0; step < 10000; ++step) {
    const std::string name = absl::StrCat("worker-", draw(6));
    const WorkerRecord* worker = workers_.Find(name);
    switch (draw(7)) {
      case 0: {
        if (worker != nullptr && worker->connection != 0) workers_.CloseConnection(name);
        WorkerHello hello = Hello(0);
        hello.set_name(name);
        hello.set_slots(static_cast<uint32_t>(1 + draw(4)));
        hello.set_memory_bytes(uint64_t{8} << 30);
        for (int i = draw(4); i > 0; --i) hello.add_gpu()->set_uuid(absl::StrCat(name, "-gpu-", i));
        workers_.Attach(++connections, hello);
        break;
      }
      case 1:
        if (worker != nullptr && draw(5) == 0) workers_.Lose(name);
        break;
      case 2: workers_.ForgetLost(); break;
      case 3: workers_.Expect(name, Holder()); break;
      case 4: workers_.Release(name, static_cast<uint64_t>(draw(5))); break;
      default:
        if (worker == nullptr) break;
        workers_.Hold(name, static_cast<uint64_t>(draw(5)),
                      {.slots = draw(3), .gpus = draw(2), .memory = int64_t{draw(2)} << 29});
    }
    std::map<uint64_t, std::vector<int64_t>> expected, kept;
    bool lacks = false;
    for (const auto& [other, record] : workers_.All()) {
      for (const auto& [job, held] : record.held) {
        std::vector<int64_t>& sums = expected[job];
        sums.resize(3);
        sums[0] += held.slots;
        sums[1] += held.gpus;
        sums[2] += held.memory;
      }
      lacks = lacks || record.free.slots < record.free.gpus;
    }
    for (auto job = expected.begin(); job != expected.end();) {
      job = job->second == std::vector<int64_t>(3) ? expected.erase(job) : std::next(job);
    }
    for (const auto& [job, held] : workers_.HeldByJob()) kept[job] = {held.slots, held.gpus, held.memory};
    ASSERT_EQ(kept, expected) << "step " << step;
    ASSERT_EQ(workers_.AnyLacksSlotsForGpus(), lacks) << "step " << step;
    lacked += lacks ? 1 : 0;
    held_by_some += static_cast<int>(kept.size());
  }
  EXPECT_GT(lacked, 100);
  EXPECT_GT(held_by_some, 1000);
}

TEST_F(WorkerTableTest, AnyIsThereExactlyWhereTheListHasOne) {
  for (int i = 0; i < 3; ++i) {
    WorkerHello hello = Hello(i);
    (*hello.mutable_label())["zone"] = i == 2 ? "far" : "near";
    workers_.Attach(static_cast<ConnectionId>(i + 1), hello);
  }
  Resources near, nowhere;
  (*near.mutable_node_label())["zone"] = "near";
  (*nowhere.mutable_node_label())["zone"] = "nowhere";
  std::vector<std::string> asked;
  const auto never = [&](const FreeSlots& worker) {
    asked.emplace_back(worker.worker);
    return false;
  };
  const auto always = [](const FreeSlots& worker) { return true; };
  EXPECT_FALSE(workers_.AnyKnownFor(near, never));
  EXPECT_EQ(asked, (std::vector<std::string>{"worker-0", "worker-1"}));
  EXPECT_TRUE(workers_.AnyKnownFor(near, always));
  EXPECT_FALSE(workers_.AnyKnownFor(nowhere, always));

  workers_.SetDraining("worker-0", true);
  asked.clear();
  EXPECT_FALSE(workers_.AnyInTimeFor(near, never));
  EXPECT_EQ(asked, (std::vector<std::string>{"worker-1"}));
  workers_.SetAside("worker-1", now_ + absl::Seconds(30), "broken", /*by_itself=*/false);
  EXPECT_TRUE(workers_.AllFor(near).empty());
  EXPECT_TRUE(workers_.AnyInTimeFor(near, always)) << "it comes back";
  workers_.Lose("worker-0");
  workers_.Lose("worker-1");
  EXPECT_FALSE(workers_.AnyKnownFor(near, always));
}

}  // namespace
}  // namespace adjoin
