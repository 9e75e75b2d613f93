#include "coordinator/decisions/idempotency_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

const absl::Time kStart = absl::FromUnixSeconds(1000000);

std::vector<std::string> Names(const std::vector<StoredKey>& rows) {
  std::vector<std::string> names;
  for (const StoredKey& row : rows) {
    EXPECT_EQ(row.job, 0);
    names.push_back(row.owner + "/" + row.key);
  }
  return names;
}

class IdempotencyKeysTest : public ::testing::Test {
 protected:
  IdempotencyKeys Make(size_t per_owner, size_t total) {
    return IdempotencyKeys({.per_owner = per_owner, .total = total, .age = absl::Hours(24)},
                           [this](uint64_t job) { return known_.count(job) > 0; });
  }
  std::set<uint64_t> known_;
};

TEST_F(IdempotencyKeysTest, KeysOfForgottenJobsGoWithTheirAgeAndKnownOnesStay) {
  IdempotencyKeys keys = Make(10, 10);
  known_ = {2};
  for (uint64_t job : {1, 2, 3}) keys.Add("alice", absl::StrCat("k", job), {job, "h", kStart + absl::Hours(job)});
  EXPECT_THAT(Names(keys.Drop(kStart + absl::Hours(24))), ElementsAre());
  EXPECT_THAT(Names(keys.Drop(kStart + absl::Hours(27))), ElementsAre("alice/k1"));
  EXPECT_EQ(keys.Find("alice", "k1"), nullptr);
  EXPECT_EQ(keys.Find("alice", "k2")->job, 2);
  EXPECT_TRUE(keys.HasJob(3));
  EXPECT_THAT(Names(keys.Drop(kStart + absl::Hours(30))), ElementsAre("alice/k3"));
  known_ = {};
  EXPECT_THAT(Names(keys.Drop(kStart + absl::Hours(31))), ElementsAre("alice/k2"));
  EXPECT_EQ(keys.size(), 0);
}

TEST_F(IdempotencyKeysTest, NoOwnerCostsAnotherAKey) {
  IdempotencyKeys keys = Make(4, 6);
  keys.Add("bob", "b", {1, "h", kStart});
  for (uint64_t job = 2; job < 8; ++job) keys.Add("alice", absl::StrCat("a", job), {job, "h", kStart});
  EXPECT_THAT(Names(keys.Drop(kStart)), ElementsAre("alice/a2", "alice/a3"));
  for (uint64_t job = 8; job < 10; ++job) keys.Add("carol", absl::StrCat("c", job), {job, "h", kStart});
  EXPECT_THAT(Names(keys.Drop(kStart)), ElementsAre("alice/a4"));
  EXPECT_NE(keys.Find("bob", "b"), nullptr);
  EXPECT_EQ(keys.size(), 6);
}

TEST_F(IdempotencyKeysTest, TheKeyOfARefusedJobIsFree) {
  IdempotencyKeys keys = Make(4, 6);
  keys.Add("bob", "b", {1, "h", kStart});
  keys.Erase("bob", "b", 2);
  EXPECT_NE(keys.Find("bob", "b"), nullptr) << "another job's";
  keys.Erase("bob", "b", 1);
  EXPECT_EQ(keys.Find("bob", "b"), nullptr);
  EXPECT_FALSE(keys.HasJob(1));
}

TEST(SpecHashTest, EqualSpecsHaveOneHashWhateverTheOrderOfTheirMaps) {
  JobSpec a, b;
  for (int i = 0; i < 50; ++i) (*a.mutable_resources()->mutable_node_label())[absl::StrCat(i)] = "x";
  for (int i = 49; i >= 0; --i) (*b.mutable_resources()->mutable_node_label())[absl::StrCat(i)] = "x";
  EXPECT_EQ(SpecHash(a), SpecHash(b));
  b.set_seed(1);
  EXPECT_NE(SpecHash(a), SpecHash(b));
}

}  // namespace
}  // namespace adjoin
