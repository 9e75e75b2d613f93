#include "tests/importer/trained_losses.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <google/protobuf/text_format.h>
#include <nlohmann/json.hpp>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/job.pb.h"

namespace adjoin {

absl::StatusOr<std::vector<double>> TrainedLosses(const ArchiveCase& test, int ranks, const JobFolder& folder) {
  ADJOIN_RETURN_IF_ERROR(CopyArrays(test, folder));
  ADJOIN_ASSIGN_OR_RETURN(const JobSpec job, TrainingJob(test, ranks, folder));
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  ADJOIN_RETURN_IF_ERROR(RunJob(text, {{"data", job.train().batch()}}, folder).status());
  std::ifstream file(folder.Path("output/job/metrics.jsonl"));
  std::vector<double> losses;
  for (const char* type : {"step", "validation"}) {
    file.clear();
    file.seekg(0);
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json parsed = nlohmann::json::parse(line);
      if (parsed["type"] == type) losses.push_back(parsed["loss"]);
    }
  }
  return losses;
}

absl::StatusOr<std::vector<double>> PytorchLosses(const ArchiveCase& test, const JobFolder& folder) {
  const std::vector<std::string> paths = test.Arrays("losses");
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(test.folder, " has no losses of ", test.sample));
  std::filesystem::copy_file(paths[0], folder.Path("data/losses.npy"),
                             std::filesystem::copy_options::overwrite_existing);
  ADJOIN_ASSIGN_OR_RETURN(const at::Tensor losses, folder.ReadArray("data/losses.npy"));
  return std::vector<double>(losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel());
}

}  // namespace adjoin
