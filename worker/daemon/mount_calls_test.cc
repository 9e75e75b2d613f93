#include "worker/daemon/mount_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

// Files below /proc are on one file system, those of no folder on another. Nothing is touched: calls wait for the test
// as they would for a file server.
class MountCallsTest : public ::testing::Test {
 protected:
  // What calls use, which may outlive the test.
  struct World {
    absl::Mutex mutex;
    MonotonicCondition changed;
    bool answers = false;  // the file system does
    int begun = 0;         // calls
    int waiting = 0;       // for it
    std::vector<absl::Status> refused_later;
    std::map<std::string, std::vector<absl::Status>> ends;  // of calls, by name
  };

  // Begins a call that enters the paths one after another, and waits at the last one for the file system.
  absl::StatusOr<uint64_t> Begin(MountCalls& calls, const std::string& name, const std::vector<std::string>& paths,
                                 bool waits = true, std::optional<absl::Duration> time = {}) {
    return calls.Call(
        [world = world_, paths, waits](const MountCalls::Enter& enter) -> absl::Status {
          {
            absl::MutexLock lock(&world->mutex);
            ++world->begun;
            world->changed.NotifyAll();
          }
          for (const std::string& path : paths) ADJOIN_RETURN_IF_ERROR(enter(path));
          if (!waits) return absl::OkStatus();
          absl::MutexLock lock(&world->mutex);
          ++world->waiting;
          world->changed.NotifyAll();
          world->changed.Wait(world->mutex, Soon(), [&] { return world->answers; });
          --world->waiting;
          world->refused_later.push_back(enter(paths.back()));
          world->changed.NotifyAll();
          return absl::OkStatus();
        },
        [world = world_, name](const absl::Status& status) {
          absl::MutexLock lock(&world->mutex);
          world->ends[name].push_back(status);
          world->changed.NotifyAll();
        },
        time);
  }
  bool AwaitBegun(int count) {
    absl::MutexLock lock(&world_->mutex);
    return world_->changed.Wait(world_->mutex, Soon(), [&] { return world_->begun == count; });
  }
  bool AwaitWaiting(int count) {
    absl::MutexLock lock(&world_->mutex);
    return world_->changed.Wait(world_->mutex, Soon(), [&] { return world_->waiting == count; });
  }
  absl::Status EndOf(const std::string& name) {
    absl::MutexLock lock(&world_->mutex);
    if (!world_->changed.Wait(world_->mutex, Soon(), [&] { return !world_->ends[name].empty(); })) {
      return absl::InternalError(name + " does not end");
    }
    return world_->ends[name].front();
  }
  void Answer() {
    absl::MutexLock lock(&world_->mutex);
    world_->answers = true;
    world_->changed.NotifyAll();
  }

  const std::shared_ptr<World> world_ = std::make_shared<World>();
};

TEST_F(MountCallsTest, AFileSystemThatDoesNotAnswerHoldsUpItsOwnCallsOnly) {
  MountCalls calls({"/proc/dead", "/nowhere"},
                   {.of_one_mount = 2, .waiting_for_one = 0, .in_all = 8, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(calls, "first", {"/nowhere/a", "/proc/dead/a"}).ok());
  ASSERT_TRUE(Begin(calls, "second", {"/proc/dead/b"}).ok());
  ASSERT_TRUE(AwaitWaiting(2));
  ASSERT_TRUE(Begin(calls, "third", {"/proc/dead/c"}).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf("third"))) << EndOf("third");
  EXPECT_EQ(EndOf("third").message(), "2 others wait for the file system at /proc already: does it answer?");
  for (const char* name : {"fourth", "fifth", "sixth"}) {
    ASSERT_TRUE(Begin(calls, name, {"/nowhere/d", "/nowhere/e"}, /*waits=*/false).ok());
    EXPECT_EQ(EndOf(name), absl::OkStatus());
  }
  Answer();
  EXPECT_EQ(EndOf("first"), absl::OkStatus());
  EXPECT_EQ(EndOf("second"), absl::OkStatus());
  ASSERT_TRUE(Begin(calls, "seventh", {"/proc/dead/c"}, /*waits=*/false).ok());
  EXPECT_EQ(EndOf("seventh"), absl::OkStatus());
}

