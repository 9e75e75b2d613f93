// What a shell may offer when Tab is pressed: found in the same CLI::App that parses the command line, so that no
// second table of commands and options exists.
//
//   Completion found = Complete(app, {"submit", "--format", "j"}, {});
//   // found.suggestions: "json", for the option's type is "table|json|yaml"
//
// What an option or a positional takes is told by its type's name (type_name, which --help and the manual show, too),
// of a positional by its own name where the type has no choices:
//
//   table|json|yaml       one of these (OneOf in base/flags.h)
//   FILE, SPEC, MODEL     a file
//   DIR                   a folder
//   any other             what CompletionSources::values knows of it, such as of JOB
#ifndef ADJOIN_BASE_COMPLETION_H_
#define ADJOIN_BASE_COMPLETION_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace adjoin {

struct Suggestion {
  std::string text;
  std::string description;  // may be empty
};

struct Completion {
  enum class Paths { kNone, kFiles, kFolders };
  std::vector<Suggestion> suggestions;  // whole words; none with control characters, none twice
  Paths paths = Paths::kNone;           // the shell offers these, too
};

struct CompletionSources {
  // What may be given for a type ("JOB"). `settings` are the options of the whole program that the line has already:
  // {"--coordinator=host:7411"}. It may be called at most once and has to be quick. May be empty.
  std::function<std::vector<Suggestion>(const std::string& type, const std::vector<std::string>& settings)> values;
  // The options of a command that hands its arguments to another program; null for all others. May be empty.
  std::function<const CLI::App*(const CLI::App& command)> handed_on;
};

// `words`: the command line up to the cursor, without the program; the last one is to be completed and may be empty.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words, const CompletionSources& sources);

// The choices of a type's name such as "table|json|yaml"; none for any other.
std::vector<std::string> ChoicesOf(const std::string& type_name);

}  // namespace adjoin

#endif  // ADJOIN_BASE_COMPLETION_H_
