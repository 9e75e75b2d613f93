#include "worker/samples/synthetic_samples.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

std::unique_ptr<FieldSource> SourceOf(const std::string& kind, double low, double high,
                                      const std::vector<int64_t>& shape = {3, 4, 5}, uint64_t seed = 7,
                                      const std::string& name = "field") {
  Field field;
  field.set_name(name);
  field.mutable_synthetic()->set_kind(kind);
  field.mutable_synthetic()->set_samples(300);
  field.mutable_synthetic()->set_low(low);
  field.mutable_synthetic()->set_high(high);
  return *SyntheticSamples::Create("set", field, shape, seed);
}

std::vector<double> All(FieldSource& source, const std::vector<int64_t>& shape = {3, 4, 5}) {
  std::vector<double> cells(300 * VolumeOf(shape));
  EXPECT_TRUE(source.Read(0, 300, Box::Whole(shape), cells.data()).ok());
  return cells;
}

TEST(SyntheticSamplesTest, ABoxHasTheValuesOfTheWholeSample) {
  for (const char* kind : {"normal", "uniform", "index"}) {
    const auto source = SourceOf(kind, 0, kind == std::string("normal") ? 0 : 9);
    const std::vector<double> all = All(*source);
    std::vector<double> part(2 * 2 * 2 * 3);
    ASSERT_TRUE(source->Read(297, 2, Box({{1, 3}, {0, 2}, {2, 5}}), part.data()).ok());
    size_t i = 0;
    for (int64_t n = 297; n < 299; ++n)
      for (int64_t a = 1; a < 3; ++a)
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t c = 2; c < 5; ++c) ASSERT_EQ(part[i++], all[((n * 3 + a) * 4 + b) * 5 + c]);
  }
}

TEST(SyntheticSamplesTest, HasTheMomentsOfItsKind) {
  const std::vector<double> normal = All(*SourceOf("normal", 0, 0));
  double sum = 0, squares = 0;
  for (double x : normal) sum += x, squares += x * x;
  const double n = static_cast<double>(normal.size());  // 18000
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  for (double x : All(*SourceOf("uniform", -3, -1))) {
    EXPECT_GE(x, -3);
    EXPECT_LT(x, -1);
  }
  std::map<double, int> seen;
  for (double x : All(*SourceOf("index", -1, 3))) ++seen[x];
  ASSERT_EQ(seen.size(), 4u);
  for (double x : {-1, 0, 1, 2}) EXPECT_NEAR(seen[x], n / 4, 5 * std::sqrt(n / 4));
  for (double x : All(*SourceOf("constant", 2.5, 0))) EXPECT_EQ(x, 2.5);
}

TEST(SyntheticSamplesTest, DependsOnTheSeedAndTheNames) {
  const std::vector<double> one = All(*SourceOf("normal", 0, 0));
  EXPECT_EQ(one, All(*SourceOf("normal", 0, 0)));
  EXPECT_NE(one, All(*SourceOf("normal", 0, 0, {3, 4, 5}, 8)));
  EXPECT_NE(one, All(*SourceOf("normal", 0, 0, {3, 4, 5}, 7, "other")));
}

TEST(SyntheticSamplesTest, RefusesSamplesBeyondTheLast) {
  const auto source = SourceOf("normal", 0, 0);
  double cell;
  EXPECT_EQ(source->Read(300, 1, Box({{0, 1}, {0, 1}, {0, 1}}), &cell).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(source->Read(-1, 1, Box({{0, 1}, {0, 1}, {0, 1}}), &cell).code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace adjoin
