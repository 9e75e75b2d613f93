#include "coordinator/decisions/shared_texts.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"

namespace adjoin {
namespace {

TEST(SharedTextsTest, ATextIsHeldOnceAndAsLongAsSomebodyHasIt) {
  SharedTexts texts;
  const std::string program(100, 'p');
  auto first = texts.Get(program), second = texts.Get(program);
  EXPECT_EQ(*first, program);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, texts.Get("another"));
  const std::weak_ptr<const std::string> seen = first;
  first.reset();
  EXPECT_EQ(texts.Get(program), second);
  second.reset();
  EXPECT_TRUE(seen.expired());
  first = texts.Get(program);
  EXPECT_EQ(*first, program);
  EXPECT_EQ(texts.Get(program), first);
}

TEST(SharedTextsTest, TextsMayOutliveIt) {
  auto texts = std::make_unique<SharedTexts>();
  const auto held = texts->Get("root");
  texts.reset();
  EXPECT_EQ(*held, "root");
}

// The holders of one text are always those that have the same pointer.
TEST(SharedTextsTest, ManyComeAndGo) {
  std::mt19937_64 random(TestSeed());
  SharedTexts texts;
  std::vector<std::shared_ptr<const std::string>> held(20);
  std::vector<std::string> expected(held.size());
  for (int step = 0; step < 20000; ++step) {
    const size_t who = random() % held.size();
    expected[who] = random() % 3 == 0 ? std::string() : std::to_string(random() % 8);
    held[who] = texts.Get(expected[who]);
    for (size_t i = 0; i < held.size(); ++i) {
      if (held[i] == nullptr) continue;
      ASSERT_EQ(*held[i], expected[i]) << "step " << step;
      ASSERT_EQ(held[i] == held[who], expected[i] == expected[who]) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace adjoin
