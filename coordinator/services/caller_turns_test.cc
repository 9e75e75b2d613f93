#include "coordinator/services/caller_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

bool Never() { return false; }

// Calls on threads of their own, which note in which order they have their turns.
class Callers {
 public:
  // Returns when the call waits.
  void Wait(const std::string& caller) {
    const int before = turns_.waiting();
    threads_.emplace_back([this, caller] {
      const CallerTurns::Turn turn(turns_, caller, &Never);
      absl::MutexLock lock(&mutex_);
      order_.push_back(caller);
    });
    while (turns_.waiting() == before) std::this_thread::yield();
  }
  std::vector<std::string> Order() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    absl::MutexLock lock(&mutex_);
    return order_;
  }
  CallerTurns& turns() { return turns_; }

 private:
  CallerTurns turns_;
  absl::Mutex mutex_;
  std::vector<std::string> order_;
  std::vector<std::thread> threads_;
};

TEST(CallerTurns, OneWithManyCallsHoldsNobodyUpForMoreThanOneOfThem) {
  Callers callers;
  {
    const CallerTurns::Turn first(callers.turns(), "alice", &Never);
    ASSERT_TRUE(first.taken());
    for (int i = 0; i < 4; ++i) callers.Wait("alice");
    callers.Wait("bob");
    callers.Wait("bob");
    callers.Wait("carol");
  }
  EXPECT_THAT(callers.Order(), ElementsAre("alice", "bob", "carol", "alice", "bob", "alice", "alice"));
}

TEST(CallerTurns, OneCallAtATime) {
  CallerTurns turns;
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        const CallerTurns::Turn turn(turns, std::string(1, static_cast<char>('a' + i % 3)), &Never);
        most = std::max(most.load(), ++inside);
        taken += turn.taken();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(taken, 8 * 200);
}

TEST(CallerTurns, ACallThatIsGoneWaitsNoLongerAndTakesNoTurn) {
  Callers callers;
  std::atomic<bool> gone{false};
  absl::Notification left;
  std::thread leaver;
  {
    const CallerTurns::Turn first(callers.turns(), "alice", &Never);
    leaver = std::thread([&] {
      const CallerTurns::Turn turn(callers.turns(), "bob", [&] { return gone.load(); });
      EXPECT_FALSE(turn.taken());
      left.Notify();
    });
    while (callers.turns().waiting() == 0) std::this_thread::yield();
    callers.Wait("carol");
    gone = true;
    EXPECT_TRUE(left.WaitForNotificationWithTimeout(absl::Seconds(30))) << "while another has its turn";
  }
  leaver.join();
  EXPECT_THAT(callers.Order(), ElementsAre("carol"));
  const CallerTurns::Turn free(callers.turns(), "dave", &Never);
  EXPECT_TRUE(free.taken());
}

}  // namespace
}  // namespace adjoin
