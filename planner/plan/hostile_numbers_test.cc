// Every number of every example job replaced by extreme ones, alone and several at once: the planner refuses it with a
// reason, or makes a plan without overflow. Overflow is found by --config=ubsan and by sums below 0.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/test_seed.h"
#include "gtest/gtest.h"

#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kExtremes[] = {0,
                                 1,
                                 7,
                                 1 << 16,
                                 1 << 20,
                                 int64_t{1} << 30,
                                 std::numeric_limits<int32_t>::max(),
                                 std::numeric_limits<uint32_t>::max(),
                                 int64_t{1} << 40,
                                 int64_t{1} << 52,
                                 int64_t{1} << 55,
                                 int64_t{1} << 56,
                                 (int64_t{1} << 62) - 1,
                                 std::numeric_limits<int64_t>::max(),
                                 -1,
                                 -(1 << 20),
                                 std::numeric_limits<int32_t>::min(),
                                 std::numeric_limits<int64_t>::min()};

// One number of a message in the job.
struct Place {
  Message* message;
  const FieldDescriptor* field;
  int index;  // in a repeated field; -1: not repeated
};

bool IsInteger(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64: return true;
    default: return false;
  }
}

void CollectPlaces(Message* message, std::vector<Place>& places) {
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (field->containing_oneof() != nullptr && !field->has_optional_keyword() && !reflection.HasField(*message, field))
      continue;
    const int count = field->is_repeated() ? reflection.FieldSize(*message, field) : 1;
    for (int k = 0; k < count; ++k) {
      if (IsInteger(field)) {
        places.push_back({message, field, field->is_repeated() ? k : -1});
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map()) {
        if (field->is_repeated()) {
          CollectPlaces(reflection.MutableRepeatedMessage(message, field, k), places);
        } else if (reflection.HasField(*message, field)) {
          CollectPlaces(reflection.MutableMessage(message, field), places);
        }
      }
    }
  }
}

void Set(const Place& place, int64_t value) {
  const Reflection& reflection = *place.message->GetReflection();
  switch (place.field->cpp_type()) {
#define ADJOIN_SET(kind, Type, as)                                                                   \
  case FieldDescriptor::kind:                                                                        \
    if (place.index >= 0)                                                                            \
      reflection.SetRepeated##Type(place.message, place.field, place.index, static_cast<as>(value)); \
    else                                                                                             \
      reflection.Set##Type(place.message, place.field, static_cast<as>(value));                      \
    break
    ADJOIN_SET(CPPTYPE_INT32, Int32, int32_t);
    ADJOIN_SET(CPPTYPE_INT64, Int64, int64_t);
    ADJOIN_SET(CPPTYPE_UINT32, UInt32, uint32_t);
    ADJOIN_SET(CPPTYPE_UINT64, UInt64, uint64_t);
#undef ADJOIN_SET
    default: break;
  }
}

JobSpec Example(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto parsed = ParseSpec(text.str(), path);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? parsed->spec : JobSpec();
}

// Expects that the job is refused or planned within the time limit.
void Check(const JobSpec& spec, const std::string& what) {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t samples = spec.seed() % 2 == 0 ? 10000 : std::numeric_limits<int64_t>::max();
  auto plan = Planner::Build(spec, {{"train", samples}, {"test", 2000}}, BuiltinLayerRules());
  if (plan.ok()) {
    for (const ProgramPlan& program : plan->program()) {
      for (int64_t bytes : program.bytes_per_step()) EXPECT_GE(bytes, 0) << what;
      for (const LayerPlan& layer : program.layer()) EXPECT_GE(layer.flops(), 0) << what << " layer " << layer.name();
    }
    EXPECT_FALSE(Planner::Explain(*plan).empty());
  } else {
    EXPECT_FALSE(plan.status().message().empty()) << what;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LT(seconds, 20) << what;
}

class HostileNumbers : public testing::TestWithParam<std::string> {};

TEST_P(HostileNumbers, OneAtATime) {
  const JobSpec spec = Example(GetParam());
  JobSpec copy = spec;
  std::vector<Place> places;
  CollectPlaces(&copy, places);
  ASSERT_GT(places.size(), 20u);
  const int count = static_cast<int>(places.size());
  // Larger jobs have many numbers of one kind: each takes its share of the extremes.
  const int tried = count > 200 ? 3 : static_cast<int>(std::size(kExtremes));
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < tried; ++k) {
      const int64_t value = kExtremes[(i * tried + k) % std::size(kExtremes)];
      copy = spec;
      places.clear();
      CollectPlaces(&copy, places);
      Set(places[i], value);
      Check(copy, places[i].field->full_name() + " = " + std::to_string(value));
    }
  }
}

TEST_P(HostileNumbers, SeveralAtOnce) {
  const JobSpec spec = Example(GetParam());
  const uint64_t seed = TestSeed();
  std::mt19937 random(seed);
  for (int round = 0; round < 400; ++round) {
    JobSpec copy = spec;
    copy.set_seed(round);
    std::vector<Place> places;
    CollectPlaces(&copy, places);
    std::string what = "ADJOIN_TEST_SEED=" + std::to_string(seed);
    for (uint32_t i = 0, n = 1 + random() % 4; i < n; ++i) {
      const Place& place = places[random() % places.size()];
      const int64_t value = kExtremes[random() % std::size(kExtremes)];
      Set(place, value);
      what += ", " + place.field->full_name() + " = " + std::to_string(value);
    }
    Check(copy, what);
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, HostileNumbers,
                         testing::Values("examples/mnist/lenet5-serial.textproto",
                                         "examples/mnist/lenet5-hybrid.textproto", "examples/unet/unet3d.textproto",
                                         "examples/vit/vit.textproto", "examples/swin3d/swin3d.textproto"),
                         [](const auto& info) { return std::to_string(info.index); });

}  // namespace
}  // namespace adjoin
