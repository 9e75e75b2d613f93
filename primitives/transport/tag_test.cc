#include "primitives/transport/tag.h"
#include "base/testing/test_seed.h"

#include <random>

#include "gtest/gtest.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

TEST(TagTest, FieldsSurviveTheRoundTrip) {
  const uint64_t seed = TestSeed(20240901);
  std::mt19937_64 random(seed);
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int i = 0; i < 10000; ++i) {
    Tag::Fields in;
    in.communicator = below(64);
    in.op = below(65536);
    in.generation = below(1024);
    in.direction = static_cast<Direction>(below(4));
    in.source = below(262144);
    in.slot = below(4096);
    const auto tag = Tag::Make(in);
    ASSERT_TRUE(tag.ok()) << tag.status() << " seed " << seed << " case " << i;
    const Tag::Fields out = tag->fields();
    EXPECT_EQ(out.communicator, in.communicator);
    EXPECT_EQ(out.op, in.op);
    EXPECT_EQ(out.generation, in.generation);
    EXPECT_EQ(out.direction, in.direction);
    EXPECT_EQ(out.source, in.source);
    EXPECT_EQ(out.slot, in.slot);
    EXPECT_EQ(Tag::FromBits(tag->bits()), *tag);
  }
}

TEST(TagTest, BitsAreWhereTheHeaderSays) {
  EXPECT_EQ(Tag::Make({1, 0, 0, Direction::kForward, 0, 0})->bits(), uint64_t{1} << 58);
  EXPECT_EQ(Tag::Make({0, 1, 0, Direction::kForward, 0, 0})->bits(), uint64_t{1} << 42);
  EXPECT_EQ(Tag::Make({0, 0, 1, Direction::kForward, 0, 0})->bits(), uint64_t{1} << 32);
  EXPECT_EQ(Tag::Make({0, 0, 0, Direction::kAdjoint, 0, 0})->bits(), uint64_t{1} << 30);
  EXPECT_EQ(Tag::Make({0, 0, 0, Direction::kForward, 1, 0})->bits(), uint64_t{1} << 12);
  EXPECT_EQ(Tag::Make({0, 0, 0, Direction::kForward, 0, 1})->bits(), uint64_t{1});
  EXPECT_EQ(Tag::Make({kTransportCommunicator, kTransportOperator, 1023, Direction::kControl, 262143, 4095})->bits(),
            ~uint64_t{0});
}

TEST(TagTest, GenerationsWrap) {
  EXPECT_EQ(*Tag::Make({0, 7, 1024 + 5, Direction::kForward, 0, 0}), *Tag::Make({0, 7, 5, Direction::kForward, 0, 0}));
  EXPECT_TRUE(Tag::Make({0, 7, INT64_MAX, Direction::kForward, 0, 0}).ok());
}

TEST(TagTest, NamesTheFieldOutOfRange) {
  auto message = [](const Tag::Fields& fields) {
    const auto tag = Tag::Make(fields);
    EXPECT_EQ(tag.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(tag.status().message());
  };
  EXPECT_EQ(message({64, 0, 0, Direction::kForward, 0, 0}), "tag: communicator 64 is not in [0, 64)");
  EXPECT_EQ(message({0, 65536, 0, Direction::kForward, 0, 0}), "tag: op 65536 is not in [0, 65536)");
  EXPECT_EQ(message({0, 0, -1, Direction::kForward, 0, 0}), "tag: generation -1 is negative");
  EXPECT_EQ(message({0, 0, 0, static_cast<Direction>(4), 0, 0}), "tag: direction 4 is not in [0, 4)");
  EXPECT_EQ(message({0, 0, 0, Direction::kForward, 262144, 0}), "tag: source 262144 is not in [0, 262144)");
  EXPECT_EQ(message({0, 0, 0, Direction::kForward, 0, -3}), "tag: slot -3 is not in [0, 4096)");
}

TEST(TagTest, Prints) {
  EXPECT_EQ(Tag::Make({0, 7, 3, Direction::kForward, 2, 0})->ToString(),
            "operator 7 forward, generation 3, from rank 2, slot 0");
  EXPECT_EQ(Tag::Make({5, 7, 3, Direction::kAdjoint, 2, 1})->ToString(),
            "communicator 5, operator 7 adjoint, generation 3, from rank 2, slot 1");
}

}  // namespace
}  // namespace adjoin
