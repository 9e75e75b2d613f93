// The shells' side of base/completion.h: the scripts that bash, zsh and fish load, and how these call the program.
//
//   adjoin completion bash > ~/.local/share/bash-completion/completions/adjoin
//
// Each script runs `PROGRAM --complete ...` on Tab and shows what it prints. It takes the program from the PATH, not
// the file that was typed, and evaluates nothing of what the program says:
//
//   PROGRAM --complete words WORD...         zsh and fish: the words after the program up to the cursor, without quotes
//   PROGRAM --complete bash LINE BREAKS      bash: the line up to the cursor, and COMP_WORDBREAKS
//
// It prints a line per suggestion, for zsh and fish with a tab and its description, for bash quoted as the line needs
// it. The last line is ":none", ":files" or ":folders": which paths the shell offers besides.
#ifndef ADJOIN_BASE_SHELL_COMPLETION_H_
#define ADJOIN_BASE_SHELL_COMPLETION_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/completion.h"

namespace adjoin {

inline constexpr char kCompleteFlag[] = "--complete";

// The type's name of an option that takes a shell: "bash|zsh|fish".
inline constexpr char kShells[] = "bash|zsh|fish";

// `program`: its name on the PATH. Errors: kInvalidArgument (another shell).
absl::StatusOr<std::string> CompletionScript(const std::string& program, const std::string& shell);

// What `PROGRAM --complete` prints, for the arguments after that. Nothing where it does not understand them.
std::string CompletionAnswer(const CLI::App& app, const std::vector<std::string>& arguments,
                             const CompletionSources& sources);

// A command line of bash up to the cursor, divided as bash divides it, with nothing expanded.
struct BashLine {
  std::vector<std::string> words;  // without quotes; the last one ends at the cursor and may be empty
  char quote = 0;                  // ' or " where the last word is within one, else 0
  size_t kept = 0;                 // so many bytes of the last word readline does not replace
};
// `breaks`: COMP_WORDBREAKS, the characters after which readline begins another word.
BashLine ReadBashLine(absl::string_view line, absl::string_view breaks);
// `text` as it has to stand on the line, within `quote` (0: none).
std::string QuoteForBash(absl::string_view text, char quote);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SHELL_COMPLETION_H_
