#include "cli/rates.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
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
  ClientOptions options = coordinator;
  options.retry = absl::ZeroDuration();  // who plans does not wait for a coordinator
  CoordinatorClient client(std::move(options));
  ADJOIN_ASSIGN_OR_RETURN(const ReadRatesResponse rates, client.ReadRates());
  if (rates.node().empty()) {
    return absl::NotFoundError(
        "no node of the coordinator has measured its rates: run adjoin-worker --calibrate there, then start its "
        "daemon");
  }
  // From another machine: checked again.
  return CostModel::Create(rates.node(0).rates());
}

}  // namespace adjoin
