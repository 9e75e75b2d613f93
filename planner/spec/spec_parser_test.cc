#include "planner/spec/spec_parser.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "planner/spec/spec_fixtures.h"

namespace adjoin {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string ErrorOf(const std::string& text) {
  const auto parsed = ParseSpec(text, "job.textproto");
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

TEST(SpecParserTest, ReadsTextFormatWithLocations) {
  const auto parsed = ParseSpec(kLeNet, "dir/lenet.textproto");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->spec.layer_size(), 13);
  EXPECT_EQ(parsed->locations.At("layer[0]"), "dir/lenet.textproto:7:1");
  EXPECT_EQ(parsed->locations.At("layer[3].conv.window.kernel"), "dir/lenet.textproto:10:68");
  EXPECT_EQ(parsed->locations.At("layout[1].partition"), "dir/lenet.textproto:3:23");
  EXPECT_EQ(parsed->locations.At("layout[1].partition[3]"), "dir/lenet.textproto:3:23");
  EXPECT_EQ(parsed->locations.At("dataset[1].field[1].dtype"), "dir/lenet.textproto:26:60");
  EXPECT_EQ(parsed->locations.At("train.batch"), "dir/lenet.textproto:27:26");
}

TEST(SpecParserTest, AFieldThatIsNotWrittenHasTheLocationAroundIt) {
  const auto parsed = ParseSpec(kLeNet, "f");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->locations.At("layer[3].init.kind"), "f:10:1");
  EXPECT_EQ(parsed->locations.At("layer[99]"), "f:7:1");
  EXPECT_EQ(parsed->locations.At("restart"), "f");
  EXPECT_EQ(parsed->locations.At("no_such_field"), "f");
  EXPECT_EQ(parsed->locations.At(""), "f");
}

TEST(SpecParserTest, ReadsJson) {
  const auto parsed = ParseSpec(
      "  {\"name\": \"j\", \"ranks\": 2, \"layer\": [{\"name\": \"a\", \"conv\": {\"outChannels\": 3}}]}", "j.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->spec.layer(0).conv().out_channels(), 3u);
  EXPECT_EQ(parsed->locations.At("layer[0]"), "j.json");
  EXPECT_TRUE(ParseSpec("{\"output_dir\": \"d\"}", "j.json").ok());
  const auto unknown = ParseSpec("{\"layer\": [{\"nme\": \"a\"}]}", "j.json");
  EXPECT_THAT(std::string(unknown.status().message()), StartsWith("j.json: "));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("nme"));
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("layer"));
}

TEST(SpecParserTest, ErrorsNameTheLocation) {
  EXPECT_THAT(ErrorOf("name: \"j\"\nlayers { }"), StartsWith("job.textproto:2:8: "));
  EXPECT_THAT(ErrorOf("name: \"j\"\nlayers { }"), HasSubstr("no field named \"layers\""));
  EXPECT_THAT(ErrorOf("ranks: \"four\""), StartsWith("job.textproto:1:"));
  EXPECT_THAT(ErrorOf("kind: TRAINN"), HasSubstr("TRAINN"));
  EXPECT_THAT(ErrorOf("ranks: 4 ranks: 5"), HasSubstr("ranks"));
  EXPECT_THAT(ErrorOf("layer { name: \"a\" conv {} linear {} }"), HasSubstr("oneof"));
  EXPECT_THAT(ErrorOf("layer { name: \"a\""), StartsWith("job.textproto:1:"));
  EXPECT_NE(ErrorOf("{ \"ranks\": -1 }"), "");
  EXPECT_NE(ErrorOf("{ \"ranks\": 1"), "");
  EXPECT_NE(ErrorOf("\x01\xff"), "");
}

