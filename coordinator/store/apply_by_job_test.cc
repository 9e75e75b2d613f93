#include "coordinator/store/apply_by_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/age_clock.h"

namespace adjoin {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ApplyByJobTest : public ::testing::Test {
 protected:
  ApplyByJobTest() {
    for (const char* end : {".db", ".db-wal", ".journal"}) std::filesystem::remove(base_ + end);
    last_event_ = 0;
    StoreOptions options;
    options.largest_row = 20000;
    auto store = Store::Open(base_ + ".db", options);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  static StoreChanges Job(uint64_t number, size_t reason_bytes = 10) {
    StoreChanges changes;
    changes.submissions.emplace_back().set_job(number);
    changes.jobs.emplace_back().set_number(number);
    changes.jobs.back().set_reason(std::string(reason_bytes, 'x'));
    changes.events.emplace_back().set_sequence(++last_event_);
    changes.events.back().set_job_id(absl::StrCat("job-", number));
    return changes;
  }

  static uint64_t last_event_;
  const std::string base_ = ::testing::TempDir() + "/apply-by-job";
  std::unique_ptr<Store> store_;
};
uint64_t ApplyByJobTest::last_event_ = 0;

TEST_F(ApplyByJobTest, AKeyThatGoesFromOneJobToAnotherIsTheLastOnes) {
  StoreChanges changes = Job(5);
  changes.keys.push_back({.owner = "ann", .key = "a", .job = 9, .spec_hash = "first", .unix_ms = 1});
  changes.keys.push_back({.owner = "ann", .key = "a", .job = 2, .spec_hash = "last", .unix_ms = 2});
  changes.folders.push_back({.folder = "ann", .owner = "ann", .job = 9});
  changes.folders.push_back({.folder = "ann", .owner = "ann", .job = 0});
  changes.Append(Job(7, 30000));  // is refused, so the rows are written by job
  changes.age = AgeMark{absl::FromUnixMillis(5), absl::FromUnixMillis(6)};
  std::vector<RefusedJob> refused;
  std::optional<StoreChanges> left;
  ASSERT_EQ(ApplyByJob(*store_, changes, &refused, &left), absl::OkStatus());
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].number, 7u);
  const auto state = store_->Load();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(state->age.has_value());
  EXPECT_EQ(state->age->age, absl::FromUnixMillis(5));
  ASSERT_THAT(state->keys, SizeIs(1));
  EXPECT_EQ(state->keys[0].spec_hash, "last");
  EXPECT_THAT(state->folders, IsEmpty());
}

TEST_F(ApplyByJobTest, TheRowsOfOtherJobsAreWritten) {
  StoreChanges changes;
  for (uint64_t number = 1; number <= 40; ++number) changes.Append(Job(number, number % 13 == 0 ? 30000 : 10));
  changes.last_epoch = 99;
  std::vector<RefusedJob> refused;
  std::optional<StoreChanges> left;
  ASSERT_EQ(ApplyByJob(*store_, changes, &refused, &left), absl::OkStatus());
  EXPECT_FALSE(left.has_value());
  ASSERT_THAT(refused, SizeIs(3));
  for (size_t i = 0; i < refused.size(); ++i) {
    EXPECT_EQ(refused[i].number, 13 * (i + 1));
    EXPECT_THAT(std::string(refused[i].why.message()), HasSubstr("too large for the store"));
  }
  const auto state = store_->Load();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->jobs, SizeIs(37));
  EXPECT_THAT(state->submissions, SizeIs(37));
  EXPECT_EQ(state->last_epoch, 99);
  EXPECT_THAT(*store_->Events("job-13", 0, 10), IsEmpty());
  EXPECT_THAT(*store_->Events("job-14", 0, 10), SizeIs(1));
}

TEST_F(ApplyByJobTest, AContradictionIsFoundToo) {
  ASSERT_EQ(store_->Apply(Job(1)), absl::OkStatus());
  StoreChanges changes = Job(2);
  changes.Append(Job(3));
  changes.events.back().set_sequence(1);  // job-1 has it
  std::vector<RefusedJob> refused;
  std::optional<StoreChanges> left;
  ASSERT_EQ(ApplyByJob(*store_, changes, &refused, &left), absl::OkStatus());
  EXPECT_FALSE(left.has_value());
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].number, 3);
  EXPECT_THAT(store_->Load()->jobs, SizeIs(2));
}

}  // namespace
}  // namespace adjoin
