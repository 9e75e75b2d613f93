// What tests of NodeAttempts share: ranks that are processes of a shell, in a folder of the test's own.
//
//   TEST_F(AttemptsTest, ...) {
//     Start(4, 1);                                   // epoch 4, one rank; its process runs
//     Connect(4, 0);
//     SayResult(4, 0, RANK_SUCCEEDED, "");
//     Exit(4, 0, 0);                                 // it ends with exit code 0
//     EXPECT_THAT(Facts(2), ElementsAre("RANK_SUCCEEDED ", "cleared"));
//   }
#ifndef ADJOIN_WORKER_DAEMON_ATTEMPTS_FIXTURE_H_
#define ADJOIN_WORKER_DAEMON_ATTEMPTS_FIXTURE_H_

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"
#include "proto/plan.pb.h"
#include "worker/daemon/attempts.h"
#include "worker/daemon/job_paths.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {

// A rank that records the messages that it gets.
class FakePeer final : public RankPeer {
 public:
  void Send(const DaemonMessage& message) override {
    absl::MutexLock lock(&mutex_);
    messages_.push_back(message);
  }
  std::vector<DaemonMessage> Messages() {
    absl::MutexLock lock(&mutex_);
    return messages_;
  }
  int Count(DaemonMessage::KindCase kind) {
    int count = 0;
    for (const DaemonMessage& message : Messages()) count += message.kind_case() == kind;
    return count;
  }

 private:
  absl::Mutex mutex_;
  std::vector<DaemonMessage> messages_ ABSL_GUARDED_BY(mutex_);
};

