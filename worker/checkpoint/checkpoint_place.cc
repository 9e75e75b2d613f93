#include "worker/checkpoint/checkpoint_place.h"

#include "absl/strings/str_cat.h"
#include "base/hopeless_failure.h"
#include "worker/checkpoint/file_system.h"

namespace adjoin {

std::string CheckpointPlace::ToString() const { return PathOf(dir, name.ToString()); }

std::optional<CheckpointPlace> CheckpointPlace::Parse(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const bool in_root = slash == std::string::npos;
  const std::optional<CheckpointName> name = CheckpointName::Parse(in_root ? path : path.substr(slash + 1));
  if (!name.has_value()) return std::nullopt;
  return CheckpointPlace{in_root ? "" : path.substr(0, slash), *name};
}

absl::Status NoCheckpoint(const CheckpointPlace& place) {
  return HopelessFailure(absl::FailedPreconditionError(absl::StrCat(
      "the checkpoint '", place.ToString(),
      "', whose weights this job begins with, is not there: the job that wrote it may have removed it since"
      " (checkpoint { keep_last }), or this node does not share its --output-root; to begin with another one, submit"
      " the job again")));
}

std::vector<SafetensorsEntry> WeightsIn(const Manifest& manifest) {
  std::vector<SafetensorsEntry> weights;
  for (const auto& [name, tensor] : manifest.tensors) {
    // The optimizer's states are named as "exp_avg/conv1.weight"; no parameter's name has a '/'.
    if (name.find('/') == std::string::npos) weights.push_back({name, tensor.dtype, tensor.shape});
  }
  return weights;
}

}  // namespace adjoin
