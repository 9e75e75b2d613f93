#include "coordinator/services/artifact_relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;

bool Never() { return false; }
Deadline Within(double seconds) { return Deadline::After(absl::Seconds(seconds)); }

class ArtifactSeatsTest : public ::testing::Test {
 protected:
  void FillSeatsOf(const std::string& caller) {
    for (int i = 0; i < ArtifactRelay::kSeats; ++i) {
      absl::StatusOr<ArtifactRelay::Seat> seat = relay_.TakeSeat(caller, "worker-0", Within(20), &Never);
      ASSERT_TRUE(seat.ok()) << seat.status();
      taken_.push_back(*std::move(seat));
    }
  }

  ArtifactRelay relay_;
  std::vector<ArtifactRelay::Seat> taken_;
};

TEST_F(ArtifactSeatsTest, AreBoundedForEachCallerAndWorker) {
  FillSeatsOf("alice");
  const absl::Status refused = relay_.TakeSeat("alice", "worker-0", Within(0.05), &Never).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("4 files from worker-0 are on their way to alice already"));
  EXPECT_TRUE(relay_.TakeSeat("bob", "worker-0", Within(0), &Never).ok());
  EXPECT_TRUE(relay_.TakeSeat("alice", "worker-1", Within(0), &Never).ok());
  taken_.clear();
  FillSeatsOf("alice");
}

TEST_F(ArtifactSeatsTest, AreWaitedFor) {
  FillSeatsOf("alice");
  absl::Notification waits;
  absl::StatusOr<ArtifactRelay::Seat> next;
  std::thread waiter([&] {
    next = relay_.TakeSeat("alice", "worker-0", Within(60), [&waits] {
      if (!waits.HasBeenNotified()) waits.Notify();
      return false;
    });
  });
  waits.WaitForNotification();
  taken_.pop_back();
  waiter.join();
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST_F(ArtifactSeatsTest, AreNotWaitedForByWhoHasGone) {
  FillSeatsOf("alice");
  EXPECT_EQ(relay_.TakeSeat("alice", "worker-0", Within(60), [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(ArtifactPipeTest, RefusesAFileOfNegativeSize) {
  ArtifactPipe pipe;
  ArtifactChunk chunk;
  chunk.set_data("x");
  chunk.set_total_bytes(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(pipe.Push(chunk, Within(20)).code(), absl::StatusCode::kInvalidArgument);
  chunk.set_total_bytes(1);
  EXPECT_EQ(pipe.Push(chunk, Within(20)), absl::OkStatus());
  const auto popped = pipe.Pop(Within(20));
  ASSERT_TRUE(popped.ok() && popped->has_value()) << popped.status();
  EXPECT_EQ((*popped)->total_bytes(), 1);
}

}  // namespace
}  // namespace adjoin
