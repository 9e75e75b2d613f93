#include "planner/spec/spec_diff.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <google/protobuf/text_format.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/spec/spec_defaults.h"

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr char kName[] = "name";
constexpr char kLayers[] = "layer";

// A group of fields of one job.
struct Side {
  const Message* full = nullptr;     // with the defaults
  const Message* written = nullptr;  // as the job has it; null: it has no such group
};

bool Has(const Message* message, const FieldDescriptor* field) {
  if (message == nullptr) return false;
  return field->is_repeated() ? message->GetReflection()->FieldSize(*message, field) > 0
                              : message->GetReflection()->HasField(*message, field);
}

std::string GroupText(const Message& message) {
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  const absl::string_view fields = absl::StripAsciiWhitespace(text);
  return fields.empty() ? "{}" : absl::StrCat("{ ", fields, " }");
}

// `index`: of a list's element, else -1.
std::string ValueText(const Message& message, const FieldDescriptor* field, int index) {
  const auto& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return GroupText(index < 0 ? reflection.GetMessage(message, field)
                               : reflection.GetRepeatedMessage(message, field, index));
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return index < 0 ? reflection.GetString(message, field) : reflection.GetRepeatedString(message, field, index);
  }
  std::string text;
  TextFormat::PrintFieldValueToString(message, field, index, &text);
  return text;
}

// Nothing where the field is absent; but a truth value is then "false", and an enum its first value.
std::optional<std::string> FieldText(const Message& message, const FieldDescriptor* field) {
  if (field->is_repeated()) {
    std::vector<std::string> values;
    for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
      values.push_back(ValueText(message, field, i));
    }
    if (values.empty()) return std::nullopt;
    return absl::StrCat("[", absl::StrJoin(values, ","), "]");
  }
  const bool always = !field->has_presence() && (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL ||
                                                 field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM);
  if (!always && !Has(&message, field)) return std::nullopt;
  return ValueText(message, field, -1);
}

