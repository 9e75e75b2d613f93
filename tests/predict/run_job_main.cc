// Runs a job on threads as ranks, for tests in other languages:
//
//   run_job SPEC DATA_ROOT OUTPUT_ROOT [DATA_SET=SAMPLES ...]
#include <cstdint>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_file.h"
#include "planner/spec/spec_parser.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/session/session.h"

namespace adjoin {
namespace {

absl::Status Run(const std::string& file, const std::string& data_root, const std::string& output_root,
                 const DatasetSizes& sizes) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, ReadSpecFile(file));
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, file));
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, Planner::Build(parsed.spec, sizes, BuiltinLayerRules(), &parsed.locations));
  const auto run = [&](Transport& t) {
    SessionOptions options;
    options.plan = plan;
    options.data_root = data_root;
    options.output_root = output_root;
    options.transport = &t;
    options.log = [](const std::string& line) { std::cout << line << std::endl; };
    return RunSession(options).status();
  };
  return RunRanks(static_cast<int>(parsed.spec.ranks()), TransportKind::kInMemory, 1, run, absl::Minutes(5));
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  adjoin::DatasetSizes sizes;
  bool usage = argc < 4;
  for (int i = 4; i < argc && !usage; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    usage = equals == std::string::npos ||
            !absl::SimpleAtoi(argument.substr(equals + 1), &sizes[argument.substr(0, equals)].samples);
  }
  if (usage) {
    std::cerr << "run_job SPEC DATA_ROOT OUTPUT_ROOT [DATA_SET=SAMPLES ...]" << std::endl;
    return 2;
  }
  const absl::Status status = adjoin::Run(argv[1], argv[2], argv[3], sizes);
  if (status.ok()) return 0;
  std::cerr << "run_job: " << status.message() << std::endl;
  return 1;
}
