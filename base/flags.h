// Flags of a program from the command line, the environment and a file, in this order of precedence.
//
//   CLI::App app("Trains networks");
//   app.add_option("--listen", listen, "Where to listen");
//   AddConfigSources(app, "ADJOIN_WORKER_");       // --config FILE, ADJOIN_WORKER_LISTEN
//   if (std::optional<int> code = ParseFlags(app, argc, argv)) return *code;
//
// Every program has --version, --man-page (its page of the manual, in roff) and --completion (base/shell_completion.h).
#ifndef ADJOIN_BASE_FLAGS_H_
#define ADJOIN_BASE_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/completion.h"
#include "base/man_page.h"

namespace adjoin {

// The option takes one of `choices`. --help and the manual show them as its type, the shells complete them.
CLI::Option* OneOf(CLI::Option* option, const std::vector<std::string>& choices);

// Call it after all options of `app` are added. An option that has an environment variable already keeps it. The file
// has a line `name = value` for each option (INI or TOML); an unknown name in it is an error.
void AddConfigSources(CLI::App& app, const std::string& environment_prefix);

// The exit code with which the program has to end now (0 after --help and --version, 2 for wrong usage, which is said
// on stderr with the nearest name of a command or option), or nothing. Adds --version, --man-page and --completion.
// Answers a shell's `--complete`, too.
std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv, const ManPageOptions& page = {},
                              const CompletionSources& sources = {});

}  // namespace adjoin

#endif  // ADJOIN_BASE_FLAGS_H_
