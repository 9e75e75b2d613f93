// Walks the descriptors of job.proto, so that a field is covered as soon as it is marked.
#include "planner/checks/supported_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// The fields that lead from JobSpec to one field, which is the last.
using Chain = std::vector<const FieldDescriptor*>;

// Calls `visit` with the chain to every field below `type`. A message that contains itself is entered once.
void ForEachField(const Descriptor* type, Chain& chain, const std::function<void(const Chain&)>& visit) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool inside = std::any_of(chain.begin(), chain.end(), [&](const FieldDescriptor* outer) {
      return outer->containing_type() == field->message_type();
    });
    chain.push_back(field);
    visit(chain);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map() && !inside) {
      ForEachField(field->message_type(), chain, visit);
    }
    chain.pop_back();
  }
}

std::vector<Chain> AllFields() {
  std::vector<Chain> all;
  Chain chain;
  ForEachField(JobSpec::descriptor(), chain, [&](const Chain& found) { all.push_back(found); });
  return all;
}

bool IsPlanned(const FieldDescriptor* field) { return field->options().GetExtension(planned); }

// "layer[0].conv.window": as the location of an error.
std::string PathOf(const Chain& chain) {
  std::string path;
  for (const FieldDescriptor* field : chain) {
    absl::StrAppend(&path, path.empty() ? "" : ".", field->name(), field->is_repeated() ? "[0]" : "");
  }
  return path;
}

// Sets the field, or adds one element, to a value that is not the default; `value`: of an enum.
void SetField(Message& message, const FieldDescriptor* field, const EnumValueDescriptor* value) {
  const Reflection& to = *message.GetReflection();
  const bool list = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return list ? to.AddBool(&message, field, true) : to.SetBool(&message, field, true);
    case FieldDescriptor::CPPTYPE_INT32:
      return list ? to.AddInt32(&message, field, 1) : to.SetInt32(&message, field, 1);
    case FieldDescriptor::CPPTYPE_INT64:
      return list ? to.AddInt64(&message, field, 1) : to.SetInt64(&message, field, 1);
    case FieldDescriptor::CPPTYPE_UINT32:
      return list ? to.AddUInt32(&message, field, 1) : to.SetUInt32(&message, field, 1);
    case FieldDescriptor::CPPTYPE_UINT64:
      return list ? to.AddUInt64(&message, field, 1) : to.SetUInt64(&message, field, 1);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return list ? to.AddFloat(&message, field, 1) : to.SetFloat(&message, field, 1);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? to.AddDouble(&message, field, 1) : to.SetDouble(&message, field, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return list ? to.AddString(&message, field, "a") : to.SetString(&message, field, "a");
    case FieldDescriptor::CPPTYPE_ENUM:
      return list ? to.AddEnum(&message, field, value) : to.SetEnum(&message, field, value);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      list ? to.AddMessage(&message, field) : to.MutableMessage(&message, field);
      return;
  }
}

absl::Status CheckWith(const Chain& chain, const EnumValueDescriptor* value = nullptr) {
  JobSpec spec;
  Message* message = &spec;
  for (const FieldDescriptor* field : Chain(chain.begin(), chain.end() - 1)) {
    const Reflection& reflection = *message->GetReflection();
    message = field->is_repeated() ? reflection.AddMessage(message, field) : reflection.MutableMessage(message, field);
  }
  const FieldDescriptor* last = chain.back();
  if (last->cpp_type() == FieldDescriptor::CPPTYPE_ENUM && value == nullptr) value = last->enum_type()->value(1);
  SetField(*message, last, value);
  return CheckSupportedFields(spec, BuiltinLayerRules());
}

TEST(SupportedFieldsTest, EveryPlannedFieldIsRefusedByName) {
  int found = 0;
  for (const Chain& chain : AllFields()) {
    if (!IsPlanned(chain.back()) || std::any_of(chain.begin(), chain.end() - 1, IsPlanned)) continue;
    ++found;
    SCOPED_TRACE(PathOf(chain));
    const absl::Status status = CheckWith(chain);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), EndsWith(chain.back()->name() + " is not supported yet"));
    EXPECT_EQ(FieldOf(status), PathOf(chain));
  }
  EXPECT_GT(found, 0);
}

TEST(SupportedFieldsTest, EveryOtherFieldIsAccepted) {
  int found = 0;
  for (const Chain& chain : AllFields()) {
    if (std::any_of(chain.begin(), chain.end(), IsPlanned)) continue;
    ++found;
    EXPECT_TRUE(CheckWith(chain).ok()) << PathOf(chain) << ": " << CheckWith(chain);
  }
  EXPECT_GT(found, 100);
}

TEST(SupportedFieldsTest, EveryPlannedValueIsRefusedByName) {
  int found = 0;
  for (const Chain& chain : AllFields()) {
    if (chain.back()->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    for (int i = 1; i < chain.back()->enum_type()->value_count(); ++i) {
      const EnumValueDescriptor* value = chain.back()->enum_type()->value(i);
      SCOPED_TRACE(value->full_name());
      const absl::Status status = CheckWith(chain, value);
      if (!value->options().GetExtension(planned_value)) {
        EXPECT_TRUE(status.ok()) << status;
        continue;
      }
      ++found;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
      EXPECT_THAT(std::string(status.message()), HasSubstr(value->name() + " is not supported yet"));
      EXPECT_EQ(FieldOf(status), PathOf(chain));
    }
  }
  EXPECT_GT(found, 0);
}

TEST(SupportedFieldsTest, AMessageNamesTheFieldAndWhatIsSupported) {
  JobSpec spec;
  spec.mutable_precision()->set_reduce("float32");
  EXPECT_EQ(CheckSupportedFields(spec, BuiltinLayerRules()).message(), "precision.reduce is not supported yet");
  spec.Clear();
  spec.set_kind(VERIFY);
  EXPECT_EQ(CheckSupportedFields(spec, BuiltinLayerRules()).message(),
            "kind VERIFY is not supported yet; TRAIN, PREDICT and EVALUATE are");
}

TEST(SupportedFieldsTest, ALayerWithoutARuleIsRefused) {
  JobSpec spec;
  spec.add_layer()->mutable_transformer();
  spec.add_layer()->mutable_custom();
  spec.add_layer()->mutable_conv();
  EXPECT_TRUE(CheckSupportedFields(spec, BuiltinLayerRules()).ok());
  const absl::Status status = CheckSupportedFields(spec, LayerRules());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), StartsWith("conv is not supported yet"));
  EXPECT_EQ(FieldOf(status), "layer[2].conv");
}

}  // namespace
}  // namespace adjoin
