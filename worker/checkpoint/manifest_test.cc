#include "worker/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/content_hash.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

Manifest Example() {
  Manifest manifest;
  manifest.job = {"job-3", std::numeric_limits<uint64_t>::max()};
  manifest.job_name = "lenet5";
  manifest.name = {42, 7, 0xfedcba9876543210};
  manifest.seed = std::numeric_limits<uint64_t>::max();
  manifest.ranks = 2;
  manifest.numbers = {{"best", 0.1}, {"worst", -INFINITY}, {"none", NAN}};
  manifest.validation = {{"loss", 1e-300}};
  manifest.files = {{"rank-0000.safetensors", 100, std::string(32, 'a')},
                    {"rank-0001.safetensors", 90, std::string(32, 'b')}};
  manifest.tensors["fc.weight"] = {DType::kFloat32,
                                   {4, 3},
                                   {{.file = 0, .box = Box({{0, 2}, {0, 3}}), .offset = 8, .hash = "x"},
                                    {.file = 1, .box = Box({{2, 4}, {0, 3}}), .offset = 16, .hash = "y"}}};
  manifest.tensors["count"] = {DType::kInt64, {}, {{.file = 1, .box = Box(), .offset = 40, .hash = "z"}}};
  return manifest;
}

TEST(ManifestTest, ParseReturnsWhatWasWritten) {
  const Manifest manifest = Example();
  const auto read = Manifest::Parse(manifest.ToText());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToText(), manifest.ToText());
  EXPECT_EQ(read->job.store_id, manifest.job.store_id);
  EXPECT_EQ(read->numbers.at("best"), 0.1);
  EXPECT_EQ(read->numbers.at("worst"), -INFINITY);
  EXPECT_TRUE(std::isnan(read->numbers.at("none")));
  EXPECT_EQ(read->tensors.at("fc.weight").pieces[1].box, Box({{2, 4}, {0, 3}}));
  EXPECT_EQ(read->tensors.at("count").shape, std::vector<int64_t>());
}

TEST(ManifestTest, ParsesOnlyTheNamesOfCheckpoints) {
  const CheckpointName name{42, 7, 0xabc};
  EXPECT_EQ(name.ToString(), "step-0000000042.7-0000000000000abc");
  ASSERT_TRUE(CheckpointName::Parse(name.ToString()).has_value());
  EXPECT_EQ(CheckpointName::Parse(name.ToString())->tag, 0xabcu);
  for (const char* other :
       {"step-42.7-0000000000000abc", "step-0000000042", "step-0000000042.7-abc", "", "step-.-",
        "step--000000042.7-0000000000000abc", "step-0000000042.7-0000000000000ABC", "manifest.json"}) {
    EXPECT_FALSE(CheckpointName::Parse(other).has_value()) << other;
  }
  EXPECT_TRUE((CheckpointName{42, 7, 0}).NewerThan({42, 6, 9}));
  EXPECT_FALSE((CheckpointName{41, 7, 0}).NewerThan({42, 6, 9}));
}

// Replaces text in a manifest and gives it the checksum that fits.
std::string Resealed(std::string text, const std::string& from, const std::string& to) {
  const std::string opening = "{\"checkpoint\": ";
  const size_t end = text.find(",\n\"xxh3_128\": \"");
  const std::string body = absl::StrReplaceAll(text.substr(opening.size(), end - opening.size()), {{from, to}});
  return opening + body + ",\n\"xxh3_128\": \"" + ContentHash::Of(body) + "\"}\n";
}

TEST(ManifestTest, ParseNamesWhatDoesNotFitTogether) {
  const std::string text = Example().ToText();
  struct Case {
    std::string from, to, error;
  };
  const std::vector<Case> cases = {
      {"\"version\": 1", "\"version\": 2", "format 2"},
      {"\"offset\": 16", "\"offset\": 9223372036854775807", "beyond its file"},
      {"\"offset\": 16", "\"offset\": -1", "beyond its file"},
      {"\"bytes\": 90", "\"bytes\": 30", "beyond its file"},
      {"\"file\": 1", "\"file\": 2", "not listed"},
      {"\"name\": \"rank-0001.safetensors\"", "\"name\": \"../x\"", "names no file"},
      {"float32", "float31", "float31"},
      {"\"seed\"", "\"sead\"", "does not have what a manifest has"},
      {"\"tensors\": {",
       "\"tensors\": {\"t\": {\"dtype\": \"float32\", \"shape\": [4611686018427387904, 4], \"pieces\": []},",
       "no shape"},
      {"\"tensors\": {", "\"tensors\": {\"t\": {\"dtype\": \"float32\", \"shape\": [-1], \"pieces\": []},", "no shape"},
      {"\"tensors\": {", "\"tensors\": {\"t\": {\"dtype\": \"float32\", \"shape\": [2], \"pieces\": []},",
       "2 elements, its pieces 0"},
  };
  ASSERT_TRUE(Manifest::Parse(Resealed(text, "lenet5", "lenet6")).ok());
  for (const Case& c : cases) {
    const std::string changed = Resealed(text, c.from, c.to);
    EXPECT_NE(changed, text) << c.from;
    const absl::Status status = Manifest::Parse(changed).status();
    EXPECT_FALSE(status.ok()) << c.to;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.error));
  }
  EXPECT_THAT(std::string(Manifest::Parse(absl::StrReplaceAll(text, {{"lenet5", "lenet6"}})).status().message()),
              HasSubstr("damaged"));
}

TEST(ManifestTest, ANewerFormatIsNotDamage) {
  const std::string text = Example().ToText();
  EXPECT_TRUE(absl::IsUnimplemented(Manifest::Parse(Resealed(text, "\"version\": 1", "\"version\": 2")).status()));
  EXPECT_TRUE(absl::IsDataLoss(Manifest::Parse(Resealed(text, "\"version\": 1", "\"version\": 0")).status()));
  EXPECT_TRUE(absl::IsDataLoss(Manifest::Parse(Resealed(text, "\"version\": 1", "\"version\": \"2\"")).status()));
  EXPECT_TRUE(
      absl::IsDataLoss(Manifest::Parse(absl::StrReplaceAll(text, {{"\"version\": 1", "\"version\": 2"}})).status()))
      << "the checksum does not fit";
}

}  // namespace
}  // namespace adjoin
