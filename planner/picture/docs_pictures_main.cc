// Writes the documentation's pictures into a folder: docs_pictures JOBS_FOLDER OUTPUT_FOLDER. tools/make-pictures runs
// it, and a test compares what it writes with what is in docs/pictures.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/new_file.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/picture/plan_picture.h"
#include "planner/picture/primitive_pictures.h"
#include "planner/plan/plan_report.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_file.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {
namespace {

using Draw = absl::StatusOr<std::string> (*)(const Plan&, const PlanReport&);

absl::StatusOr<std::string> OfJob(const std::string& path, Draw draw) {
  ADJOIN_ASSIGN_OR_RETURN(const std::string text, ReadSpecFile(path));
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, path));
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, Planner::Build(parsed.spec, {}, BuiltinLayerRules(), &parsed.locations));
  return draw(plan, MakePlanReport(plan));
}

absl::Status Write(const std::string& path, const absl::StatusOr<std::string>& picture) {
  ADJOIN_RETURN_IF_ERROR(picture.status());
  ADJOIN_ASSIGN_OR_RETURN(NewFile file, NewFile::Begin(path, NewFile::Over::kRegularFile));
  ADJOIN_RETURN_IF_ERROR(file.Write(*picture));
  return file.Finish();
}

absl::Status WriteAll(const std::string& jobs, const std::string& output) {
  ADJOIN_RETURN_IF_ERROR(Write(absl::StrCat(output, "/unet3d-stages.svg"),
                               OfJob(absl::StrCat(jobs, "/unet/unet3d.textproto"), StagesSvg)));
  ADJOIN_RETURN_IF_ERROR(
      Write(absl::StrCat(output, "/unet3d.svg"), OfJob(absl::StrCat(jobs, "/unet/unet3d.textproto"), PlanSvg)));
  ADJOIN_RETURN_IF_ERROR(Write(absl::StrCat(output, "/lenet5-hybrid.svg"),
                               OfJob(absl::StrCat(jobs, "/mnist/lenet5-hybrid.textproto"), PlanSvg)));
  ADJOIN_RETURN_IF_ERROR(Write(absl::StrCat(output, "/placements.svg"), PlacementsSvg()));
  return Write(absl::StrCat(output, "/halo-exchange.svg"), HaloExchangeSvg());
}

}  // namespace
}  // namespace adjoin

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: docs_pictures JOBS_FOLDER OUTPUT_FOLDER" << std::endl;
    return 2;
  }
  const absl::Status status = adjoin::WriteAll(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::cerr << "docs_pictures: " << status.message() << std::endl;
  return 1;
}
