#include "cli/rates.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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
                             const AutoLayoutOptions& layouts, const LayerRules& rules, LoadedSpec* loaded) {
  ADJOIN_RETURN_IF_ERROR(CheckAutoOptions(layouts));
  if (!layouts.chosen) {
    if (choice.file.empty() && !choice.of_nodes) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(choice.of_nodes ? "--measured" : "--rates", " is for layouts that are chosen: add --auto"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const CostModel model, ChosenModel(choice, coordinator));
  return ChooseLayouts(layouts, {}, rules, model, loaded);
}

}  // namespace adjoin
