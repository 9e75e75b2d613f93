#include "cli/key_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(KeyReaderTest, LettersAndSequences) {
  KeyReader keys;
  EXPECT_THAT(keys.Read("qsjk\r"), ElementsAre(Key::kQuit, Key::kSort, Key::kDown, Key::kUp, Key::kEnter));
  EXPECT_THAT(keys.Read("\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H"),
              ElementsAre(Key::kUp, Key::kDown, Key::kPageUp, Key::kPageDown, Key::kHome));
  EXPECT_THAT(keys.Read("\x1b[1;5A\x1b[?1;2cxyz\xff\t"), IsEmpty()) << "what means nothing is left out";
  EXPECT_FALSE(keys.waiting());
}

TEST(KeyReaderTest, ASequenceMayComeInParts) {
  KeyReader keys;
  EXPECT_THAT(keys.Read("\x1b"), IsEmpty());
  EXPECT_TRUE(keys.waiting());
  EXPECT_THAT(keys.Read("["), IsEmpty());
  EXPECT_THAT(keys.Read("B"), ElementsAre(Key::kDown));
  EXPECT_FALSE(keys.waiting());
}

TEST(KeyReaderTest, AnEscapeAloneGoesBack) {
  KeyReader keys;
  EXPECT_THAT(keys.Read("\x1b"), IsEmpty());
  EXPECT_THAT(keys.Flush(), ElementsAre(Key::kBack));
  EXPECT_THAT(keys.Flush(), IsEmpty());
  EXPECT_THAT(keys.Read("\x1bq"), ElementsAre(Key::kBack, Key::kQuit));
  EXPECT_THAT(keys.Read("\x1b["), IsEmpty());
  EXPECT_THAT(keys.Flush(), IsEmpty()) << "half a sequence is no key";
  EXPECT_THAT(keys.Read(std::string("\x1b[") + std::string(100, '1') + "q"), ElementsAre(Key::kQuit)) << "bounded";
}

}  // namespace
}  // namespace adjoin
