// Writes a job cut in one way throughout, and short, to standard output: bench/auto_layouts.py measures such jobs.
//
//   cut_job JOB written|none|0|2|3|4 RANKS STEPS
//     written   as it is; none: without layouts, on one rank; a number: in this dim of the fields, on RANKS ranks
//     RANKS     0: as many as the job has
//     STEPS     0: the job's own data and length
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include <google/protobuf/text_format.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/uniform_cut.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

absl::StatusOr<std::string> CutJob(const std::string& path, const std::string& cut, const std::string& ranks,
                                   const std::string& steps) {
  uint32_t rank_count = 0, step_count = 0;
  int dim = 0;
  const bool by_dim = cut != "written" && cut != "none";
  if (!absl::SimpleAtoi(ranks, &rank_count) || !absl::SimpleAtoi(steps, &step_count) ||
      (by_dim && !absl::SimpleAtoi(cut, &dim)) || dim < 0) {
    return absl::InvalidArgumentError("cut_job JOB written|none|DIM RANKS STEPS");
  }
  std::ifstream file(path);
  if (!file.good()) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  std::stringstream text;
  text << file.rdbuf();
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text.str(), path));
  JobSpec spec = parsed.spec;
  if (step_count > 0) ADJOIN_RETURN_IF_ERROR(MakeMeasurable(step_count, BuiltinLayerRules(), &spec));
  if (cut == "none") spec = Uncut(spec);
  if (by_dim) {
    if (rank_count == 0) rank_count = spec.ranks();
    ADJOIN_ASSIGN_OR_RETURN(spec, CutUniformly(Uncut(spec), dim, rank_count, BuiltinLayerRules()));
  }
  std::string written;
  if (!google::protobuf::TextFormat::PrintToString(spec, &written)) return absl::InternalError("not printable");
  return written;
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  const auto text = argc == 5 ? adjoin::CutJob(argv[1], argv[2], argv[3], argv[4])
                              : absl::InvalidArgumentError("cut_job JOB written|none|DIM RANKS STEPS");
  if (!text.ok()) {
    std::cerr << "cut_job: error: " << text.status().message() << std::endl;
    return 1;
  }
  std::cout << *text;
  return 0;
}