// Ranks are processes that wait until the test ends them; the test also sends their messages.
class AttemptsTest : public ::testing::Test {
 protected:
  AttemptsTest() {
    folder_ = ::testing::TempDir() + "/attempts-XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    std::ofstream(folder_ + "/rank") << R"(#!/bin/sh
name=$4-$8-$6
echo $$ > )" << folder_ << R"(/new-$name
mv )" << folder_ << R"(/new-$name )" << folder_
                                     << R"(/pid-$name
until [ -s )" << folder_ << R"(/exit-$name ]; do sleep 0.02; done
exit $(cat )" << folder_ << "/exit-$name)\n";
    chmod((folder_ + "/rank").c_str(), 0755);
    settings_.rank_binary = folder_ + "/rank";
    settings_.socket = "nowhere";
    settings_.data_root = settings_.output_root = folder_;
    settings_.stop_grace = absl::Milliseconds(20);
    settings_.preparing = {.of_one_mount = 2, .waiting_for_one = 0, .in_all = 2, .time = absl::Seconds(60)};
    for (const int processor : {Processors().front(), Processors().back()}) {
      settings_.places.push_back({.processors = {processor}, .text = absl::StrCat("place ", settings_.places.size())});
    }
    settings_.unfit = [this] { return unfit_; };
    const JobRoots roots{settings_.data_root, settings_.output_root, std::nullopt};
    settings_.prepare = [gate = gate_, roots](const StartRanks& start, const MountCalls::Enter& enter) {
      const bool waits = !gate->only_dead || absl::StartsWith(start.job_id(), "dead");
      if (gate->only_dead && waits) ADJOIN_RETURN_IF_ERROR(enter("/proc/dead"));
      absl::MutexLock lock(&gate->mutex);
      ++gate->under_way;
      gate->changed.NotifyAll();
      const bool open =
          gate->changed.Wait(gate->mutex, Deadline::After(absl::Seconds(20)), [&] { return !gate->shut || !waits; });
      --gate->under_way;
      gate->changed.NotifyAll();
      return open ? PrepareJobPaths(roots, start, enter)
                  : absl::DeadlineExceededError("the test does not open the gate");
    };
    settings_.on_foreign_gone = [this] { ++foreign_gone_; };
    Begin();
  }

  // Makes the daemon's attempts anew, by settings_.
  void Begin() {
    attempts_ = std::make_unique<NodeAttempts>(settings_, [this](WorkerMessage message) {
      absl::MutexLock lock(&mutex_);
      sent_.push_back(std::move(message));
      changed_.NotifyAll();
    });
    attempts_->Connected();
  }

  // Those that this process may use, or another.
  static std::vector<int> Processors(pid_t process = 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(process, sizeof(set), &set), 0);
    std::vector<int> processors;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &set) != 0) processors.push_back(processor);
    }
    return processors;
  }
  // Returns when all processes run that are to run.
  void Start(uint64_t epoch, int ranks, const std::string& job = "job-1", uint64_t store = 0) {
    StartOnly(epoch, ranks, job, store);
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    bool starting = true;
    while (starting && !deadline.Expired()) {
      starting = false;
      const Heartbeat heartbeat = Beat();
      for (const AttemptPulse& attempt : heartbeat.attempt()) {
        if (attempt.job_id() != job || attempt.epoch() != epoch) continue;
        for (const RankPulse& rank : attempt.rank()) starting = starting || rank.process().empty();
      }
    }
    EXPECT_FALSE(starting) << job << " does not start";
  }
  void StartOnly(uint64_t epoch, int ranks, const std::string& job = "job-1", uint64_t store = 0) {
    StartRanks start;
    start.set_store_id(store);
    start.set_job_id(job);
    start.set_job_tag(1);
    start.set_world_size(ranks);
    for (int rank = 0; rank < ranks; ++rank) start.add_rank(rank);
    start.set_plan(Plan().SerializeAsString());
    start.set_prepare_seconds(prepare_seconds_);
    attempts_->Start(epoch, start);
  }
  std::shared_ptr<FakePeer> Connect(uint64_t epoch, uint32_t rank) {
    auto peer = std::make_shared<FakePeer>();
    RankHello hello;
    hello.set_job_id("job-1");
    hello.set_rank(rank);
    hello.set_pid(1000 + rank);
    absl::Status status = attempts_->RankConnected(epoch, hello, peer);
    EXPECT_EQ(status, absl::OkStatus());
    return peer;
  }
  void Say(uint64_t epoch, uint32_t rank, const std::function<void(RankMessage&)>& fill) {
    RankMessage message;
    fill(message);
    attempts_->RankSaid({"job-1", epoch, rank}, message);
  }
  void SayResult(uint64_t epoch, uint32_t rank, RankEnd end, const std::string& error) {
    Say(epoch, rank, [&](RankMessage& m) {
      m.mutable_result()->set_end(end);
      m.mutable_result()->set_error(error);
      m.mutable_result()->set_drained_step(end == RANK_DRAINED ? 41 : 0);
    });
  }
  // Without the note of the latest attempt that was here.
  WorkerHello Hello() {
    WorkerHello hello;
    attempts_->MakeReports(hello, [] {});
    if (!hello.attempt().empty() && hello.attempt().rbegin()->rank().empty()) hello.mutable_attempt()->RemoveLast();
    return hello;
  }
  Heartbeat Beat() {
    Heartbeat heartbeat;
    attempts_->FillHeartbeat(heartbeat);
    return heartbeat;
  }
  pid_t ProcessOf(uint64_t epoch, uint32_t rank) {
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    pid_t pid = 0;
    while (pid == 0 && !deadline.Expired())
      std::ifstream(absl::StrCat(folder_, "/pid-job-1-", epoch, "-", rank)) >> pid;
    EXPECT_NE(pid, 0) << "rank " << rank << " does not start";
    return pid;
  }
  void Exit(uint64_t epoch, uint32_t rank, int code) {
    std::ofstream(absl::StrCat(folder_, "/exit-job-1-", epoch, "-", rank)) << code << "\n";
    attempts_->RankDisconnected({"job-1", epoch, rank});
  }
  // Pulses are asked for until the first rank's satisfies `holds`.
  bool AwaitPulse(const std::function<bool(const RankPulse&)>& holds) {
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    while (!deadline.Expired()) {
      Heartbeat heartbeat = Beat();
      if (heartbeat.attempt_size() > 0 && heartbeat.attempt(0).rank_size() > 0 && holds(heartbeat.attempt(0).rank(0))) {
        return true;
      }
    }
    return false;
  }
  // "ready", "ended RANK_LOST ...", "cleared": what the coordinator was told, in order, once `count` messages are
  // there.
  std::vector<std::string> Facts(size_t count) {
    absl::MutexLock lock(&mutex_);
    changed_.Wait(mutex_, Deadline::After(absl::Seconds(20)), [&] { return sent_.size() >= count; });
    std::vector<std::string> facts;
    for (const WorkerMessage& message : sent_) {
      if (message.has_rank_ready()) facts.push_back("ready");
      if (message.has_rank_update()) facts.push_back("update");
      if (message.has_attempt_cleared()) facts.push_back("cleared");
      if (!message.has_rank_ended()) continue;
      facts.push_back(absl::StrCat(RankEnd_Name(message.rank_ended().end()), " ", message.rank_ended().error()));
    }
    return facts;
  }
  // The check of a job's files hangs until the gate opens; where `only_dead`, that of jobs whose ids begin with "dead",
  // at the file system of /proc.
  void SetGate(bool shut, bool only_dead = false) {
    absl::MutexLock lock(&gate_->mutex);
    gate_->shut = shut;
    gate_->only_dead = only_dead;
    gate_->changed.NotifyAll();
  }
  bool AwaitUnderWay(int count) {
    absl::MutexLock lock(&gate_->mutex);
    return gate_->changed.Wait(gate_->mutex, Deadline::After(absl::Seconds(20)),
                               [&] { return gate_->under_way == count; });
  }
  bool AwaitCleared() { return attempts_->WaitUntilCleared(Deadline::After(absl::Seconds(20))); }

  struct Gate {
    absl::Mutex mutex;
    MonotonicCondition changed;
    bool shut = false;
    std::atomic<bool> only_dead{false};
    int under_way = 0;
  };

  std::string folder_;
  std::string unfit_;
  double prepare_seconds_ = 0;                                   // of each StartRanks
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();  // outlives the attempts where something still hangs
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::vector<WorkerMessage> sent_;
  std::atomic<int> foreign_gone_{0};
  NodeAttempts::Settings settings_;
  std::unique_ptr<NodeAttempts> attempts_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ATTEMPTS_FIXTURE_H_
