#include "worker/tensorboard/event_record.h"

#include <numeric>
#include <string>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

// RFC 3720, appendix B.4.
TEST(EventRecordTest, ChecksumsAreThoseOfTheStandard) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43);
  std::string up(32, '\0');
  std::iota(up.begin(), up.end(), '\0');
  EXPECT_EQ(Crc32c(up), 0x46dd794e);
  EXPECT_EQ(Crc32c(std::string(up.rbegin(), up.rend())), 0x113fdb5c);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(EventRecordTest, HasLengthAndContentEachWithItsChecksum) {
  const std::string record = EventRecord("abc");
  ASSERT_EQ(record.size(), 8 + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

}  // namespace
}  // namespace adjoin
