#include "base/shell_completion.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace adjoin {
namespace {

// PROGRAM is the program's name, FUNCTION the same with underscores. zsh finds a function by the name of its file.

constexpr char kBash[] = R"(# Completion of PROGRAM for bash: PROGRAM itself is asked.
FUNCTION_complete() {
  local -a reply
  local paths=:none
  COMPREPLY=()
  mapfile -t reply < <(command PROGRAM --complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" \
    2> /dev/null < /dev/null)
  if (( ${#reply[@]} > 0 )); then
    paths="${reply[-1]}"
    unset 'reply[-1]'
  fi
  case "$paths" in
    :files) ;;
    :folders) compopt +o default -o dirnames ;;
    *) compopt +o default ;;
  esac
  COMPREPLY=("${reply[@]}")
}
complete -o default -F FUNCTION_complete PROGRAM
)";

constexpr char kZsh[] = R"(#compdef PROGRAM
# Completion of PROGRAM for zsh: PROGRAM itself is asked.
_PROGRAM() {
  local -a reply texts shown
  local line paths=:none
  reply=("${(@f)$(command PROGRAM --complete words "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null < /dev/null)}")
  if (( ${#reply} > 0 )); then
    paths="${reply[-1]}"
    reply[-1]=()
  fi
  for line in "${reply[@]}"; do
    texts+=("${line%%$'\t'*}")
    shown+=("${line/$'\t'/  -- }")
  done
  (( ${#texts} == 0 )) || compadd -l -d shown -a texts
  case "$paths" in
    :files|:folders)
      [[ "$PREFIX" != --*=* ]] || compset -P '*='
      if [[ "$paths" == :files ]]; then _files; else _files -/; fi
      ;;
  esac
}
if [[ "${funcstack[1]}" == _PROGRAM ]]; then _PROGRAM "$@"; else compdef _PROGRAM PROGRAM; fi
)";

constexpr char kFish[] = R"(# Completion of PROGRAM for fish: PROGRAM itself is asked.
function _FUNCTION_prepare
    set -g _FUNCTION_found
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    # fish itself compares a word with quotes.
    string match -qr -- '^[\w@%+=:,./-]*$' "$current"; or set current ''
    set -l reply (command PROGRAM --complete words $words "$current" 2> /dev/null < /dev/null)
    test (count $reply) -gt 0; or return 0
    set -l paths $reply[-1]
    set -e reply[-1]
    set -g _FUNCTION_found $reply
    # Without paths, -f below keeps fish from offering files.
    test "$paths" = :none
end
complete -c PROGRAM -e
complete -c PROGRAM -n _FUNCTION_prepare -f -a '$_FUNCTION_found'
)";

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// What ends a word of bash besides blanks.
bool IsOperator(char c) { return absl::StrContains("<>|&;()", c); }

absl::string_view PathsText(Completion::Paths paths) {
  switch (paths) {
    case Completion::Paths::kFiles: return ":files";
    case Completion::Paths::kFolders: return ":folders";
    case Completion::Paths::kNone: break;
  }
  return ":none";
}

}  // namespace

absl::StatusOr<std::string> CompletionScript(const std::string& program, const std::string& shell) {
  const char* text = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : nullptr;
  if (text == nullptr) return absl::InvalidArgumentError(absl::StrCat("'", shell, "' is not bash, zsh or fish"));
  const std::string function = absl::StrCat("_", absl::StrReplaceAll(program, {{"-", "_"}}));
  return absl::StrReplaceAll(text, {{"PROGRAM", program}, {"FUNCTION", function}});
}

BashLine ReadBashLine(absl::string_view line, absl::string_view breaks) {
  BashLine read;
  read.words.emplace_back();
  bool in_word = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    std::string& word = read.words.back();
    if (read.quote == '\'') {
      if (c == '\'') {
        read.quote = 0;
      } else {
        word += c;
      }
      continue;
    }
    if (c == '\\' && i + 1 < line.size()) {
      const char next = line[++i];
      const bool escapes = read.quote == 0 || absl::StrContains("$`\"\\", next);
      if (!escapes) word += c;
      word += next;
      in_word = true;
      continue;
    }
    if (read.quote == '"') {
      if (c == '"') {
        read.quote = 0;
      } else {
        word += c;
      }
      continue;
    }
    if (IsBlank(c) || IsOperator(c)) {
      if (in_word) read.words.emplace_back();
      in_word = false;
      read.kept = 0;
      continue;
    }
    in_word = true;
    if (c == '\'' || c == '"') {
      read.quote = c;
      read.kept = word.size();
      continue;
    }
    word += c;
    if (absl::StrContains(breaks, c)) read.kept = word.size();
  }
  return read;
}

std::string QuoteForBash(absl::string_view text, char quote) {
  std::string quoted;
  for (const char c : text) {
    if (quote == '\'') {
      quoted += c == '\'' ? "'\\''" : std::string(1, c);
      continue;
    }
    if (quote == '"' && c == '!') {
      quoted += "\"'!'\"";  // no backslash keeps an interactive bash from looking it up in its history there
      continue;
    }
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_-+=:,./@%", c) ||
                       static_cast<unsigned char>(c) >= 0x80;
    const bool escaped = quote == '"' ? absl::StrContains("$`\"\\", c) : !plain;
    if (escaped) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

std::string CompletionAnswer(const CLI::App& app, const std::vector<std::string>& arguments,
                             const CompletionSources& sources) {
  std::string answer;
  if (arguments.size() >= 2 && arguments[0] == "words") {
    const Completion found = Complete(app, {arguments.begin() + 1, arguments.end()}, sources);
    for (const Suggestion& suggestion : found.suggestions) {
      absl::StrAppend(&answer, suggestion.text, "\t", suggestion.description, "\n");
    }
    return absl::StrCat(answer, PathsText(found.paths), "\n");
  }
  if (arguments.size() != 3 || arguments[0] != "bash") return "";
  const BashLine line = ReadBashLine(arguments[1], arguments[2]);
  if (line.words.size() < 2) return "";
  const Completion found = Complete(app, {line.words.begin() + 1, line.words.end()}, sources);
  for (const Suggestion& suggestion : found.suggestions) {
    // Readline puts it in place of what follows the last break or the open quote.
    absl::StrAppend(&answer, QuoteForBash(absl::string_view(suggestion.text).substr(line.kept), line.quote), "\n");
  }
  return absl::StrCat(answer, PathsText(found.paths), "\n");
}

}  // namespace adjoin
