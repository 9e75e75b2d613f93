#include "cli/format.h"

#include "absl/strings/ascii.h"
#include "nlohmann/json.hpp"
#include "proto/message_json.h"
#include "yaml-cpp/yaml.h"

namespace adjoin {
namespace {

// True where YAML reads an unquoted text as this text, and not as a number, a truth value or syntax.
bool IsPlainText(const std::string& text) {
  static const char* const kWords[] = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"};
  if (text.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(text[0]))) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.' && c != '/')
      return false;
  }
  for (const char* word : kWords) {
    if (absl::AsciiStrToLower(text) == word) return false;
  }
  return true;
}

void EmitYaml(const nlohmann::ordered_json& json, YAML::Emitter& out) {
  if (json.is_object()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      out << YAML::Key << key << YAML::Value;
      EmitYaml(value, out);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    if (json.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const auto& value : json) EmitYaml(value, out);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    const std::string text = json.get<std::string>();
    if (!IsPlainText(text)) out << YAML::DoubleQuoted;
    out << text;
  } else if (json.is_null()) {
    out << YAML::Null;
  } else {
    out << json.dump();  // a number, true or false: the same in YAML
  }
}

std::string YamlOf(const std::string& json) {
  YAML::Emitter out;
  EmitYaml(nlohmann::ordered_json::parse(json), out);
  return std::string(out.c_str()) + "\n";
}

std::string Yaml(const google::protobuf::Message& message) { return YamlOf(JsonText(message, false)); }

}  // namespace

std::string Formatted(const google::protobuf::Message& message, Format format) {
  return format == Format::kYaml ? Yaml(message) : JsonText(message, true);
}

std::string FormattedText(const std::string& json, Format format) {
  return format == Format::kYaml ? YamlOf(json) : json;
}

std::string FormattedItem(const google::protobuf::Message& message, Format format) {
  return format == Format::kYaml ? "---\n" + Yaml(message) : JsonText(message, false);
}

}  // namespace adjoin
