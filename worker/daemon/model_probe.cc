#include "worker/daemon/model_probe.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/path_rules.h"
#include "worker/model/model_differences.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

absl::Status Check(const std::string& root, const std::string& path, const char* root_name, const ModelProbe& request) {
  const absl::StatusOr<HeldPath> held = HoldBelow(root, path);
  if (absl::IsNotFound(held.status())) {
    return absl::NotFoundError(
        absl::StrCat(std::string(held.status().message()), " below the worker's ", root_name, " root"));
  }
  ADJOIN_RETURN_IF_ERROR(held.status());
  const absl::StatusOr<std::unique_ptr<SafetensorsReader>> file = SafetensorsReader::Open(held->path());
  if (!file.ok()) return held->AsShown(file.status());
  if (request.tensor().empty()) return absl::OkStatus();
  std::vector<NamedShape> model;
  for (const ModelTensor& tensor : request.tensor()) {
    model.push_back({tensor.name(), {tensor.shape().begin(), tensor.shape().end()}});
  }
  const bool strict = !request.weights().has_strict() || request.weights().strict();
  return CheckDifferences(path, CompareModel((*file)->entries(), model), strict);
}

}  // namespace

void ProbeModel(const std::string& data_root, const std::string& output_root, const ModelProbe& request,
                ProbeResult& result, const std::function<void(const std::string& file)>& at) {
  const Weights& weights = request.weights();
  const bool of_job = !weights.from_output().empty();
  const std::string field = of_job ? "weights.from_output" : "weights.init_from";
  if (at) at(absl::StrCat("'", of_job ? weights.from_output() : weights.init_from(), "' (", field, ")"));
  const absl::Status status = of_job ? Check(output_root, weights.from_output(), "output", request)
                                     : Check(data_root, weights.init_from(), "data", request);
  if (status.ok()) return;
  result.set_error(absl::StrCat(field, ": ", std::string(status.message())));
  result.set_field(field);
}

}  // namespace adjoin
