#include "coordinator/page/request_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "coordinator/services/caller_rights.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using Cost = RequestCost;

Caller User(const std::string& name) {
  Caller caller;
  caller.name = name;
  caller.role = Role::kUser;
  return caller;
}

TEST(RequestSharesTest, OneCallerDoesNotTakeWorkersAndPlannersFromOthers) {
  RequestShares shares({});
  for (const Cost cost : {Cost::kWorker, Cost::kPlanner}) {
    EXPECT_EQ(shares.Enter(User("alice"), cost), absl::OkStatus());
    const absl::Status again = shares.Enter(User("alice"), cost);
    EXPECT_TRUE(absl::IsResourceExhausted(again)) << again;
    EXPECT_THAT(std::string(again.message()), HasSubstr("user alice has 1"));
    EXPECT_EQ(shares.Enter(User("bob"), cost), absl::OkStatus());
  }
  shares.Leave(User("alice"), Cost::kWorker);
  EXPECT_EQ(shares.Enter(User("alice"), Cost::kWorker), absl::OkStatus());
}

TEST(RequestSharesTest, LargeMessagesAreMadeForTwoOfACallersRequests) {
  RequestShares shares({});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(shares.Enter(User("alice"), Cost::kWork), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(shares.Enter(User("alice"), Cost::kWork)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(shares.Enter(User("alice"), Cost::kLittle), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted(shares.Enter(User("alice"), Cost::kLittle))) << "five in all";
  EXPECT_EQ(shares.Enter(User("bob"), Cost::kWork), absl::OkStatus());
}

TEST(RequestSharesTest, OfAllThereIsALimitToo) {
  RequestShares shares({});
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(shares.Enter(User(name), Cost::kWorker), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(shares.Enter(User("d"), Cost::kWorker)));
  EXPECT_EQ(shares.Enter(User("d"), Cost::kPlanner), absl::OkStatus());
  Caller local;
  local.local = true;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(shares.Enter(local, Cost::kWork), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(shares.Enter(local, Cost::kWork)));
  shares.Leave(User("b"), Cost::kWorker);
  EXPECT_EQ(shares.Enter(User("d"), Cost::kWorker), absl::OkStatus());
}

}  // namespace
}  // namespace adjoin
