// The command line of adjoin-verify, for the program itself and for what `adjoin verify` completes: no LibTorch here.
//
//   CLI::App app("...", "adjoin verify");
//   VerifyFlags flags;
//   AddVerifyFlags(app, flags);
#ifndef ADJOIN_VERIFY_COMMAND_FLAGS_H_
#define ADJOIN_VERIFY_COMMAND_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "planner/auto/auto_layouts.h"
#include "planner/spec/spec_include.h"

namespace adjoin {

struct VerifyFlags {
  std::string file;
  SpecChanges changes;
  AutoLayoutOptions layouts;
  // As VerifyOptions.
  std::vector<uint32_t> ranks;
  std::optional<int64_t> batch;
  std::optional<double> tolerance;
  std::optional<uint32_t> steps;
  uint64_t seed = 1;
  // As AgainstOptions; without a sample there is no comparison with PyTorch.
  std::string sample, weights, data_root;
};

// Also sets the footer of `app`.
void AddVerifyFlags(CLI::App& app, VerifyFlags& flags);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_COMMAND_FLAGS_H_
