#include "worker/checkpoint/background_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/synchronization/notification.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

TEST(BackgroundTaskTest, AnExceptionOfTheWorkIsItsResult) {
  BackgroundTask task;
  EXPECT_FALSE(task.TakeResult().has_value());
  task.Start([]() -> absl::Status { throw std::bad_alloc(); });
  ASSERT_TRUE(task.Wait(Soon()));
  EXPECT_TRUE(absl::IsResourceExhausted(*task.TakeResult())) << *task.TakeResult();
  task.Start([] { return nlohmann::json::parse("{").empty() ? absl::OkStatus() : absl::OkStatus(); });
  ASSERT_TRUE(task.Wait(Soon()));
  EXPECT_THAT(std::string(task.TakeResult()->message()), HasSubstr("parse error"));
  task.Start([]() -> absl::Status { throw 3; });
  ASSERT_TRUE(task.Wait(Soon()));
  EXPECT_FALSE(task.TakeResult()->ok());
  task.Start([] { return absl::OkStatus(); });
  ASSERT_TRUE(task.Wait(Soon()));
  EXPECT_TRUE(task.TakeResult()->ok());
}

// The work hangs, as on a dead file server.
TEST(BackgroundTaskTest, WorkThatNeverEndsDoesNotHangItsOwner) {
  const auto released = std::make_shared<absl::Notification>();
  const auto ended = std::make_shared<absl::Notification>();
  const auto held = [released, ended] {
    released->WaitForNotification();
    ended->Notify();
    return absl::CancelledError("late");
  };
  {
    BackgroundTask task;
    task.Start(held);
    EXPECT_FALSE(task.Wait(Deadline::After(absl::Milliseconds(10))));
    EXPECT_FALSE(task.TakeResult().has_value());
    task.GiveUp();
    task.Start([] { return absl::OkStatus(); });
    ASSERT_TRUE(task.Wait(Soon()));
    EXPECT_TRUE(task.TakeResult()->ok()) << "the result of the later work";
  }
  released->Notify();
  EXPECT_TRUE(ended->WaitForNotificationWithTimeout(absl::Seconds(30))) << "it went on alone";
  const auto again = std::make_shared<absl::Notification>();
  {
    BackgroundTask task;
    task.Start([again] {
      again->WaitForNotification();
      return absl::OkStatus();
    });
  }  // after a few seconds
  EXPECT_FALSE(again->HasBeenNotified());
  again->Notify();
}

}  // namespace
}  // namespace adjoin
