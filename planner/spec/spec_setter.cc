#include "planner/spec/spec_setter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "base/status_macros.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// One step of a path: "layer[conv1]".
struct Step {
  std::string name;
  absl::optional<std::string> chosen;  // the text in brackets
  std::string path;                    // from the job to here
};

template <typename... Args>
absl::Status Wrong(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::StatusOr<std::vector<Step>> ReadPath(absl::string_view path) {
  std::vector<Step> steps;
  for (size_t at = 0; at <= path.size();) {
    Step step;
    const size_t name_end = std::min(path.find_first_of(".[", at), path.size());
    step.name = std::string(path.substr(at, name_end - at));
    at = name_end;
    if (at < path.size() && path[at] == '[') {
      const size_t close = path.find(']', at);
      if (close == absl::string_view::npos) return Wrong(path, ": '[' without ']'");
      step.chosen = std::string(path.substr(at + 1, close - at - 1));
      at = close + 1;
    }
    if (step.name.empty() || (at < path.size() && path[at] != '.')) {
      return Wrong(path, ": is not a path of fields, such as train.batch or layer[conv1].conv.out_channels");
    }
    step.path = std::string(path.substr(0, at));
    steps.push_back(std::move(step));
    ++at;  // the dot
  }
  return steps;
}

std::string FieldsOf(const Descriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string TypeName(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_STRING: return "a text";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: return "a number";
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 0; i < field->enum_type()->value_count(); ++i) names.push_back(field->enum_type()->value(i)->name());
      return absl::StrCat("one of ", absl::StrJoin(names, ", "));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("a group of the fields ", FieldsOf(field->message_type()));
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64: return absl::StrCat("a whole number from 0 on (", field->type_name(), ")");
    default: return absl::StrCat("a whole number (", field->type_name(), ")");
  }
}

// Returns the index of the message of the list that "[chosen]" means.
absl::StatusOr<int> IndexOf(const Message& parent, const FieldDescriptor* field, const Step& step) {
  const Reflection& reflection = *parent.GetReflection();
  const int count = reflection.FieldSize(parent, field);
  const std::string which = count == 0 ? absl::StrCat("the job has no ", field->name(), " there")
                                       : absl::StrCat("there are ", field->name(), "[0] to [", count - 1, "]");
  if (!step.chosen.has_value()) {
    return Wrong(step.path, ": is a list: say which one, ", field->name(), "[number or name]; ", which);
  }
  int index = -1;
  if (absl::SimpleAtoi(*step.chosen, &index)) {
    if (index >= 0 && index < count) return index;
    return Wrong(step.path, ": does not exist; ", which);
  }
  const FieldDescriptor* name = field->message_type()->FindFieldByName("name");
  if (name == nullptr || name->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return Wrong(step.path, ": '", *step.chosen, "' is no number, and a ", field->name(), " has no name; ", which);
  }
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    const Message& each = reflection.GetRepeatedMessage(parent, field, i);
    names.push_back(each.GetReflection()->GetString(each, name));
    if (names.back() == *step.chosen) return i;
  }
  return Wrong(step.path, ": there is no ", field->name(), " of this name; there are: ", absl::StrJoin(names, ", "));
}

// Returns the index of the value of the list of numbers or texts that "[chosen]" means.
absl::StatusOr<int> IndexOfValue(const Message& message, const FieldDescriptor* field, const Step& step) {
  const int count = message.GetReflection()->FieldSize(message, field);
  int index = -1;
  if (absl::SimpleAtoi(*step.chosen, &index) && index >= 0 && index < count) return index;
  return Wrong(step.path, ": does not exist; ", step.name, " has ", count, count == 1 ? " value" : " values",
               ", counted from 0; all of them are set by ", step.name, "=[...]");
}

class FirstValueError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text.empty()) text = absl::StrCat("at character ", column + 1, ": ", message);
  }
  std::string text;
};