// A burst of calls at a file system that is slow costs none of them.
TEST_F(MountCallsTest, CallsWaitUntilThereIsRoomAtTheirFileSystem) {
  MountCalls calls({"/proc/slow"}, {.of_one_mount = 2, .waiting_for_one = 8, .in_all = 10, .time = absl::Seconds(60)});
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back("call " + std::to_string(i));
  for (const std::string& name : names) {
    ASSERT_TRUE(Begin(calls, name, {"/proc/slow/a", "/proc/slow/b", "/proc/slow/c"}).ok());
  }
  ASSERT_TRUE(AwaitBegun(10));
  ASSERT_TRUE(AwaitWaiting(2));
  {
    absl::MutexLock lock(&world_->mutex);
    EXPECT_THAT(world_->ends, IsEmpty());
  }
  Answer();
  for (const std::string& name : names) EXPECT_EQ(EndOf(name), absl::OkStatus()) << name;
}

TEST_F(MountCallsTest, ACallThatFindsNoRoomEndsInTime) {
  MountCalls calls({"/proc/dead"}, {.of_one_mount = 2, .waiting_for_one = 2, .in_all = 8, .time = absl::Seconds(60)});
  for (const char* name : {"first", "second"}) ASSERT_TRUE(Begin(calls, name, {"/proc/dead/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(2));
  ASSERT_TRUE(Begin(calls, "third", {"/proc/dead/a"}, /*waits=*/false, /*time=*/absl::Seconds(2)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf("third"))) << EndOf("third");
  EXPECT_EQ(EndOf("third").message(), "2 others are still at the file system at /proc after 2s: does it answer?");
  ASSERT_TRUE(Begin(calls, "fourth", {"/proc/dead/a"}, /*waits=*/false).ok());
  Answer();
  for (const char* name : {"first", "second", "fourth"}) EXPECT_EQ(EndOf(name), absl::OkStatus()) << name;
}

TEST_F(MountCallsTest, ACallHasLeftAFileSystemWhenItEntersAnother) {
  MountCalls calls({"/proc/dead", "/nowhere"},
                   {.of_one_mount = 1, .waiting_for_one = 0, .in_all = 8, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(calls, "first", {"/proc/dead/a", "/nowhere/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(1));
  ASSERT_TRUE(Begin(calls, "second", {"/proc/dead/b"}, /*waits=*/false).ok());
  EXPECT_EQ(EndOf("second"), absl::OkStatus());
  ASSERT_TRUE(Begin(calls, "third", {"/nowhere/b"}, /*waits=*/false).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf("third"))) << EndOf("third");
  Answer();
  EXPECT_EQ(EndOf("first"), absl::OkStatus());
}

TEST_F(MountCallsTest, ACallEndsInTimeWhateverTheFileSystemDoes) {
  MountCalls calls({"/proc/dead"}, {.of_one_mount = 3, .waiting_for_one = 0, .in_all = 8, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(calls, "slow", {"/proc/dead/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(1));
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(Begin(calls, name, {"/proc/dead/a"}, /*waits=*/true, /*time=*/absl::Seconds(2)).ok());
  }
  ASSERT_TRUE(AwaitWaiting(3));
  for (const char* name : {"first", "second"}) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf(name))) << EndOf(name);
    EXPECT_EQ(EndOf(name).message(), "the file system at /proc did not answer within 2s");
  }
  ASSERT_TRUE(Begin(calls, "third", {"/proc/dead/c"}).ok());
  EXPECT_EQ(EndOf("third").message(), "3 others wait for the file system at /proc already: does it answer?");

  Answer();
  ASSERT_TRUE(AwaitWaiting(0));
  EXPECT_EQ(EndOf("slow"), absl::OkStatus()) << "it has more time";
  absl::MutexLock lock(&world_->mutex);
  world_->changed.Wait(world_->mutex, Soon(), [&] { return world_->refused_later.size() == 3; });
  int refused = 0;
  for (const absl::Status& later : world_->refused_later) refused += absl::IsDeadlineExceeded(later);
  EXPECT_EQ(refused, 2);
  for (const char* name : {"first", "second"}) EXPECT_THAT(world_->ends[name], SizeIs(1));
}

TEST_F(MountCallsTest, NoMoreThreadsThanInAll) {
  MountCalls calls({"/proc/dead", "/nowhere"},
                   {.of_one_mount = 8, .waiting_for_one = 0, .in_all = 2, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(calls, "first", {"/proc/dead/a"}).ok());
  ASSERT_TRUE(Begin(calls, "second", {"/nowhere/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(2));
  EXPECT_FALSE(Begin(calls, "third", {"/nowhere/b"}, /*waits=*/false).ok());
  Answer();
  EXPECT_EQ(EndOf("first"), absl::OkStatus());
  absl::MutexLock lock(&world_->mutex);
  EXPECT_THAT(world_->ends["third"], IsEmpty());
}

TEST_F(MountCallsTest, CallsBeyondWaitForAThread) {
  MountCalls calls(
      {"/proc/dead", "/nowhere"},
      {.of_one_mount = 8, .waiting_for_one = 0, .in_all = 2, .waiting_for_thread = 2, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(calls, "first", {"/proc/dead/a"}).ok());
  ASSERT_TRUE(Begin(calls, "second", {"/nowhere/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(2));
  ASSERT_TRUE(Begin(calls, "late", {"/nowhere/b"}, /*waits=*/false, /*time=*/absl::Seconds(1)).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf("late"))) << EndOf("late");
  EXPECT_EQ(EndOf("late").message(),
            "2 others, for which it waited, are still at their files after 1s: do the file systems there answer?");
  ASSERT_TRUE(Begin(calls, "third", {"/nowhere/b"}, /*waits=*/false).ok());
  ASSERT_TRUE(Begin(calls, "fourth", {"/proc/dead/b"}, /*waits=*/false).ok()) << "the one that was late waits no more";
  EXPECT_FALSE(Begin(calls, "fifth", {"/nowhere/b"}, /*waits=*/false).ok());
  ASSERT_TRUE(AwaitBegun(2));
  Answer();
  for (const char* name : {"first", "second", "third", "fourth"}) {
    EXPECT_EQ(EndOf(name), absl::OkStatus()) << name;
  }
  absl::MutexLock lock(&world_->mutex);
  EXPECT_EQ(world_->begun, 4) << "neither the one that was late nor the one that was refused";
  EXPECT_THAT(world_->ends["late"], SizeIs(1));
  EXPECT_THAT(world_->ends["fifth"], IsEmpty());
}

TEST_F(MountCallsTest, WhereNoThreadCanBeStartedNewCallsAreRefusedAndThoseThatWaitAreTriedAgain) {
  const auto threads_left = std::make_shared<std::atomic<bool>>(false);
  MountCalls calls(
      {"/proc/dead", "/nowhere"},
      {.of_one_mount = 8, .waiting_for_one = 0, .in_all = 1, .waiting_for_thread = 2, .time = absl::Seconds(60)},
      [threads_left](std::function<void()> run) {
        if (!*threads_left) throw std::system_error(EAGAIN, std::generic_category());
        std::thread(std::move(run)).detach();
      });
  const absl::Status refused = Begin(calls, "refused", {"/nowhere/a"}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  *threads_left = true;
  ASSERT_TRUE(Begin(calls, "first", {"/proc/dead/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(1));
  ASSERT_TRUE(Begin(calls, "second", {"/nowhere/b"}, /*waits=*/false).ok());
  ASSERT_TRUE(Begin(calls, "late", {"/nowhere/c"}, /*waits=*/false, /*time=*/absl::Seconds(5)).ok());
  const absl::Status full = Begin(calls, "full", {"/nowhere/d"}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;

  *threads_left = false;
  Answer();
  EXPECT_EQ(EndOf("first"), absl::OkStatus());
  const absl::Status refused_again = Begin(calls, "refused", {"/nowhere/e"}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused_again)) << refused_again;
  EXPECT_TRUE(absl::IsAborted(EndOf("late"))) << EndOf("late");
  EXPECT_EQ(EndOf("late").message(),
            "no thread could be started for it within 5s: has the machine memory and processes left?");
  EXPECT_TRUE(AwaitBegun(1)) << "nothing but the first";
  *threads_left = true;  // no call ends or comes now
  EXPECT_EQ(EndOf("second"), absl::OkStatus());
  absl::MutexLock lock(&world_->mutex);
  EXPECT_EQ(world_->begun, 2);
  EXPECT_THAT(world_->ends["refused"], IsEmpty());
}

TEST_F(MountCallsTest, ACallThatIsDroppedWhileItWaitsForAThreadNeverBegins) {
  MountCalls calls(
      {"/proc/dead", "/nowhere"},
      {.of_one_mount = 8, .waiting_for_one = 0, .in_all = 1, .waiting_for_thread = 1, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(calls, "first", {"/proc/dead/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(1));
  const absl::StatusOr<uint64_t> second = Begin(calls, "second", {"/nowhere/b"}, /*waits=*/false);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_FALSE(Begin(calls, "refused", {"/nowhere/c"}, /*waits=*/false).ok());
  calls.Drop(*second);
  ASSERT_TRUE(Begin(calls, "third", {"/nowhere/c"}, /*waits=*/false).ok()) << "the place of the second is free";
  calls.Drop(*second);
  Answer();
  EXPECT_EQ(EndOf("first"), absl::OkStatus());
  EXPECT_EQ(EndOf("third"), absl::OkStatus());
  absl::MutexLock lock(&world_->mutex);
  EXPECT_EQ(world_->begun, 2);
  EXPECT_THAT(world_->ends["second"], IsEmpty());
}

TEST_F(MountCallsTest, ACallThatIsDroppedEntersNoFurtherPath) {
  MountCalls calls({"/proc/dead"}, {.of_one_mount = 1, .waiting_for_one = 0, .in_all = 1, .time = absl::Seconds(60)});
  const absl::StatusOr<uint64_t> first = Begin(calls, "first", {"/proc/dead/a"});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(AwaitWaiting(1));
  calls.Drop(*first);
  Answer();
  absl::MutexLock lock(&world_->mutex);
  ASSERT_TRUE(world_->changed.Wait(world_->mutex, Soon(), [&] { return !world_->refused_later.empty(); }));
  EXPECT_TRUE(absl::IsDeadlineExceeded(world_->refused_later.front())) << world_->refused_later.front();
  EXPECT_THAT(world_->ends["first"], IsEmpty());
}

TEST_F(MountCallsTest, TheEndWaitsForNoFileSystem) {
  auto calls = std::make_unique<MountCalls>(
      std::vector<std::string>{"/proc/dead"},
      MountCalls::Limits{
          .of_one_mount = 1, .waiting_for_one = 1, .in_all = 2, .waiting_for_thread = 1, .time = absl::Seconds(60)});
  ASSERT_TRUE(Begin(*calls, "first", {"/proc/dead/a"}).ok());
  ASSERT_TRUE(AwaitWaiting(1));
  ASSERT_TRUE(Begin(*calls, "second", {"/proc/dead/a"}).ok());  // waits for room
  ASSERT_TRUE(AwaitBegun(2));
  ASSERT_TRUE(Begin(*calls, "third", {"/proc/dead/a"}).ok());  // waits for a thread
  const Deadline long_before_any_time_is_over = Deadline::After(absl::Seconds(10));
  calls.reset();
  EXPECT_FALSE(long_before_any_time_is_over.Expired());
  EXPECT_TRUE(AwaitWaiting(1)) << "the first is where it was";
  Answer();
  ASSERT_TRUE(AwaitWaiting(0));
  absl::MutexLock lock(&world_->mutex);
  EXPECT_THAT(world_->ends["first"], IsEmpty()) << "nothing is called after the end";
  EXPECT_THAT(world_->ends["second"], IsEmpty());
  EXPECT_THAT(world_->ends["third"], IsEmpty());
  EXPECT_EQ(world_->begun, 2) << "nor does anything begin";
}

}  // namespace
}  // namespace adjoin
