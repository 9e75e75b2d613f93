// What absl's synchronization orders is no race, and what it does not order is found: also where a thread evaluates the
// conditions of others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

void OnThreads(const std::vector<std::function<void()>>& bodies) {
  std::vector<std::thread> threads;
  for (const std::function<void()>& body : bodies) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
}

TEST(AbslSynchronizationTest, AMutexOrders) {
  absl::Mutex mutex;
  int count = 0;
  auto add = [&] {
    for (int i = 0; i < 1000; ++i) {
      absl::MutexLock lock(&mutex);
      ++count;
      if (mutex.TryLock()) std::abort();  // it is held
    }
  };
  auto read = [&] {
    absl::ReaderMutexLock lock(&mutex);
    if (count < 0) std::abort();
  };
  OnThreads({add, add, read});
  EXPECT_EQ(count, 2000);
}

// Two threads hand a number to and fro, each with waits of another kind.
TEST(AbslSynchronizationTest, WaitsOrder) {
  absl::Mutex mutex;
  int turns = 0;
  constexpr int kTurns = 200;
  OnThreads({[&] {
               for (int i = 0; i < kTurns; i += 2) {
                 auto mine = [&] { return turns == i; };
                 absl::MutexLock lock(&mutex);
                 if (i % 4 == 0) mutex.Await(absl::Condition(&mine));
                 if (i % 4 != 0 && !mutex.AwaitWithTimeout(absl::Condition(&mine), kLong)) std::abort();
                 ++turns;
               }
             },
             [&] {
               for (int i = 1; i < kTurns; i += 2) {
                 auto mine = [&] { return turns == i; };
                 if (i % 4 == 1) mutex.LockWhen(absl::Condition(&mine));
                 if (i % 4 != 1 && !mutex.LockWhenWithTimeout(absl::Condition(&mine), kLong)) std::abort();
                 ++turns;
                 mutex.Unlock();
               }
             }});
  EXPECT_EQ(turns, kTurns);
}

TEST(AbslSynchronizationTest, ACondVarOrders) {
  absl::Mutex mutex;
  absl::CondVar changed;
  int turns = 0;
  constexpr int kTurns = 200;
  auto play = [&](int first) {
    for (int i = first; i < kTurns; i += 2) {
      absl::MutexLock lock(&mutex);
      while (turns != i) {
        if (i % 3 == 0) changed.Wait(&mutex);
        if (i % 3 == 1) changed.WaitWithTimeout(&mutex, kLong);
        if (i % 3 == 2) changed.WaitWithDeadline(&mutex, absl::InfiniteFuture());
      }
      ++turns;
      changed.SignalAll();
    }
  };
  OnThreads({[&] { play(0); }, [&] { play(1); }});
  EXPECT_EQ(turns, kTurns);
}

TEST(AbslSynchronizationTest, ANotificationOrders) {
  for (int i = 0; i < 100; ++i) {
    absl::Notification notified;
    int value = 0;
    OnThreads({[&] {
                 value = 1;
                 notified.Notify();
               },
               [&] {
                 if (i % 3 == 0) notified.WaitForNotification();
                 if (i % 3 == 1 && !notified.WaitForNotificationWithTimeout(kLong)) std::abort();
                 while (i % 3 == 2 && !notified.HasBeenNotified()) std::this_thread::yield();
                 if (value != 1) std::abort();
               }});
  }
}

#ifdef __SANITIZE_THREAD__
TEST(AbslSynchronizationDeathTest, ARaceIsFound) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto race = [] {
    absl::Mutex mutex, other;
    int value = 0;
    auto add = [&value](absl::Mutex* held) {
      absl::MutexLock lock(held);
      ++value;
    };
    OnThreads({[&] { add(&mutex); }, [&] { add(&other); }});
    std::exit(value > 0 ? 0 : 1);
  };
  EXPECT_EXIT(race(), testing::ExitedWithCode(66), "data race");
}
#endif

}  // namespace