class Comparison {
 public:
  void Groups(const std::string& path, const Side& a, const Side& b) {
    const auto* descriptor = a.full->GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      const std::string inner = absl::StrCat(path, path.empty() ? "" : ".", field->name());
      if (field->is_map()) {
        Maps(inner, field, a, b);
      } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        Values(inner, field, a, b);
      } else if (field->is_repeated()) {
        Lists(inner, field, a, b);
      } else {
        Messages(inner, field, a, b);
      }
    }
  }
  std::vector<SpecDifference> Take() && { return std::move(found_); }

 private:
  void Values(const std::string& path, const FieldDescriptor* field, const Side& a, const Side& b) {
    const bool in_a = Has(a.written, field), in_b = Has(b.written, field);
    if ((!in_a && !in_b) || FieldText(*a.full, field) == FieldText(*b.full, field)) return;
    found_.push_back({.path = path,
                      .a = FieldText(in_a ? *a.written : *a.full, field),
                      .b = FieldText(in_b ? *b.written : *b.full, field),
                      .a_written = in_a,
                      .b_written = in_b});
  }

  void Messages(const std::string& path, const FieldDescriptor* field, const Side& a, const Side& b) {
    const bool in_a = Has(a.written, field), in_b = Has(b.written, field);
    if (!in_a && !in_b) return;
    if (in_a != in_b && field->real_containing_oneof() != nullptr) {  // the jobs have different alternatives
      return One(path, in_a ? &a.written->GetReflection()->GetMessage(*a.written, field) : nullptr,
                 in_b ? &b.written->GetReflection()->GetMessage(*b.written, field) : nullptr);
    }
    std::unique_ptr<Message> defaults;
    const auto inside = [&](const Side& side, bool there) {
      if (there) {
        return Side{&side.full->GetReflection()->GetMessage(*side.full, field),
                    &side.written->GetReflection()->GetMessage(*side.written, field)};
      }
      defaults.reset(side.full->GetReflection()->GetMessage(*side.full, field).New());
      FillDefaults(defaults.get());
      return Side{defaults.get(), nullptr};
    };
    const Side inner_a = inside(a, in_a), inner_b = inside(b, in_b);
    Groups(path, inner_a, inner_b);
  }

  // A group that only one of the jobs has.
  void One(const std::string& path, const Message* a, const Message* b) {
    SpecDifference difference;
    difference.path = path;
    if (a != nullptr) difference.a = GroupText(*a);
    if (b != nullptr) difference.b = GroupText(*b);
    difference.a_written = a != nullptr;
    difference.b_written = b != nullptr;
    found_.push_back(std::move(difference));
  }

  // What the elements of a list are called: their names, where all have one and each another; else their numbers.
  static std::vector<std::string> NamesOf(const Message* message, const FieldDescriptor* field, bool by_name) {
    std::vector<std::string> names;
    const FieldDescriptor* name = field->message_type()->FindFieldByName(kName);
    for (int i = 0; Has(message, field) && i < message->GetReflection()->FieldSize(*message, field); ++i) {
      const Message& element = message->GetReflection()->GetRepeatedMessage(*message, field, i);
      names.push_back(by_name && name != nullptr ? element.GetReflection()->GetString(element, name) : absl::StrCat(i));
    }
    return names;
  }

  static bool Name(const Message* message, const FieldDescriptor* field) {
    const FieldDescriptor* name = field->message_type()->FindFieldByName(kName);
    if (name == nullptr || name->cpp_type() != FieldDescriptor::CPPTYPE_STRING) return false;
    const std::vector<std::string> names = NamesOf(message, field, /*by_name=*/true);
    const std::set<std::string> different(names.begin(), names.end());
    return different.size() == names.size() && different.count("") == 0;
  }

  void Lists(const std::string& path, const FieldDescriptor* field, const Side& a, const Side& b) {
    const bool by_name = Name(a.written, field) && Name(b.written, field);
    const std::vector<std::string> names_a = NamesOf(a.written, field, by_name);
    const std::vector<std::string> names_b = NamesOf(b.written, field, by_name);
    std::map<std::string, int> index_b;
    for (size_t i = 0; i < names_b.size(); ++i) index_b[names_b[i]] = static_cast<int>(i);
    const auto element = [&](const Message* message, int i) {
      return &message->GetReflection()->GetRepeatedMessage(*message, field, i);
    };
    std::vector<std::string> common_a, common_b;
    for (size_t i = 0; i < names_a.size(); ++i) {
      const std::string inner = absl::StrCat(path, "[", names_a[i], "]");
      const auto other = index_b.find(names_a[i]);
      if (other == index_b.end()) {
        One(inner, element(a.written, static_cast<int>(i)), nullptr);
        continue;
      }
      common_a.push_back(names_a[i]);
      const int j = other->second;
      Groups(inner, {element(a.full, static_cast<int>(i)), element(a.written, static_cast<int>(i))},
             {element(b.full, j), element(b.written, j)});
    }
    const std::set<std::string> of_a(names_a.begin(), names_a.end());
    for (size_t j = 0; j < names_b.size(); ++j) {
      if (of_a.count(names_b[j]) > 0) {
        common_b.push_back(names_b[j]);
      } else {
        One(absl::StrCat(path, "[", names_b[j], "]"), nullptr, element(b.written, static_cast<int>(j)));
      }
    }
    if (path != kLayers || common_a == common_b) return;
    found_.push_back({.path = path,
                      .a = absl::StrCat("[", absl::StrJoin(common_a, ","), "]"),
                      .b = absl::StrCat("[", absl::StrJoin(common_b, ","), "]"),
                      .a_written = true,
                      .b_written = true});
  }

  static std::map<std::string, std::string> MapOf(const Message* message, const FieldDescriptor* field) {
    std::map<std::string, std::string> values;
    const FieldDescriptor* key = field->message_type()->map_key();
    const FieldDescriptor* value = field->message_type()->map_value();
    for (int i = 0; Has(message, field) && i < message->GetReflection()->FieldSize(*message, field); ++i) {
      const Message& entry = message->GetReflection()->GetRepeatedMessage(*message, field, i);
      values[ValueText(entry, key, -1)] = ValueText(entry, value, -1);
    }
    return values;
  }

  void Maps(const std::string& path, const FieldDescriptor* field, const Side& a, const Side& b) {
    const std::map<std::string, std::string> in_a = MapOf(a.written, field), in_b = MapOf(b.written, field);
    std::set<std::string> keys;
    for (const auto& [key, value] : in_a) keys.insert(key);
    for (const auto& [key, value] : in_b) keys.insert(key);
    for (const std::string& key : keys) {
      SpecDifference difference;
      difference.path = absl::StrCat(path, "[", key, "]");
      if (const auto found = in_a.find(key); found != in_a.end()) difference.a = found->second;
      if (const auto found = in_b.find(key); found != in_b.end()) difference.b = found->second;
      if (difference.a == difference.b) continue;
      difference.a_written = difference.a.has_value();
      difference.b_written = difference.b.has_value();
      found_.push_back(std::move(difference));
    }
  }

  std::vector<SpecDifference> found_;
};

}  // namespace

std::vector<SpecDifference> DifferencesOf(const JobSpec& a, const JobSpec& b) {
  const JobSpec full_a = WithDefaults(a), full_b = WithDefaults(b);
  Comparison comparison;
  comparison.Groups("", {&full_a, &a}, {&full_b, &b});
  return std::move(comparison).Take();
}

}  // namespace adjoin
