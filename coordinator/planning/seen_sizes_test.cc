#include "coordinator/planning/seen_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {
namespace {

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

TEST(SeenSizesTest, AsManyAreRememberedAsMayBe) {
  constexpr int kMost = 3;
  SeenSizes seen(kMost);
  std::vector<JobSpec> specs(10);
  for (size_t i = 0; i < specs.size(); ++i) {
    Add(specs[i], "train", std::to_string(i));
    seen.Add(specs[i].dataset(), Sizes({"train"}, 100));
    int known = 0;
    for (const JobSpec& spec : specs) known += !spec.dataset().empty() && seen.Of(spec.dataset()).has_value();
    EXPECT_LE(known, kMost);
    EXPECT_TRUE(seen.Of(specs[i].dataset()).has_value());
  }
}

}  // namespace
}  // namespace adjoin
