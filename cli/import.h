// `adjoin import`: a model that PyTorch exported becomes a job and a file of weights. Needs no coordinator.
#ifndef ADJOIN_CLI_IMPORT_H_
#define ADJOIN_CLI_IMPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adjoin {

struct ImportCommand {
  std::string model;                  // the archive
  std::string job;                    // the file to write; empty: standard output
  std::string weights;                // the file to write; empty: none
  std::string frame;                  // a job without layers, which gets the model's; empty: one that predicts
  std::vector<std::string> inputs;    // fields that forward's arguments are; empty: as in forward
  std::vector<std::string> examples;  // shapes that a trace was made with; empty: the archive tells
  bool outline = false;               // custom layers in place of what is not known
  bool force = false;                 // also over files that are there
  bool script = false;                // prints how to export, and does nothing else
};

// Returns the process's exit code.
absl::StatusOr<int> RunImport(const ImportCommand& command);

}  // namespace adjoin

#endif  // ADJOIN_CLI_IMPORT_H_
