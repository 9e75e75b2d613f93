#include "planner/checks/text_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/spec_error.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_fixtures.h"
#include "planner/spec/spec_parser.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

using Steps = std::vector<const FieldDescriptor*>;

// The ways to every text of a job, each through a message type once.
void FindTexts(const Descriptor* type, Steps& way, std::vector<const Descriptor*>& open, std::vector<Steps>& texts) {
  if (std::count(open.begin(), open.end(), type) > 0) return;
  open.push_back(type);
  for (int i = 0; i < type->field_count(); ++i) {
    way.push_back(type->field(i));
    if (type->field(i)->type() == FieldDescriptor::TYPE_STRING) texts.push_back(way);
    if (type->field(i)->message_type() != nullptr) FindTexts(type->field(i)->message_type(), way, open, texts);
    way.pop_back();
  }
  open.pop_back();
}

std::vector<Steps> AllTexts() {
  std::vector<Steps> texts;
  Steps way;
  std::vector<const Descriptor*> open;
  FindTexts(JobSpec::descriptor(), way, open, texts);
  return texts;
}

// A job with nothing but this text, and the field's path.
JobSpec JobWith(const Steps& way, const std::string& text, std::string* path) {
  JobSpec spec;
  Message* message = &spec;
  path->clear();
  for (const FieldDescriptor* field : way) {
    const bool indexed = field->is_repeated() && !field->is_map();
    absl::StrAppend(path, path->empty() ? "" : ".", field->name(), indexed ? "[0]" : "");
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      field->is_repeated() ? reflection.AddString(message, field, text) : reflection.SetString(message, field, text);
    } else {
      message =
          field->is_repeated() ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field);
    }
  }
  return spec;
}

TEST(TextCheckTest, EveryTextOfAJobIsChecked) {
  const std::vector<Steps> texts = AllTexts();
  ASSERT_GT(texts.size(), 50u);
  for (const Steps& way : texts) {
    const size_t most = way.back()->name() == "name" ? kMaxNameBytes : kMaxPathBytes;
    std::string path;
    for (const std::string& bad :
         {std::string("a\nb"), std::string("a\x1b[2J"), std::string("a\tb"), std::string("a\0b", 3),
          std::string("\xff"), std::string("a\xe2\x80\xae"), std::string(most + 1, 'x')}) {
      const absl::Status status = CheckTexts(JobWith(way, bad, &path));
      if (path == "layer[0].custom.arg.value") {  // a layer's own, of any form
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
      EXPECT_EQ(FieldOf(status), path);
      EXPECT_TRUE(absl::StartsWith(status.message(), absl::StrCat(way.back()->name(), " "))) << status;
      EXPECT_LT(status.message().size(), 400u) << path;
    }
    for (const std::string& good : {std::string("caf\xc3\xa9 1"), std::string(most, 'x'), std::string()}) {
      EXPECT_TRUE(CheckTexts(JobWith(way, good, &path)).ok()) << path;
    }
  }
}

TEST(TextCheckTest, ThePlannerRefusesItWithItsLine) {
  const auto refusal = [](const std::string& before, const std::string& after) {
    const absl::StatusOr<ParsedSpec> parsed = ParseSpec(absl::StrReplaceAll(kLeNet, {{before, after}}), "job");
    if (!parsed.ok()) return std::string(parsed.status().message());
    return std::string(Planner::Build(parsed->spec, {}, BuiltinLayerRules(), &parsed->locations).status().message());
  };
  EXPECT_EQ(refusal("output_dir: \"lenet5-spatial\"", "output_dir: \"out\\n2026-11-20 adjoin: forged\""),
            "job:29:1: output_dir is \"out\\n2026-11-20 adjoin: forged\"; text of a job is UTF-8, without control "
            "characters: they are shown here as \\xNN or \\n");
  EXPECT_TRUE(absl::StartsWith(refusal("name: \"conv1\"", "name: \"conv\\x1b\""),
                               "job:7:9: layer 0 \"conv\\x1b\": name is \"conv\\x1b\"; "))
      << refusal("name: \"conv1\"", "name: \"conv\\x1b\"");
  EXPECT_EQ(
      refusal("name: \"lenet5-spatial\"", absl::StrCat("name: \"", std::string(1000000, 'n'), "\"")).substr(0, 20),
      "job:1:1: name \"nnnnn");
}

}  // namespace
}  // namespace adjoin
