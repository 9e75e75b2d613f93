// A coordinator that has a layer whose rule does harm while a job is planned:
//
//   layer { name: "bad" custom { type: "misbehave" arg { key: "how" value: "spin" } arg { key: "mark" value: "/tmp/x" }
//   } }
//
// It first adds its process id to the file `mark`. how: "spin" never returns, "throw" and "throw-number" throw, "fill"
// takes memory without end, "recurse" overflows the stack, "abort" ends the process.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/command.h"
#include "layers/builtin/builtin_rules.h"
#include "layers/rules/layer_rule.h"

namespace adjoin {
namespace {

volatile int deepest = -1;  // none: the compiler cannot know

int Recurse(int depth) {
  volatile char page[4096];
  page[0] = static_cast<char>(depth);
  return depth == deepest ? 0 : Recurse(depth + 1) + page[0];
}

absl::StatusOr<LayerOutcome> Misbehave(const LayerRequest& request) {
  const auto& arguments = request.spec.custom().arg();
  const auto mark = arguments.find("mark");
  if (mark != arguments.end()) std::ofstream(mark->second, std::ios::app) << getpid() << std::endl;
  const std::string& how = arguments.at("how");
  if (how == "throw") throw std::runtime_error("a rule that throws");
  if (how == "throw-number") throw 7;
  if (how == "abort") abort();
  if (how == "recurse") return absl::InternalError(std::to_string(Recurse(0)));
  if (how == "fill") {
    for (std::vector<std::vector<char>> kept;;) kept.emplace_back(size_t{16} << 20, 'x');
  }
  while (how == "spin") pause();
  return absl::InvalidArgumentError("no such harm");
}

const LayerRules& RulesWithMisbehave() {
  static const LayerRules* rules = [] {
    auto* made = new LayerRules;
    AddBuiltinLayerRules(*made).IgnoreError();
    made->Register("misbehave", Misbehave).IgnoreError();
    return made;
  }();
  return *rules;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) { return adjoin::RunCoordinatorCommand(argc, argv, adjoin::RulesWithMisbehave()); }