TEST(SpecParserTest, AnUnknownFieldIsToldWithTheNearestOne) {
  EXPECT_THAT(ErrorOf("train { epoch: 3 }"), HasSubstr("no field named \"epoch\". Did you mean \"epochs\"?"));
  EXPECT_THAT(ErrorOf("layer { conv { outchannels: 3 } }"), HasSubstr(" Did you mean \"out_channels\"?"));
  EXPECT_THAT(ErrorOf("layer { activation { xyzzyxyzzy: 3 } }"), HasSubstr(" There are: fn, arg"));
  EXPECT_THAT(ErrorOf("import torch"), HasSubstr(" There are: "));
  EXPECT_THAT(ErrorOf("{\"train\": {\"epoch\": 3}}"),
              EndsWith("(train) epoch: Cannot find field. Did you mean \"epochs\"?"));
  EXPECT_THAT(ErrorOf("{\"trains\": {}}"), EndsWith("Did you mean \"train\"?"));
  EXPECT_THAT(ErrorOf("{\"layer\": [{}, {\"conv\": {\"outChanels\": 3}}]}"),
              EndsWith("Did you mean \"out_channels\"?"));
  EXPECT_THAT(ErrorOf("{\"layer\": [{\"activation\": {\"xyzzyxyzzy\": 3}}]}"), HasSubstr(" There are: fn, arg"));
}

TEST(SpecParserTest, AByteOrderMarkIsLeftOut) {
  const auto parsed = ParseSpec("\xef\xbb\xbfname: \"j\"\r\nranks: 2\r\n", "j");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->spec.ranks(), 2u);
  EXPECT_EQ(parsed->locations.At("ranks"), "j:2:1");
  const auto json = ParseSpec("\xef\xbb\xbf{\"ranks\": 2}", "j.json");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->spec.ranks(), 2u);
}

TEST(SpecParserTest, FilesThatAreNoJobAreNamed) {
  EXPECT_EQ(ErrorOf(std::string("\xff\xfek\0i\0", 6)),
            "job.textproto: is UTF-16; right would be the same text in UTF-8");
  EXPECT_THAT(ErrorOf("PK\x03\x04..."), HasSubstr("such as `adjoin import` makes of one"));
  EXPECT_THAT(ErrorOf(std::string("\x93NUMPY\x01\0", 8)), HasSubstr("job.textproto: is no text"));
}

TEST(SpecParserTest, AMissingBraceIsNamedWithTheBlockThatItCloses) {
  EXPECT_EQ(
      ErrorOf("ranks: 3\nlayer { name: \"a\" conv {\n  window { kernel: 3 }\n}\nlayer { name: \"b\" }"),
      "job.textproto:5:7: Message type \"adjoin.Layer\" has no field named \"layer\". It belongs outside of layer { "
      "of line 2, column 1, which is still open here: is a } missing before?");
  EXPECT_THAT(ErrorOf("layer { conv { window { kernel: 3 }\n out_channels: 3 }\n\ttrain { batch: 3 }"),
              HasSubstr("of line 1, column 1, which is still open here"));
  EXPECT_THAT(ErrorOf("train {\n optimizer { sgd { lr: 1 }\n batch: 3 }"),
              HasSubstr("It belongs outside of optimizer { of line 2, column 2, which"));
  EXPECT_THAT(ErrorOf("train { # {\n optimizer: {\n"),
              HasSubstr("got: the end of the text: optimizer { of line 2, column 2, is not closed; a } is missing"));
  EXPECT_THAT(ErrorOf("ranks: 1 }"), HasSubstr("got: }: there is one } more"));
}

