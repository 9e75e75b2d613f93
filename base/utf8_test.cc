#include "base/utf8.h"

#include <string>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(Utf8Prefix, IsAllOfAShortText) {
  EXPECT_EQ(Utf8Prefix("", 0), 0u);
  EXPECT_EQ(Utf8Prefix("abc", 3), 3u);
  EXPECT_EQ(Utf8Prefix("\xc3\xa4", 2), 2u);
}

TEST(Utf8Prefix, NeverSplitsACharacter) {
  const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";  // characters of 1, 2, 3, 4 and 1 bytes
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (size_t max = 0; max <= text.size(); ++max) EXPECT_EQ(Utf8Prefix(text, max), expected[max]) << max;
}

TEST(Utf8Prefix, CutsWhatIsNotUtf8AtTheLimit) {
  EXPECT_EQ(Utf8Prefix(std::string(20, '\x80'), 10), 10u);
  EXPECT_EQ(Utf8Prefix(std::string(20, '\x80'), 2), 2u);
}

}  // namespace
}  // namespace adjoin
