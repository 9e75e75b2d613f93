#include "worker/runtime/data_path.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(DataPathTest, StaysBelowTheRoot) {
  EXPECT_EQ(*PathBelow("/srv/data", "mnist/a..b.gz"), "/srv/data/mnist/a..b.gz");
  EXPECT_EQ(*PathBelow("/srv/data/", "./a"), "/srv/data/./a");
  const std::string bad_paths[] = {"", "/etc/passwd", "../a", "a/../../b", "a/..", std::string("a\0b", 3)};
  for (const std::string& bad : bad_paths) {
    EXPECT_EQ(PathBelow("/srv/data", bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_FALSE(PathBelow("", "a").ok());
}

}  // namespace
}  // namespace adjoin