TEST(SpecParserTest, OtherMistakesAreNotCalledAMissingBrace) {
  for (const char* text : {"layer { nme: \"a\" }", "layer { name: \"}\" conv { out: 3 } }", "layers { }",
                           "layer { name: \"a\" conv {} linear {} }", "ranks: }", "train { batch: x }"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
    EXPECT_EQ(ErrorOf(text).find("missing"), std::string::npos) << ErrorOf(text);
  }
  EXPECT_EQ(ErrorOf("{\"layer\": [{\"nme\": \"{\"}]}").find("missing"), std::string::npos);
}

TEST(SpecParserTest, YamlIsNamedAtThePlaceWhereItIsNoTextFormat) {
  const auto error = [](const std::string& text, const std::string& file) {
    const auto parsed = ParseSpec(text, file);
    return parsed.ok() ? "" : std::string(parsed.status().message());
  };
  EXPECT_EQ(error("name: \"a\"\nlayer:\n  - name: conv1\n", "job.txt"),
            "job.txt:3:3: this looks like YAML, which is not read; right would be protobuf's text format, such as "
            "layer { name: \"conv1\" }, or JSON (Expected \"{\", found \"-\".)");
  for (const char* text : {"---\nname: \"a\"", "# a job\nname: a\ntrain:\n  batch: 64", "layer:\n- {name: conv1}",
                           "name: a\nlayer:\n-\n  name: conv1"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr(": this looks like YAML")) << text;
  }
  EXPECT_THAT(error("name: lenet", "job.yaml"), StartsWith("job.yaml:1:7: this looks like YAML"));
  EXPECT_THAT(error("name: lenet", "job.yml"), HasSubstr("this looks like YAML"));
  EXPECT_EQ(error("name: \"lenet\"", "job.yaml"), "") << "what can be read is read, whatever its file is called";
  EXPECT_EQ(error("{\"name\": \"lenet\"}", "job.yaml"), "") << "JSON is YAML, too";
}

TEST(SpecParserTest, OtherMistakesAreNotCalledYaml) {
  for (const char* text :
       {"ranks: \"four\"", "kind:\n  TRAINN", "layer:\n  { nme: \"a\" }", "layer { name: \"a\"\n",
        "train {\n  bach:\n    3\n  steps: 1 }", "loss { class_weight: [\n  -1,\n  - 1,\n] nme: 1 }"}) {
    EXPECT_NE(ErrorOf(text), "") << text;
    EXPECT_EQ(ErrorOf(text).find("YAML"), std::string::npos) << ErrorOf(text);
  }
}

TEST(SpecParserTest, AWordWhereATextBelongsIsShownInQuotes) {
  EXPECT_EQ(ErrorOf("name: lenet"), "job.textproto:1:7: Expected string, got: lenet; a text is in quotes, \"lenet\"");
  EXPECT_EQ(ErrorOf("name: }").find("quotes"), std::string::npos) << ErrorOf("name: }");
  EXPECT_EQ(ErrorOf("name:").find("quotes"), std::string::npos) << ErrorOf("name:");
}

TEST(SpecParserTest, AMissingBracketOfJsonHasALine) {
  EXPECT_THAT(ErrorOf("{\"ranks\": 1,\n \"layer\": [{\"name\": \"]\"}\n}"),
              HasSubstr("the [ of line 2, column 11, is not closed before line 3, column 1: a ] is missing"));
  EXPECT_THAT(ErrorOf("{ \"train\":\n { \"batch\": 1 "), HasSubstr("the { of line 2, column 2, is not closed: a }"));
  EXPECT_THAT(ErrorOf("{ \"ranks\": 1 }\n}"), HasSubstr("line 2, column 1: nothing is open"));
}

// Ranks could not read the plan of a job with such a string.
TEST(SpecParserTest, StringsAreUtf8) {
  EXPECT_EQ(ErrorOf("name: \"\xc3\xa9\""), "");
  EXPECT_EQ(ErrorOf("name: \"a\"\ndataset { field { idx { path: \"ok\" path: \"\\377\" } } }"),
            "job.textproto:2:36: dataset[0].field[0].idx.path[1] is not UTF-8");
  EXPECT_THAT(ErrorOf("resources { node_label { key: \"\\377\" value: \"a\" } }"), HasSubstr("is not UTF-8"));
  EXPECT_NE(ErrorOf("{\"name\": \"\xff\"}"), "");
}

TEST(SpecParserTest, SizeAndNestingAreLimited) {
  EXPECT_THAT(ErrorOf(std::string(kMaxSpecBytes + 1, ' ')), HasSubstr("at most 1048576"));
  EXPECT_EQ(ErrorOf(std::string(kMaxSpecBytes, ' ')), "");
  std::string deep = "{\"layer\":";
  deep += std::string(100000, '[');
  EXPECT_THAT(ErrorOf(deep), HasSubstr("nested too deeply"));
  std::string text = "layer {";
  for (int i = 0; i < 100000; ++i) text += " custom {";
  EXPECT_NE(ErrorOf(text), "");
}

}  // namespace
}  // namespace adjoin
