#include "cli/rates.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "cli/found_data.h"
#include "planner/plan/extent_plan.h"
#include "planner/time/rate_check.h"

namespace adjoin {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;

absl::StatusOr<CostModel> ModelInFile(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rates ", path, " is a folder; adjoin-worker --calibrate keeps the table in rates.textproto"));
  }
  std::ifstream file(path);
  std::string text(kMostBytes + 1, '\0');
  if (!file) return absl::NotFoundError(absl::StrCat("--rates ", path, ": no such file"));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rates ", path, ": a table of rates is expected, of at most ", kMostBytes, " bytes"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const RateTable rates, ParseRates(text, path));
  return CostModel::Create(rates);
}

void TellOfUnknownExtents(const JobSpec& spec, const VolumeExtents& known) {
  if (spec.kind() == TRAIN) return;  // layouts are chosen for its steps
  for (const Dataset& dataset : spec.dataset()) {
    if (!ExtentCheck::Concerns(spec, dataset) || known.count(dataset.name()) > 0) continue;
    std::cerr << "adjoin: the layouts are chosen for other extents than those of the volumes of data set \""
              << PrintableText(dataset.name())
              << "\", whose files were not read here: for 128 in place of each -1, or others that the network takes; "
                 "`adjoin plan --auto --emit --data-root DIR` chooses for the largest file"
              << std::endl;
  }
}

}  // namespace

absl::StatusOr<CostModel> ChosenModel(const RateChoice& choice, const ClientOptions& coordinator) {
  if (!choice.file.empty()) return ModelInFile(choice.file);
  if (!choice.of_nodes) return CostModel::Default();
  CoordinatorClient client(coordinator);
  ADJOIN_ASSIGN_OR_RETURN(const ReadRatesResponse rates, client.ReadRates());
  if (rates.node().empty()) {
    return absl::NotFoundError(
        "no node of the coordinator has measured its rates: run adjoin-worker --calibrate there, then start its "
        "daemon");
  }
  // From another machine: checked again.
  return CostModel::Create(rates.node(0).rates());
}

absl::Status ChooseLayoutsBy(const RateChoice& choice, const ClientOptions& coordinator,
                             const AutoLayoutOptions& layouts, const std::optional<std::string>& data_root,
                             const LayerRules& rules, LoadedSpec* loaded) {
  ADJOIN_RETURN_IF_ERROR(CheckAutoOptions(layouts));
  if (!layouts.chosen) {
    if (choice.file.empty() && !choice.of_nodes) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(choice.of_nodes ? "--measured" : "--rates", " is for layouts that are chosen: add --auto"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const CostModel model, ChosenModel(choice, coordinator));
  const JobSpec& spec = loaded->parsed.spec;
  FoundData data;
  if (data_root.has_value()) {
    // What is wrong with a file the worker tells, with the line that names it.
    if (auto found = FindData(spec, *data_root); found.ok()) data = *std::move(found);
  }
  const VolumeExtents extents = ExtentsToChooseFor(spec, LargestVolumes(spec, data));
  TellOfUnknownExtents(spec, extents);
  return ChooseLayouts(layouts, data.sizes, extents, rules, model, loaded);
}

}  // namespace adjoin
