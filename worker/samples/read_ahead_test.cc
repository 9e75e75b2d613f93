#include "worker/samples/read_ahead.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace adjoin {
namespace {

TEST(ReadAheadTest, ReadsTheNextValueBeforeItIsAskedFor) {
  absl::Notification second;
  std::vector<int> read;
  ReadAhead<int, std::string> ahead([&](int key, const std::atomic<bool>&) -> absl::StatusOr<std::string> {
    read.push_back(key);
    if (key == 2) second.Notify();
    return absl::StrCat(key);
  });
  EXPECT_EQ(*ahead.Get(1, 2), "1");
  second.WaitForNotification();
  EXPECT_EQ(*ahead.Get(2, std::nullopt), "2");
  EXPECT_EQ(read, (std::vector<int>{1, 2}));
}

TEST(ReadAheadTest, StopsReadingAheadWhereAnotherValueIsAskedFor) {
  std::atomic<int> stopped{0};
  absl::Notification began;
  ReadAhead<int, int> ahead([&](int key, const std::atomic<bool>& stop) -> absl::StatusOr<int> {
    if (key != 2) return key;
    began.Notify();
    while (!stop) std::this_thread::yield();
    ++stopped;
    return absl::CancelledError("stopped");
  });
  EXPECT_EQ(*ahead.Get(1, 2), 1);
  began.WaitForNotification();
  EXPECT_EQ(*ahead.Get(7, std::nullopt), 7);
  EXPECT_EQ(stopped, 1);
}

TEST(ReadAheadTest, ReturnsAnErrorOnceWhenItsValueIsAskedFor) {
  int tries = 0;
  ReadAhead<int, int> ahead([&](int key, const std::atomic<bool>&) -> absl::StatusOr<int> {
    if (key == 2 && ++tries == 1) return absl::DataLossError("truncated");
    return key;
  });
  EXPECT_EQ(*ahead.Get(1, 2), 1);
  EXPECT_EQ(ahead.Get(2, 3).status().message(), "truncated");
  EXPECT_EQ(*ahead.Get(3, std::nullopt), 3);
  EXPECT_EQ(*ahead.Get(2, std::nullopt), 2);
}

TEST(ReadAheadTest, EndsWhileAValueIsRead) {
  absl::Notification began;
  {
    ReadAhead<int, int> ahead([&](int key, const std::atomic<bool>& stop) -> absl::StatusOr<int> {
      if (key == 1) return key;
      began.Notify();
      while (!stop) std::this_thread::yield();
      return absl::CancelledError("stopped");
    });
    EXPECT_EQ(*ahead.Get(1, 2), 1);
    began.WaitForNotification();
  }
  ReadAhead<int, int> unused([](int key, const std::atomic<bool>&) -> absl::StatusOr<int> { return key; });
}

}  // namespace
}  // namespace adjoin
