// The flags of `--auto`, the same for every command that has them.
//
//   AutoLayoutOptions layouts;
//   AddAutoFlags(command, layouts);      // --auto, --memory, --pin
#ifndef ADJOIN_PLANNER_AUTO_AUTO_FLAGS_H_
#define ADJOIN_PLANNER_AUTO_AUTO_FLAGS_H_

#include "CLI/CLI.hpp"
#include "planner/auto/auto_layouts.h"

namespace adjoin {

// `layouts` must outlive `command`. --ranks is each command's own.
void AddAutoFlags(CLI::App* command, AutoLayoutOptions& layouts);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_AUTO_FLAGS_H_
