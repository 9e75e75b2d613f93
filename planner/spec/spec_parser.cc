#include "planner/spec/spec_parser.h"

#include <memory>
#include <utility>

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "planner/spec/open_blocks.h"
#include "planner/spec/spec_text_hints.h"
#include "planner/spec/utf8_check.h"
#include "planner/spec/yaml_check.h"

namespace adjoin {
namespace {

constexpr char kByteOrderMark[] = "\xef\xbb\xbf";  // of UTF-8; some editors write it

// What a user has to know of a word where the parser wants a text.
std::string MissingQuotesHint(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "Expected string, got: ") || message.empty()) return "";
  return absl::ascii_isalnum(static_cast<unsigned char>(message[0]))
             ? absl::StrCat("; a text is in quotes, \"", message, "\"")
             : "";
}

// Keeps the first error: later ones mostly follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  FirstError(std::string file, absl::string_view source) : file_(std::move(file)), source_(source) {}
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat(file_, ":", line + 1, ":", column + 1, ": ");
    if (LooksLikeYaml(source_, file_)) {
      absl::StrAppend(&text_,
                      "this looks like YAML, which is not read; right would be protobuf's text format, such as"
                      " layer { name: \"conv1\" }, or JSON (",
                      message, ")");
    } else {
      absl::StrAppend(&text_, message, Hint({line, column}, message), MissingQuotesHint(message));
    }
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string Hint(TextPosition at, const std::string& message) const {
    const std::string bracket = MissingBracketHint(source_, at, message);
    return bracket.empty() ? UnknownFieldHint(message) : bracket;
  }

  std::string file_;
  absl::string_view source_;
  std::string text_;
};

absl::StatusOr<ParsedSpec> ParseText(absl::string_view text, const std::string& file_name) {
  FirstError errors(file_name, text);
  auto tree = std::make_shared<google::protobuf::TextFormat::ParseInfoTree>();
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(tree.get());
  parser.SetRecursionLimit(kMaxNesting);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  ParsedSpec parsed;
  if (!parser.Parse(&input, &parsed.spec) || !errors.text().empty()) {
    return absl::InvalidArgumentError(errors.text().empty() ? absl::StrCat(file_name, ": is not in text format")
                                                            : errors.text());
  }
  parsed.locations = SpecLocations(file_name, std::move(tree));
  if (const std::string field = FieldThatIsNotUtf8(parsed.spec); !field.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(parsed.locations.At(field), ": ", field, " is not UTF-8"));
  }
  return parsed;
}

// Limits the nesting of JSON, since protobuf's JSON parser has no such option.
bool NestsTooDeeply(absl::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 2 * kMaxNesting) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

absl::StatusOr<ParsedSpec> ParseJson(absl::string_view text, const std::string& file_name) {
  if (NestsTooDeeply(text)) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ": messages are nested too deeply"));
  }
  ParsedSpec parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(text.data(), text.size()), &parsed.spec);
  if (!status.ok()) {
    const std::string message(status.message());
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, ": ", message, UnknownJsonFieldHint(message), MissingJsonBracketHint(text)));
  }
  parsed.locations = SpecLocations(file_name);
  return parsed;
}

}  // namespace

absl::StatusOr<ParsedSpec> ParseSpec(absl::string_view text, const std::string& file_name) {
  if (text.size() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_name, ": has ", text.size(), " bytes; a job has at most ", kMaxSpecBytes));
  }
  if (const std::string why = WhyNoSpec(text); !why.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ": ", why));
  }
  absl::ConsumePrefix(&text, kByteOrderMark);
  return IsJsonSpec(text) ? ParseJson(text, file_name) : ParseText(text, file_name);
}

bool IsJsonSpec(absl::string_view text) {
  absl::ConsumePrefix(&text, kByteOrderMark);
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
}

}  // namespace adjoin
