// The commands with which admins let others in: token and node.
//
//   AccessArguments arguments;
//   ChosenCommand chosen;
//   AddTokenCommands(app, options, arguments, chosen);   // then the parser sets `chosen`
//
// `options` and `arguments` have to live as long as the parser.
#ifndef ADJOIN_CLI_ACCESS_COMMANDS_H_
#define ADJOIN_CLI_ACCESS_COMMANDS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/commands.h"
#include "cli/view_commands.h"

namespace adjoin {

struct AccessArguments {
  std::string token_id, user, role = "user", valid_for = "30d";
  std::string node, join_valid_for = "1h";
  uint32_t uses = 1;
};

void AddTokenCommands(CLI::App& app, CommandOptions& options, AccessArguments& arguments, ChosenCommand& chosen);
void AddNodeCommands(CLI::App& app, CommandOptions& options, AccessArguments& arguments, ChosenCommand& chosen);
// How a command prints what it has: table, json or yaml.
void AddFormatOption(CLI::App* command, CommandOptions& options, const std::string& flags = "-o,--format");

}  // namespace adjoin

#endif  // ADJOIN_CLI_ACCESS_COMMANDS_H_
