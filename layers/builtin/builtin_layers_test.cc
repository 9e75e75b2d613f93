// Every alternative of Layer.op has a rule, a builder and a serial function, and nothing else has.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "layers/attention/block_expansion.h"
#include "layers/builtin/builtin_layers.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/builtin/builtin_serial_functions.h"
#include "layers/registry.h"
#include "layers/serial_functions.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using testing::Contains;
using testing::IsEmpty;

// The alternatives of Layer.op that are layers of their own. `custom` names kinds that users register, and a block is
// expanded into other layers before any rule is asked.
std::vector<std::string> KindsInTheJobFormat() {
  std::vector<std::string> kinds;
  const google::protobuf::OneofDescriptor* op = Layer::descriptor()->FindOneofByName("op");
  for (int i = 0; i < op->field_count(); ++i) {
    const std::string& kind = op->field(i)->name();
    if (kind != "custom" && !IsBlock(kind)) kinds.push_back(kind);
  }
  return kinds;
}

std::vector<std::string> NotIn(std::vector<std::string> some, std::vector<std::string> others) {
  std::sort(some.begin(), some.end());
  std::sort(others.begin(), others.end());
  std::vector<std::string> missing;
  std::set_difference(some.begin(), some.end(), others.begin(), others.end(), std::back_inserter(missing));
  return missing;
}

TEST(BuiltinLayersTest, WalksTheJobFormat) { EXPECT_THAT(KindsInTheJobFormat(), Contains("conv")); }

TEST(BuiltinLayersTest, EveryKindHasARule) {
  EXPECT_THAT(NotIn(KindsInTheJobFormat(), BuiltinLayerRules().Kinds()), IsEmpty());
}

TEST(BuiltinLayersTest, EveryKindHasABuilder) {
  EXPECT_THAT(NotIn(KindsInTheJobFormat(), BuiltinLayers().Kinds()), IsEmpty());
}

TEST(BuiltinLayersTest, EveryKindHasASerialFunction) {
  EXPECT_THAT(NotIn(KindsInTheJobFormat(), BuiltinSerialFunctions().Kinds()), IsEmpty());
}

TEST(BuiltinLayersTest, EveryRegisteredKindIsInTheJobFormat) {
  EXPECT_THAT(NotIn(BuiltinLayerRules().Kinds(), KindsInTheJobFormat()), IsEmpty());
  EXPECT_THAT(NotIn(BuiltinLayers().Kinds(), KindsInTheJobFormat()), IsEmpty());
  EXPECT_THAT(NotIn(BuiltinSerialFunctions().Kinds(), KindsInTheJobFormat()), IsEmpty());
}

// A test of a layer has a job's text in it, and so "conv {".
TEST(BuiltinLayersTest, EveryKindStandsInATestOfItsFamily) {
  std::string tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("layers")) {
    if (entry.path().extension() != ".cc" || entry.path().parent_path().filename() == "builtin") continue;
    std::ifstream file(entry.path());
    tests.append(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_FALSE(tests.empty());
  std::vector<std::string> untested;
  for (const std::string& kind : KindsInTheJobFormat()) {
    bool found = false;
    const std::string text = kind + " {";
    for (size_t at = tests.find(text); at != std::string::npos && !found; at = tests.find(text, at + 1)) {
      const char before = at == 0 ? ' ' : tests[at - 1];
      found = before != '_' && std::isalnum(static_cast<unsigned char>(before)) == 0;
    }
    if (!found) untested.push_back(kind);
  }
  EXPECT_THAT(untested, IsEmpty());
}

}  // namespace
}  // namespace adjoin
