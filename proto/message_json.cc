#include "proto/message_json.h"

#include <memory>

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

// The message can quote what users wrote; only its printable ASCII is kept.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c >= ' ' && c <= '~' ? c : '?';
  }
  return quoted + "\"";
}

}  // namespace

std::string JsonText(const google::protobuf::Message& message, bool lines) {
  std::unique_ptr<google::protobuf::Message> shown(message.New());
  shown->CopyFrom(message);
  const auto* header = shown->GetDescriptor()->FindFieldByName("header");
  if (header != nullptr) shown->GetReflection()->ClearField(shown.get(), header);
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = lines;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(*shown, &text, options);
  if (!status.ok()) return absl::StrCat("{\"error\": ", Quoted(std::string(status.message())), "}\n");
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

}  // namespace adjoin
