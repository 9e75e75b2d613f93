#include "coordinator/page/list_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

ListJobsRequest Of(const std::string& owner) {
  ListJobsRequest request;
  request.set_owner(owner);
  return request;
}

class ListCacheTest : public ::testing::Test {
 protected:
  // What was answered, which tells the owner and the number of the look.
  std::string Ask(const std::string& owner) {
    const auto answer = cache_.Of(Of(owner));
    return answer.ok() ? (*answer)->notice() : std::string(answer.status().message());
  }
  int looks_ = 0;
  bool fails_ = false;
  absl::Duration now_ = absl::Seconds(100);
  ListCache cache_{[this](const ListJobsRequest& request) -> absl::StatusOr<ListJobsResponse> {
                     ++looks_;
                     if (fails_) return absl::UnavailableError("not now");
                     if (request.owner() == "forgets") cache_.Forget();
                     ListJobsResponse response;
                     response.set_notice(absl::StrCat(request.owner(), " ", looks_));
                     return response;
                   },
                   {.fresh = absl::Seconds(1), .most = 2, .clock = [this] { return now_; }}};
};

TEST_F(ListCacheTest, OneLookServesAMoment) {
  EXPECT_EQ(Ask("a"), "a 1");
  now_ += absl::Milliseconds(999);
  EXPECT_EQ(Ask("a"), "a 1");
  EXPECT_EQ(Ask("b"), "b 2");
  now_ += absl::Milliseconds(1);
  EXPECT_EQ(Ask("a"), "a 3");
  EXPECT_EQ(Ask("b"), "b 2");
}

TEST_F(ListCacheTest, AfterAChangeTheJobsAreLookedAtAgain) {
  EXPECT_EQ(Ask("a"), "a 1");
  cache_.Forget();
  EXPECT_EQ(Ask("a"), "a 2");
  // One that was under way while the change was made is not kept.
  EXPECT_EQ(Ask("forgets"), "forgets 3");
  EXPECT_EQ(Ask("forgets"), "forgets 4");
}

TEST_F(ListCacheTest, KeepsFewAnswersAndNoErrors) {
  EXPECT_EQ(Ask("a"), "a 1");
  EXPECT_EQ(Ask("b"), "b 2");
  EXPECT_EQ(Ask("c"), "c 3");
  EXPECT_EQ(Ask("a"), "a 4");
  fails_ = true;
  EXPECT_EQ(Ask("d"), "not now");
  fails_ = false;
  EXPECT_EQ(Ask("d"), "d 6");
}

}  // namespace
}  // namespace adjoin
