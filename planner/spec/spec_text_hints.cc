#include "planner/spec/spec_text_hints.h"

#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "planner/spec/nearest_name.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

std::string NearestField(const Descriptor* type, const std::string& name) {
  if (type == nullptr) return "";
  std::vector<std::string> fields;
  for (int i = 0; i < type->field_count(); ++i) fields.push_back(type->field(i)->name());
  const std::string nearest = NearestName(name, fields);
  if (!nearest.empty()) return absl::StrCat(" Did you mean \"", nearest, "\"?");
  return absl::StrCat(" There are: ", absl::StrJoin(fields, ", "), ".");
}

}  // namespace

std::string UnknownFieldHint(absl::string_view message) {
  // Message type "adjoin.Train" has no field named "epoch".
  const std::vector<std::string> parts = absl::StrSplit(message, '"');
  if (parts.size() != 5 || parts[0] != "Message type " || parts[2] != " has no field named ") return "";
  return NearestField(google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(parts[1]), parts[3]);
}

std::string UnknownJsonFieldHint(absl::string_view message) {
  // (layer[1].conv) out_chanels: Cannot find field.
  if (!absl::ConsumeSuffix(&message, ": Cannot find field.")) return "";
  const Descriptor* type = JobSpec::descriptor();
  if (absl::ConsumePrefix(&message, "(")) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(message, absl::MaxSplits(") ", 1));
    for (const absl::string_view step : absl::StrSplit(parts.first, '.')) {
      const std::string name(step.substr(0, step.find('[')));
      const FieldDescriptor* field = type->FindFieldByName(name);
      if (field == nullptr) field = type->FindFieldByCamelcaseName(name);
      type = field == nullptr ? nullptr : field->message_type();
      if (type == nullptr) return "";
    }
    message = parts.second;
  }
  return NearestField(type, std::string(message));
}

std::string WhyNoSpec(absl::string_view text) {
  if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff")) {
    return "is UTF-16; right would be the same text in UTF-8";
  }
  if (absl::StartsWith(text, "PK\x03\x04")) {
    return "is a zip file, as models of PyTorch's are; right would be a job, such as `adjoin import` makes of one";
  }
  if (absl::StrContains(text, '\0')) return "is no text; right would be a job in protobuf's text format or in JSON";
  return "";
}

}  // namespace adjoin
