#include "coordinator/planning/seen_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;

void Add(JobSpec& spec, const std::string& name, const std::string& path) {
  Dataset& dataset = *spec.add_dataset();
  dataset.set_name(name);
  Field& field = *dataset.add_field();
  field.set_name("x");
  field.mutable_npy()->add_path(path);
}

SeenSizes::Sizes Sizes(const std::vector<std::string>& names, int64_t samples) {
  SeenSizes::Sizes sizes;
  for (const std::string& name : names) {
    DatasetSize& size = *sizes.Add();
    size.set_name(name);
    size.set_samples(samples);
    size.set_extents(7);
  }
  return sizes;
}

TEST(SeenSizesTest, DataSetsAreKnownByAllTheirFields) {
  JobSpec two, one, other;
  Add(two, "train", "a.npy");
  Add(two, "test", "b.npy");
  Add(one, "test", "b.npy");
  Add(other, "test", "c.npy");
  SeenSizes seen;
  EXPECT_FALSE(seen.Of(one.dataset()).has_value());
  seen.Add(two.dataset(), Sizes({"train", "test"}, 100));
  const auto sizes = seen.Of(one.dataset());
  ASSERT_TRUE(sizes.has_value());
  ASSERT_EQ(sizes->size(), 1);
  EXPECT_EQ((*sizes)[0].SerializeAsString(), Sizes({"test"}, 100).Get(0).SerializeAsString());
  EXPECT_FALSE(seen.Of(other.dataset()).has_value());
  Add(one, "train", "b.npy");
  EXPECT_FALSE(seen.Of(one.dataset()).has_value()) << "one of them is another";
  one.mutable_dataset()->RemoveLast();
  one.mutable_dataset(0)->set_limit(10);
  EXPECT_FALSE(seen.Of(one.dataset()).has_value());
}

TEST(SeenSizesTest, TheLastSizesCount) {
  JobSpec spec;
  Add(spec, "train", "a.npy");
  SeenSizes seen;
  for (const int64_t samples : {100, 99}) {
    seen.Add(spec.dataset(), Sizes({"train"}, samples));
    EXPECT_EQ(seen.Of(spec.dataset())->at(0).samples(), samples);
  }
  // What is not the sizes of these data sets changes nothing.
  seen.Add(spec.dataset(), Sizes({"test"}, 98));
  seen.Add(spec.dataset(), Sizes({"train", "test"}, 98));
  seen.Add(spec.dataset(), Sizes({}, 98));
  EXPECT_EQ(seen.Of(spec.dataset())->at(0).samples(), 99);
}

TEST(SeenSizesTest, TheOnesThatWereToldLongestAgoGo) {
  constexpr size_t kMost = 3;
  SeenSizes seen(kMost);
  std::vector<JobSpec> specs(10);
  const auto add = [&](size_t i) { seen.Add(specs[i].dataset(), Sizes({"train"}, 100)); };
  const auto known = [&] {
    std::vector<size_t> which;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i].dataset().empty() && seen.Of(specs[i].dataset()).has_value()) which.push_back(i);
    }
    return which;
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    Add(specs[i], "train", std::to_string(i));
    add(i);
    EXPECT_EQ(known().size(), std::min(i + 1, kMost));
  }
  EXPECT_THAT(known(), ElementsAre(7, 8, 9));
  add(7);
  EXPECT_THAT(known(), ElementsAre(7, 8, 9)) << "it takes no place anew";
  add(0);
  EXPECT_THAT(known(), ElementsAre(0, 7, 9));
}

TEST(SeenSizesTest, DataSetsWithoutFilesTakeNoPlace) {
  SeenSizes seen(1);
  JobSpec files, made, both;
  Add(files, "train", "a.npy");
  seen.Add(files.dataset(), Sizes({"train"}, 100));
  Dataset& dataset = *made.add_dataset();
  dataset.set_name("test");
  dataset.add_field()->mutable_synthetic()->set_samples(50);
  seen.Add(made.dataset(), Sizes({"test"}, 50));
  *both.add_dataset() = dataset;
  *both.add_dataset() = files.dataset(0);
  const auto sizes = seen.Of(both.dataset());
  ASSERT_TRUE(sizes.has_value());
  ASSERT_EQ(sizes->size(), 2);
  EXPECT_EQ((*sizes)[0].name(), "test");
  EXPECT_EQ((*sizes)[0].samples(), 50);
  EXPECT_EQ((*sizes)[1].samples(), 100);
}

TEST(SeenSizesTest, OneSpecTakesTheRoomOfFewOthers) {
  SeenSizes seen(32);
  JobSpec one, few, many;
  Add(one, "train", "a.npy");
  seen.Add(one.dataset(), Sizes({"train"}, 100));
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) {
    if (i < 2) Add(few, std::to_string(i), std::to_string(i));
    Add(many, names.emplace_back(std::to_string(i)), absl::StrCat("of many ", i));
  }
  seen.Add(few.dataset(), Sizes({"0", "1"}, 100));
  seen.Add(many.dataset(), Sizes(names, 100));
  EXPECT_TRUE(seen.Of(one.dataset()).has_value());
  EXPECT_TRUE(seen.Of(few.dataset()).has_value());
  EXPECT_FALSE(seen.Of(many.dataset()).has_value());
}

}  // namespace
}  // namespace adjoin
