#include "planner/checks/supported_fields.h"

#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "layers/attention/block_expansion.h"
#include "layers/rules/spec_error.h"

namespace adjoin {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool IsSupported(const FieldDescriptor& field, const LayerRules& rules) {
  if (field.options().GetExtension(planned)) return false;
  if (field.containing_type() != Layer::descriptor() || field.containing_oneof() == nullptr) return true;
  // CheckLayers refuses an unknown Custom.type, and names the known ones.
  return field.name() == "custom" || IsBlock(field.name()) || rules.Find(field.name()) != nullptr;
}

// Names the values that may be written instead: "TRAIN, PREDICT and EVALUATE are". The enum's first value means that
// none is.
std::string Advice(const EnumValueDescriptor& refused) {
  std::vector<std::string> names;
  for (int i = 1; i < refused.type()->value_count(); ++i) {
    const EnumValueDescriptor* value = refused.type()->value(i);
    if (!value->options().GetExtension(planned_value)) names.push_back(value->name());
  }
  if (names.empty()) return "";
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? absl::StrCat(last, " is") : absl::StrCat(absl::StrJoin(names, ", "), " and ", last, " are");
}

// `path`: as for Check, to this field.
absl::Status CheckEnum(const Message& message, const FieldDescriptor* field, absl::string_view path) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
  for (int i = 0; i < count; ++i) {
    const EnumValueDescriptor* value =
        field->is_repeated() ? reflection.GetRepeatedEnum(message, field, i) : reflection.GetEnum(message, field);
    if (!value->options().GetExtension(planned_value)) continue;
    return AtField(absl::StrCat(field->name(), field->is_repeated() ? absl::StrCat("[", i, "]") : ""),
                   NotSupportedYet(absl::StrCat(path, " ", value->name()), Advice(*value)));
  }
  return absl::OkStatus();
}

// `shown`: the path that an error names, from the nearest element of a list on; the error's location names that
// element.
absl::Status Check(const Message& message, const LayerRules& rules, absl::string_view shown) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(shown, shown.empty() ? "" : ".", field->name());
    if (!IsSupported(*field, rules)) {
      return AtField(absl::StrCat(field->name(), field->is_repeated() ? "[0]" : ""), NotSupportedYet(path));
    }
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      ADJOIN_RETURN_IF_ERROR(CheckEnum(message, field, path));
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const Message& inner = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                  : reflection.GetMessage(message, field);
      const std::string index = field->is_repeated() ? absl::StrCat("[", i, "]") : "";
      ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat(field->name(), index),
                                     Check(inner, rules, field->is_repeated() ? "" : absl::string_view(path))));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSupportedFields(const JobSpec& spec, const LayerRules& rules) { return Check(spec, rules, ""); }

}  // namespace adjoin
