// A name means what NamedLayouts makes of it, however often and for whatever tensors it was asked before.
#include "planner/auto/resolved_layouts.h"

#include <cstdint>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>

#include "base/testing/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/random_cases.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

NamedLayouts Named(const std::string& weights) {
  JobSpec job;
  const std::string text = "ranks: 6 " + weights +
                           " layout { name: 'rows' partition: [3, 2] }"
                           " layout { name: 'columns' partition: [1, 6] }"
                           " layout { name: 'both' mesh { size: 3 } mesh { size: 2 } sbp: ['S(1)', 'B'] }"
                           " layout { name: 'some' partition: [2, 1] rank: [5, 1] }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  auto named = NamedLayouts::Create(job);
  EXPECT_TRUE(named.ok()) << named.status();
  return *std::move(named);
}

TEST(ResolvedLayoutsTest, NumbersWhatANameMeansForEachTensor) {
  const uint64_t seed = TestSeed(20261130);
  for (const char* weights : {"", "rank_weight: [1, 1, 2, 2, 3, 3]"}) {
    const NamedLayouts named = Named(weights);
    ResolvedLayouts resolved(named);
    LayoutTable table;
    Draw draw(seed);
    for (int i = 0; i < 500 && !testing::Test::HasFailure(); ++i) {
      const std::string name = std::vector<std::string>{"rows", "columns", "both", "some"}[draw.Between(0, 3)];
      const std::vector<int64_t> shape = {draw.Between(1, 7), draw.Between(1, 7)};
      const DType dtype = draw.OneIn(2) ? DType::kFloat32 : DType::kFloat64;
      const absl::StatusOr<int> number = resolved.Number(name, shape, dtype, &table);
      ASSERT_TRUE(number.ok()) << number.status() << " ADJOIN_TEST_SEED=" << seed;
      const absl::StatusOr<Layout> layout = named.Resolve(name, shape, dtype);
      ASSERT_TRUE(layout.ok()) << layout.status() << " ADJOIN_TEST_SEED=" << seed;
      EXPECT_EQ(table[*number], *layout) << name << " ADJOIN_TEST_SEED=" << seed << " case " << i;
      EXPECT_EQ(*number, table.Add(*layout)) << "equal layouts have one number";
    }
    EXPECT_GT(table.size(), 100) << "most were asked for the first time";
    EXPECT_LE(table.size(), 4 * 49 * 2) << "names, shapes and types";
  }
}

TEST(ResolvedLayoutsTest, RefusesWhatNoLayoutIsOfEachTime) {
  ResolvedLayouts resolved(Named(""));
  LayoutTable table;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(std::string(resolved.Number("row", {4, 4}, DType::kFloat32, &table).status().message()),
                HasSubstr("there is no layout \"row\""));
    EXPECT_THAT(std::string(resolved.Number("rows", {4, 4, 4}, DType::kFloat32, &table).status().message()),
                HasSubstr("is for tensors of 2 dims"));
  }
  EXPECT_EQ(table.size(), 0);
}

}  // namespace
}  // namespace adjoin
