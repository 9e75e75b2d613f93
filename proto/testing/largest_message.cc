#include "proto/testing/largest_message.h"

#include <algorithm>

#include <google/protobuf/descriptor.pb.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string BadText(size_t bytes, int number) {
  std::string text = absl::StrCat(number, "\x1b[31m\n\xff caf\xc3\xa9 \xe2\x80\xae");
  while (text.size() < bytes) text += text;
  text.resize(bytes);
  return text;
}

class Filler {
 public:
  explicit Filler(const LargestSizes& sizes) : sizes_(sizes) {}

  void FillField(Message* message, const FieldDescriptor* field) {
    const Reflection& reflection = *message->GetReflection();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (std::count(open_.begin(), open_.end(), field->message_type()) > 0) return;
      const int count = field->is_map() ? sizes_.entries : field->is_repeated() ? sizes_.messages : 1;
      for (int i = 0; i < count; ++i) {
        number_ = i;
        FillAll(field->is_repeated() ? reflection.AddMessage(message, field)
                                     : reflection.MutableMessage(message, field));
      }
      return;
    }
    const bool in_list = field->is_repeated() || field->containing_type()->options().map_entry();
    const int count = field->is_repeated() ? sizes_.texts : 1;
    for (int i = 0; i < count; ++i) FillValue(message, field, in_list, field->is_repeated() ? i : number_);
  }

 private:
  void FillAll(Message* message) {
    open_.push_back(message->GetDescriptor());
    for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = message->GetDescriptor()->field(i);
      if (field->name() != "header") FillField(message, field);
    }
    open_.pop_back();
  }

  void FillValue(Message* message, const FieldDescriptor* field, bool in_list, int number) {
    const Reflection& reflection = *message->GetReflection();
    const bool list = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: {
        const bool text = field->type() == FieldDescriptor::TYPE_STRING;
        const size_t bytes = in_list ? sizes_.text_of_list : text ? sizes_.text : sizes_.bytes;
        const std::string value = text ? BadText(bytes, number) : std::string(bytes, '\xff');
        list ? reflection.AddString(message, field, value) : reflection.SetString(message, field, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_UINT64:
        list ? reflection.AddUInt64(message, field, 1) : reflection.SetUInt64(message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        list ? reflection.AddInt64(message, field, 1) : reflection.SetInt64(message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        list ? reflection.AddUInt32(message, field, 1) : reflection.SetUInt32(message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        list ? reflection.AddDouble(message, field, 1) : reflection.SetDouble(message, field, 1);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        if (!list) reflection.SetEnumValue(message, field, 1);
        break;
      default: break;  // truth values and the like take no room
    }
  }

  const LargestSizes& sizes_;
  std::vector<const Descriptor*> open_;
  int number_ = 0;
};

bool IsPrintableAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

void FillLargest(Message* message, const FieldDescriptor* field, const LargestSizes& sizes) {
  Filler(sizes).FillField(message, field);
}

std::vector<const FieldDescriptor*> KindsOf(const Descriptor* type, const char* name) {
  std::vector<const FieldDescriptor*> kinds;
  const google::protobuf::OneofDescriptor* oneof = type->FindOneofByName(name);
  for (int i = 0; i < oneof->field_count(); ++i) kinds.push_back(oneof->field(i));
  return kinds;
}

std::string UnprintableField(const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const std::string below =
            UnprintableField(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                  : reflection.GetMessage(message, field));
        if (!below.empty()) return absl::StrCat(field->name(), ".", below);
      }
      if (field->type() != FieldDescriptor::TYPE_STRING) continue;
      std::string text =
          field->is_repeated() ? reflection.GetRepeatedString(message, field, i) : reflection.GetString(message, field);
      // BadText has one character beyond ASCII that may be shown.
      for (size_t at = text.find("\xc3\xa9"); at != std::string::npos; at = text.find("\xc3\xa9")) text.erase(at, 2);
      if (!IsPrintableAscii(text)) return field->name();
    }
  }
  return "";
}

}  // namespace adjoin