// Sets the field to one value, or adds the value to a list.
absl::Status SetScalar(Message& message, const FieldDescriptor* field, absl::string_view text,
                       const std::string& path) {
  const bool quote = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  FirstValueError error;  // not used: without it, the parser would write its errors to the log
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (parser.ParseFieldValueFromString(quote ? absl::StrCat("\"", absl::CEscape(text), "\"") : std::string(text), field,
                                       &message)) {
    return absl::OkStatus();
  }
  return Wrong(path, ": '", text, "' is not ", TypeName(field), ", which belongs there");
}

// Adds the texts of `["a", "b"]`, as text format has them, to a list.
absl::Status SetQuotedTexts(Message& message, const FieldDescriptor* field, absl::string_view text,
                            const std::string& path) {
  FirstValueError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  const std::unique_ptr<Message> read(message.New());
  if (!parser.ParseFromString(absl::StrCat(field->name(), ": ", text), read.get())) {
    return Wrong(path, ": '", text, "' is no list of texts; right would be [a,b] or [\"a\",\"b\"]");
  }
  for (int i = 0; i < read->GetReflection()->FieldSize(*read, field); ++i) {
    message.GetReflection()->AddString(&message, field, read->GetReflection()->GetRepeatedString(*read, field, i));
  }
  return absl::OkStatus();
}

// Sets the whole list from "[5,3]", or from one value.
absl::Status SetList(Message& message, const FieldDescriptor* field, absl::string_view text, const std::string& path) {
  message.GetReflection()->ClearField(&message, field);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    const absl::string_view list = text;
    text = absl::StripAsciiWhitespace(text.substr(1, text.size() - 2));
    if (text.empty()) return absl::OkStatus();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && text.front() == '"') {
      return SetQuotedTexts(message, field, list, path);
    }
    for (absl::string_view each : absl::StrSplit(text, ',')) {
      ADJOIN_RETURN_IF_ERROR(SetScalar(message, field, absl::StripAsciiWhitespace(each), path));
    }
    return absl::OkStatus();
  }
  return SetScalar(message, field, text, path);
}

absl::Status SetGroup(Message& group, absl::string_view text, const Step& step) {
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
    return Wrong(step.path, ": is a group of the fields ", FieldsOf(group.GetDescriptor()), ": name one of them, ",
                 step.path, ".FIELD=VALUE, or replace all, ", step.path, "={...}");
  }
  FirstValueError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxNesting);
  if (parser.ParseFromString(std::string(text.substr(1, text.size() - 2)), &group)) return absl::OkStatus();
  return Wrong(step.path, "={...}: ", error.text);
}

absl::Status SetMapValue(Message& message, const FieldDescriptor* field, const Step& step, absl::string_view text) {
  if (!step.chosen.has_value() || step.chosen->empty()) {
    return Wrong(step.path, ": has values by name: ", step.path, "[NAME]=VALUE");
  }
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  Message* entry = nullptr;
  for (int i = 0; i < reflection.FieldSize(message, field) && entry == nullptr; ++i) {
    Message* each = reflection.MutableRepeatedMessage(&message, field, i);
    if (each->GetReflection()->GetString(*each, key) == *step.chosen) entry = each;
  }
  if (entry == nullptr) {
    entry = reflection.AddMessage(&message, field);
    entry->GetReflection()->SetString(entry, key, *step.chosen);
  }
  return SetScalar(*entry, field->message_type()->map_value(), text, step.path);
}

// Returns the message that the step leads to. `last`: the step is the path's last, so that the message itself is set.
absl::StatusOr<Message*> Enter(Message& message, const FieldDescriptor* field, const Step& step, bool last) {
  const Reflection& reflection = *message.GetReflection();
  if (field->is_repeated()) {
    ADJOIN_ASSIGN_OR_RETURN(int index, IndexOf(message, field, step));
    return reflection.MutableRepeatedMessage(&message, field, index);
  }
  if (step.chosen.has_value()) return Wrong(step.path, ": ", step.name, " is not a list");
  const OneofDescriptor* choice = field->real_containing_oneof();
  const FieldDescriptor* other = choice == nullptr ? nullptr : reflection.GetOneofFieldDescriptor(message, choice);
  if (other != nullptr && other != field && !last) {
    return Wrong(step.path, ": the job has ", other->name(), " there, not ", field->name(),
                 "; to have the other, set it as a whole, ", step.path, "={...}");
  }
  return reflection.MutableMessage(&message, field);
}

