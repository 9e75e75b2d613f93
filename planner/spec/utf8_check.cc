#include "planner/spec/utf8_check.h"

#include <vector>

#include <google/protobuf/descriptor.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Returns the path of the first string that is not UTF-8 in one element of `field`, whose own path is `path`; else "".
std::string WrongIn(const Message& message, const FieldDescriptor* field, int index, const std::string& path) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const std::string below =
        FieldThatIsNotUtf8(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, index)
                                                : reflection.GetMessage(message, field));
    return below.empty() ? "" : absl::StrCat(path, ".", below);
  }
  if (field->type() != FieldDescriptor::TYPE_STRING) return "";
  const std::string text =
      field->is_repeated() ? reflection.GetRepeatedString(message, field, index) : reflection.GetString(message, field);
  return google::protobuf::internal::IsStructurallyValidUTF8(text) ? "" : path;
}

}  // namespace

std::string FieldThatIsNotUtf8(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string path = field->is_repeated() ? absl::StrCat(field->name(), "[", i, "]") : field->name();
      if (std::string wrong = WrongIn(message, field, i, path); !wrong.empty()) return wrong;
    }
  }
  return "";
}

}  // namespace adjoin
