// The flags of the commands that show jobs beside each other or again and again: metrics, compare, trace,
// top.
//
//   ViewArguments arguments;
//   ChosenCommand chosen;
//   AddMetricsCommand(app, options, arguments, chosen);   // then the parser sets `chosen`
//
// `options` and `arguments` have to live as long as the parser.
#ifndef ADJOIN_CLI_VIEW_COMMANDS_H_
#define ADJOIN_CLI_VIEW_COMMANDS_H_

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/commands.h"

namespace adjoin {

using ChosenCommand = std::function<absl::StatusOr<int>()>;

struct ViewArguments {
  MetricsOptions metrics;
  std::string metrics_format = "json", metrics_rows;
  CompareOptions compare;
  std::string compare_format = "table";
  TopOptions top;
  TraceOptions trace;
};

void AddMetricsCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen);
void AddCompareCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen);
void AddTraceCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen);
void AddTopCommand(CLI::App& app, CommandOptions& options, ViewArguments& arguments, ChosenCommand& chosen);
// --color, of all commands.
void AddColorOption(CLI::App& app, std::string& color);

}  // namespace adjoin

#endif  // ADJOIN_CLI_VIEW_COMMANDS_H_