absl::Status SetLeaf(Message& message, const FieldDescriptor* field, const Step& step, absl::string_view text) {
  if (!field->is_repeated()) {
    if (step.chosen.has_value()) return Wrong(step.path, ": ", step.name, " is not a list");
    return SetScalar(message, field, text, step.path);
  }
  if (!step.chosen.has_value()) return SetList(message, field, text, step.path);
  ADJOIN_ASSIGN_OR_RETURN(const int index, IndexOfValue(message, field, step));
  const int count = message.GetReflection()->FieldSize(message, field);
  ADJOIN_RETURN_IF_ERROR(SetScalar(message, field, text, step.path));
  message.GetReflection()->SwapElements(&message, field, index, count);
  message.GetReflection()->RemoveLast(&message, field);
  return absl::OkStatus();
}

bool IsLeaf(const FieldDescriptor* field) {
  return field->is_map() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

// `last`: the path ends with this step. Errors: there is no such field, or the path goes on below a field without
// fields.
absl::StatusOr<const FieldDescriptor*> FieldAt(const Message& message, const Step& step, bool last) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(step.name);
  if (field == nullptr) {
    return Wrong(step.path, ": there is no field '", step.name,
                 "' here; there are: ", FieldsOf(message.GetDescriptor()));
  }
  if (IsLeaf(field) && !last) {
    return Wrong(step.path, ": is ", field->is_map() ? "a map" : TypeName(field), ", which has no fields");
  }
  return field;
}

absl::Status Set(const std::vector<Step>& steps, absl::string_view value, Message* message) {
  for (const Step& step : steps) {
    const bool last = &step == &steps.back();
    ADJOIN_ASSIGN_OR_RETURN(const FieldDescriptor* field, FieldAt(*message, step, last));
    const bool leaf = IsLeaf(field);
    if (field->is_map()) return SetMapValue(*message, field, step, value);
    if (leaf) return SetLeaf(*message, field, step, value);
    ADJOIN_ASSIGN_OR_RETURN(message, Enter(*message, field, step, last));
    if (last) return SetGroup(*message, value, step);
  }
  return absl::OkStatus();
}

absl::Status RemoveMapValue(Message& message, const FieldDescriptor* field, const Step& step) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  std::vector<std::string> keys;
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, field, i);
    keys.push_back(entry.GetReflection()->GetString(entry, key));
    if (keys.back() != *step.chosen) continue;
    reflection.SwapElements(&message, field, i, reflection.FieldSize(message, field) - 1);
    reflection.RemoveLast(&message, field);
    return absl::OkStatus();
  }
  return Wrong(step.path, ": there is no value of this name",
               keys.empty() ? "" : "; there are: ", absl::StrJoin(keys, ", "));
}

// Removes the element of the list that "[chosen]" means; the others keep their order.
absl::Status RemoveElement(Message& message, const FieldDescriptor* field, const Step& step) {
  if (field->is_map()) return RemoveMapValue(message, field, step);
  ADJOIN_ASSIGN_OR_RETURN(int index,
                          IsLeaf(field) ? IndexOfValue(message, field, step) : IndexOf(message, field, step));
  const Reflection& reflection = *message.GetReflection();
  for (; index + 1 < reflection.FieldSize(message, field); ++index) {
    reflection.SwapElements(&message, field, index, index + 1);
  }
  reflection.RemoveLast(&message, field);
  return absl::OkStatus();
}

