#include "importer/torchscript/script_tokens.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/torchscript/script_syntax.h"

namespace adjoin {
namespace {

constexpr size_t kMaxWord = 1024;  // bytes of a name or a text: values have copies of it
constexpr absl::string_view kSigns = "()[]{}:,.=-*+/%<>!@&|^~;";

bool BeginsName(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  Lexer(absl::string_view text, const std::string& where) : text_(text), where_(where) {}

  absl::StatusOr<std::vector<ScriptToken>> Run() {
    if (static_cast<int64_t>(text_.size()) > kMaxScriptBytes) {
      return Bad(absl::StrCat("a file of more than ", kMaxScriptBytes, " bytes"));
    }
    while (at_ < text_.size()) {
      if (at_line_begin_ && depth_ == 0) {
        ADJOIN_RETURN_IF_ERROR(Indentation());
        if (at_line_begin_) continue;  // an empty line
      }
      if (at_ == text_.size()) break;
      ADJOIN_RETURN_IF_ERROR(Word());
      if (tokens_.size() > kMaxScriptTokens) return Bad(absl::StrCat("more than ", kMaxScriptTokens, " words"));
    }
    if (depth_ > 0) return Bad("the file is cut off: a bracket is open");
    if (!at_line_begin_) Push(ScriptToken::Kind::kNewline, "");
    for (; indents_.size() > 1; indents_.pop_back()) Push(ScriptToken::Kind::kDedent, "");
    Push(ScriptToken::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::Status Bad(absl::string_view what) const { return ScriptError(where_, line_, what); }

  ScriptToken& Push(ScriptToken::Kind kind, absl::string_view text) {
    tokens_.emplace_back();
    tokens_.back().kind = kind;
    tokens_.back().line = line_;
    tokens_.back().text = std::string(text);
    return tokens_.back();
  }

  // At the beginning of a line outside of brackets.
  absl::Status Indentation() {
    size_t spaces = 0;
    while (at_ < text_.size() && text_[at_] == ' ') ++spaces, ++at_;
    if (at_ < text_.size() && text_[at_] == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }
    if (at_ == text_.size()) return absl::OkStatus();
    if (text_[at_] == '\n') {
      ++at_, ++line_;
      return absl::OkStatus();
    }
    at_line_begin_ = false;
    if (spaces > indents_.back()) {
      if (indents_.size() > static_cast<size_t>(kMaxScriptDepth)) return Bad("blocks that are nested too deeply");
      indents_.push_back(spaces);
      Push(ScriptToken::Kind::kIndent, "");
    }
    while (spaces < indents_.back()) {
      indents_.pop_back();
      Push(ScriptToken::Kind::kDedent, "");
    }
    return spaces == indents_.back() ? absl::OkStatus() : Bad("a line that is indented as no other");
  }

  absl::Status Word() {
    const char c = text_[at_];
    if (c == ' ') {
      ++at_;
      return absl::OkStatus();
    }
    if (c == '\n') {
      if (depth_ == 0) {
        Push(ScriptToken::Kind::kNewline, "");
        at_line_begin_ = true;
      }
      ++at_, ++line_;
      return absl::OkStatus();
    }
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      return absl::OkStatus();
    }
    if (BeginsName(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && (BeginsName(text_[at_]) || IsDigit(text_[at_]))) ++at_;
      if (at_ - begin > kMaxWord) return Bad(absl::StrCat("a name of more than ", kMaxWord, " bytes"));
      Push(ScriptToken::Kind::kName, text_.substr(begin, at_ - begin));
      return absl::OkStatus();
    }
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return Text();
    if (absl::StartsWith(text_.substr(at_), "->")) {
      Push(ScriptToken::Kind::kSign, "->");
      at_ += 2;
      return absl::OkStatus();
    }
    if (kSigns.find(c) == absl::string_view::npos) {
      return Bad(absl::StrCat("the character ", PrintableText(text_.substr(at_, 1), kMaxShownToken)));
    }
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && --depth_ < 0) return Bad("a bracket that nothing opens");
    Push(ScriptToken::Kind::kSign, text_.substr(at_++, 1));
    return absl::OkStatus();
  }

  absl::Status Number() {
    const size_t begin = at_;
    bool real = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool is_exponent = (c == 'e' || c == 'E') && at_ > begin;
      const bool is_sign = (c == '-' || c == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (!IsDigit(c) && c != '.' && !is_exponent && !is_sign) break;
      real = real || c == '.' || is_exponent;
      ++at_;
    }
    const absl::string_view text = text_.substr(begin, at_ - begin);
    ScriptToken& token = Push(real ? ScriptToken::Kind::kFloat : ScriptToken::Kind::kInt, text);
    const bool read = real ? absl::SimpleAtod(text, &token.real) : absl::SimpleAtoi(text, &token.number);
    return read ? absl::OkStatus() : Bad(absl::StrCat("the number ", PrintableText(text, kMaxShownToken)));
  }

  absl::Status Text() {
    const char quote = text_[at_++];
    std::string said;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (said.size() > kMaxWord) return Bad(absl::StrCat("a text of more than ", kMaxWord, " bytes"));
      if (text_[at_] != '\\') {
        said.push_back(text_[at_++]);
        continue;
      }
      if (++at_ == text_.size()) break;
      const char c = text_[at_++];
      constexpr absl::string_view kEscapes = "abfnrtv", kMeant = "\a\b\f\n\r\t\v";
      const size_t escape = kEscapes.find(c);
      if (c >= '0' && c <= '7') {  // three octal digits
        int code = c - '0';
        for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
          code = 8 * code + (text_[at_++] - '0');
        }
        said.push_back(static_cast<char>(code));
      } else {
        said.push_back(escape == absl::string_view::npos ? c : kMeant[escape]);
      }
    }
    if (at_ == text_.size() || text_[at_] != quote) return Bad("a text without its end");
    ++at_;
    Push(ScriptToken::Kind::kText, said);
    return absl::OkStatus();
  }

  const absl::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  bool at_line_begin_ = true;
  std::vector<size_t> indents_ = {0};
  std::vector<ScriptToken> tokens_;
};

}  // namespace

absl::Status ScriptError(const std::string& where, int line, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(where, ":", line, ": ", what, "; right would be the text as torch.jit.save wrote it"));
}

absl::StatusOr<std::vector<ScriptToken>> ScriptTokens(absl::string_view text, const std::string& where) {
  return Lexer(text, where).Run();
}

}  // namespace adjoin
