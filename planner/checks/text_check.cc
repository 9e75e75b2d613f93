#include "planner/checks/text_check.h"

#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kShown = 100;  // bytes of a refused text, in the error

absl::Status CheckText(absl::string_view field, const std::string& text) {
  const size_t most = field == "name" ? kMaxNameBytes : kMaxPathBytes;
  if (text.size() > most) {
    return InvalidSpec(field, " \"", PrintableText(text, kShown), "\" has ", text.size(), " bytes; at most ", most,
                       " are possible");
  }
  if (IsPrintableText(text) && !absl::StrContains(text, '\t')) return absl::OkStatus();
  return InvalidSpec(field, " is \"", PrintableText(text, kShown),
                     "\"; text of a job is UTF-8, without control characters: they are shown here as \\xNN or \\n");
}

absl::Status Check(const Message& message);

// One element of `field`, or the one there is.
absl::Status CheckElement(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return Check(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, index)
                                      : reflection.GetMessage(message, field));
  }
  if (field->type() != FieldDescriptor::TYPE_STRING) return absl::OkStatus();
  std::string scratch;
  // A layer's own arguments may be long texts, such as lists of words. They are shown nowhere; text format and JSON
  // have checked that they are UTF-8.
  const bool is_argument = message.GetDescriptor()->full_name() == "adjoin.Custom.ArgEntry" && field->name() == "value";
  if (is_argument) return absl::OkStatus();
  return CheckText(field->name(), field->is_repeated()
                                      ? reflection.GetRepeatedStringReference(message, field, index, &scratch)
                                      : reflection.GetStringReference(message, field, &scratch));
}

absl::Status Check(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string index = field->is_repeated() && !field->is_map() ? absl::StrCat("[", i, "]") : "";
      ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat(field->name(), index), CheckElement(message, field, i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTexts(const JobSpec& spec) { return Check(spec); }

}  // namespace adjoin