absl::Status Remove(const std::vector<Step>& steps, Message* message) {
  for (const Step& step : steps) {
    const bool last = &step == &steps.back();
    ADJOIN_ASSIGN_OR_RETURN(const FieldDescriptor* field, FieldAt(*message, step, last));
    const Reflection& reflection = *message->GetReflection();
    if (step.chosen.has_value() && !field->is_repeated()) return Wrong(step.path, ": ", step.name, " is not a list");
    if (last && step.chosen.has_value()) return RemoveElement(*message, field, step);
    const bool there =
        field->is_repeated() ? reflection.FieldSize(*message, field) > 0 : reflection.HasField(*message, field);
    if (!there) return Wrong(step.path, ": the job has none, so there is nothing to remove");
    if (last) {
      reflection.ClearField(message, field);
    } else {
      ADJOIN_ASSIGN_OR_RETURN(message, Enter(*message, field, step, /*last=*/true));
    }
  }
  return absl::OkStatus();
}

absl::Status Prefixed(absl::string_view option, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(option, std::string(status.message())));
}

}  // namespace

absl::Status SetSpecField(absl::string_view assignment, JobSpec* spec) {
  // A name in brackets may have '=' in it.
  size_t equals = absl::string_view::npos;
  for (size_t i = 0, depth = 0; i < assignment.size() && equals == absl::string_view::npos; ++i) {
    if (assignment[i] == '[') ++depth;
    if (assignment[i] == ']' && depth > 0) --depth;
    if (assignment[i] == '=' && depth == 0) equals = i;
  }
  if (equals == absl::string_view::npos) return Wrong(assignment, ": is not PATH=VALUE, such as train.batch=32");
  ADJOIN_ASSIGN_OR_RETURN(std::vector<Step> steps, ReadPath(absl::StripAsciiWhitespace(assignment.substr(0, equals))));
  JobSpec changed = *spec;
  ADJOIN_RETURN_IF_ERROR(Set(steps, absl::StripAsciiWhitespace(assignment.substr(equals + 1)), &changed));
  *spec = std::move(changed);
  return absl::OkStatus();
}

absl::Status RemoveSpecField(absl::string_view path, JobSpec* spec) {
  if (path.find('=') != absl::string_view::npos && path.find('[') == absl::string_view::npos) {
    return Wrong(path, ": is not a path of fields, such as train or layer[conv1].init: it has a '='");
  }
  ADJOIN_ASSIGN_OR_RETURN(std::vector<Step> steps, ReadPath(absl::StripAsciiWhitespace(path)));
  JobSpec changed = *spec;
  ADJOIN_RETURN_IF_ERROR(Remove(steps, &changed));
  *spec = std::move(changed);
  return absl::OkStatus();
}

absl::Status ChangeSpec(const SpecChanges& changes, JobSpec* spec) {
  for (const std::string& path : changes.unset) {
    ADJOIN_RETURN_IF_ERROR(Prefixed("--unset ", RemoveSpecField(path, spec)));
  }
  for (const std::string& assignment : changes.set) {
    ADJOIN_RETURN_IF_ERROR(Prefixed("--set ", SetSpecField(assignment, spec)));
  }
  return absl::OkStatus();
}

absl::StatusOr<SpecSource> WithChanges(const SpecSource& source, const SpecChanges& changes) {
  if (changes.empty()) return source;
  ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(source.text, source.name));
  ADJOIN_RETURN_IF_ERROR(ChangeSpec(changes, &parsed.spec));
  SpecSource changed;
  changed.name =
      absl::StrCat(source.name, " with ", changes.unset.empty() ? "" : "--unset",
                   changes.unset.empty() || changes.set.empty() ? "" : " and ", changes.set.empty() ? "" : "--set");
  if (!TextFormat::PrintToString(parsed.spec, &changed.text)) {
    return absl::InternalError("the job cannot be written as text");
  }
  return changed;
}

}  // namespace adjoin
