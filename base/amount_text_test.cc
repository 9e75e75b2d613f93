#include "base/amount_text.h"

#include <limits>

#include "gtest/gtest.h"

namespace adjoin {
namespace {

TEST(AmountTextTest, BytesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(BytesText(0), "0 bytes");
  EXPECT_EQ(BytesText(1), "1 byte");
  EXPECT_EQ(BytesText(1023), "1023 bytes");
  EXPECT_EQ(BytesText(1024), "1.00 KiB");
  EXPECT_EQ(BytesText(10229), "9.99 KiB");
  EXPECT_EQ(BytesText(10240), "10.0 KiB");
  EXPECT_EQ(BytesText(1289748), "1.23 MiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.00 MiB") << "not 1024 KiB";
  EXPECT_EQ(BytesText(int64_t{1000} << 30), "1000 GiB");
  EXPECT_EQ(BytesText(std::numeric_limits<int64_t>::max()), "8.00 EiB");
  EXPECT_EQ(BytesText(-5), "-5 bytes");
}

TEST(AmountTextTest, CountsHaveCommas) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(61706), "61,706");
  EXPECT_EQ(CountText(123456789), "123,456,789");
  EXPECT_EQ(CountText(-123456), "-123,456");
}

TEST(AmountTextTest, FlopsHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(FlopsText(0), "0 flop");
  EXPECT_EQ(FlopsText(999), "999 flop");
  EXPECT_EQ(FlopsText(1000), "1 kflop");
  EXPECT_EQ(FlopsText(2.71e7), "27.1 Mflop");
  EXPECT_EQ(FlopsText(999.6e6), "1 Gflop");
  EXPECT_EQ(FlopsText(5e21), "5e+03 Eflop");
}

}  // namespace
}  // namespace adjoin
