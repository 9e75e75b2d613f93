#include "planner/spec/open_blocks.h"

#include <limits>

#include <google/protobuf/descriptor.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace adjoin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr TextPosition kEndOfText = {std::numeric_limits<int>::max(), 0};
constexpr size_t kMostOpen = 100;  // a text that nests deeper is refused for that

bool IsWordCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

char ClosingOf(char bracket) { return bracket == '{' ? '}' : bracket == '[' ? ']' : '>'; }

std::string Place(TextPosition position) {
  return absl::StrCat("line ", position.line + 1, ", column ", position.column + 1);
}

// Goes through a text, character by character, with its line and column.
class Scanner {
 public:
  Scanner(absl::string_view text, BlockSyntax syntax) : text_(text), syntax_(syntax) {}

  // Returns false where a bracket does not fit.
  bool Scan(TextPosition end) {
    while (at_ < text_.size() && Before(end)) {
      const char c = text_[at_];
      if (c == '"' || (c == '\'' && syntax_ == BlockSyntax::kText)) {
        SkipString(c);
      } else if (c == '#' && syntax_ == BlockSyntax::kText) {
        while (at_ < text_.size() && text_[at_] != '\n') Step();
      } else if (IsWordCharacter(c)) {
        ReadWord();
      } else {
        if (!Bracket(c)) return false;
        Step();
      }
    }
    return true;
  }
  const std::vector<OpenBlock>& open() const { return open_; }
  TextPosition position() const { return position_; }

 private:
  bool Before(TextPosition end) const {
    return position_.line < end.line || (position_.line == end.line && position_.column < end.column);
  }
  void Step() {
    const char c = text_[at_++];
    if (c == '\n') {
      position_ = {position_.line + 1, 0};
    } else {
      position_.column += c == '\t' ? 8 - position_.column % 8 : 1;
    }
  }
  void SkipString(char quote) {
    Step();
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) Step();
      Step();
    }
    if (at_ < text_.size()) Step();
  }
  void ReadWord() {
    word_at_ = position_;
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordCharacter(text_[at_])) Step();
    word_ = std::string(text_.substr(begin, at_ - begin));
  }
  bool Bracket(char c) {
    const bool angle = syntax_ == BlockSyntax::kText;
    if (c == '{' || c == '[' || (angle && c == '<')) {
      if (open_.size() < kMostOpen) open_.push_back({word_, c, word_.empty() ? position_ : word_at_});
    } else if (c == '}' || c == ']' || (angle && c == '>')) {
      if (open_.empty() || ClosingOf(open_.back().bracket) != c) return false;
      open_.pop_back();
    }
    if (c != ':' && !absl::ascii_isspace(static_cast<unsigned char>(c))) word_.clear();
    return true;
  }

  const absl::string_view text_;
  const BlockSyntax syntax_;
  size_t at_ = 0;
  TextPosition position_, word_at_;
  std::string word_;
  std::vector<OpenBlock> open_;
};

// Returns whether one of the messages around the innermost block has a field of this name.
bool BelongsOutside(const std::vector<OpenBlock>& open, const std::string& name) {
  const Descriptor* message = JobSpec::descriptor();
  for (const OpenBlock& block : open) {
    if (message == nullptr) return false;
    if (message->FindFieldByName(name) != nullptr) return true;
    if (block.bracket == '[') continue;
    const FieldDescriptor* field = message->FindFieldByName(block.name);
    message = field == nullptr ? nullptr : field->message_type();
  }
  return false;
}

// Returns the X of 'no field named "X"'.
std::string UnknownField(absl::string_view message) {
  constexpr absl::string_view kBefore = "no field named \"";
  const size_t begin = message.find(kBefore);
  if (begin == absl::string_view::npos) return "";
  const absl::string_view rest = message.substr(begin + kBefore.size());
  return std::string(rest.substr(0, rest.find('"')));
}

}  // namespace

std::vector<OpenBlock> OpenBlocks(absl::string_view text, BlockSyntax syntax, TextPosition end) {
  Scanner scanner(text, syntax);
  scanner.Scan(end);
  return scanner.open();
}

std::string MissingBracketHint(absl::string_view text, TextPosition error, absl::string_view message) {
  const std::vector<OpenBlock> open = OpenBlocks(text, BlockSyntax::kText, error);
  if (open.empty()) {
    return absl::EndsWith(message, "got: }") ? ": there is one } more than there are blocks open" : "";
  }
  const OpenBlock& last = open.back();
  const std::string block =
      absl::StrCat(last.name, last.name.empty() ? "" : " ", std::string(1, last.bracket), " of ", Place(last.position));
  // The parser names what it got; at the end of the text that is nothing.
  if (absl::EndsWith(message, "got: ") || absl::EndsWith(message, "found \"\".")) {
    return absl::StrCat("the end of the text: ", block, ", is not closed; a ", std::string(1, ClosingOf(last.bracket)),
                        " is missing");
  }
  const std::string field = UnknownField(message);
  if (field.empty() || !BelongsOutside(open, field)) return "";
  return absl::StrCat(" It belongs outside of ", block, ", which is still open here: is a ",
                      std::string(1, ClosingOf(last.bracket)), " missing before?");
}

std::string MissingJsonBracketHint(absl::string_view text) {
  Scanner scanner(text, BlockSyntax::kJson);
  const bool fits = scanner.Scan(kEndOfText);
  if (fits && scanner.open().empty()) return "";
  if (scanner.open().empty())
    return absl::StrCat(" (", Place(scanner.position()), ": nothing is open to be closed here)");
  const OpenBlock& last = scanner.open().back();
  return absl::StrCat(" (the ", std::string(1, last.bracket), " of ", Place(last.position), ", is not closed",
                      fits ? "" : absl::StrCat(" before ", Place(scanner.position())), ": a ",
                      std::string(1, ClosingOf(last.bracket)), " is missing)");
}

}  // namespace adjoin
