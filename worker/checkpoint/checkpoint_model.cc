#include "worker/checkpoint/checkpoint_model.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {
namespace {

constexpr int64_t kSlabBytes = 512 << 10;
constexpr int kTries = 3;          // where checkpoints are removed while they are looked at
constexpr size_t kMostSteps = 20;  // in an error

using Finished = std::vector<std::pair<CheckpointName, Manifest>>;

// True where an error of ReadManifest says that this checkpoint is none, and not that it could not be read.
bool IsNone(const absl::Status& status) { return IsProven(status) || absl::IsUnimplemented(status); }

// The job's finished checkpoints, newest first, each without its tensors.
absl::StatusOr<Finished> ListFinished(const CheckpointModel::Source& source) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListCheckpoints(*source.files, source.dir));
  Finished finished;
  for (const CheckpointName& name : names) {
    if (name.tag != source.tag) continue;
    absl::StatusOr<Manifest> manifest = ReadManifest(*source.files, source.dir, name);
    if (IsNone(manifest.status())) continue;
    ADJOIN_RETURN_IF_ERROR(manifest.status());
    manifest->tensors.clear();
    manifest->files.clear();
    finished.emplace_back(name, *std::move(manifest));
  }
  return finished;
}

// "steps 400, 300 (the best by loss), 200"
std::string StepsText(const Finished& finished, const std::optional<CheckpointName>& best, const std::string& metric) {
  if (finished.empty()) return "there is no finished checkpoint yet";
  std::vector<std::string> steps;
  for (const auto& [name, manifest] : finished) {
    if (steps.size() == kMostSteps) break;
    const bool is_best = best.has_value() && *best == name;
    steps.push_back(absl::StrCat(name.step, is_best ? absl::StrCat(" (the best by ", metric, ")") : ""));
  }
  const size_t more = finished.size() - steps.size();
  return absl::StrCat("there are checkpoints of ", finished.size() == 1 ? "step " : "the steps ",
                      absl::StrJoin(steps, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

// True where the extents multiply to `volume`, however large they are.
bool HasVolume(const std::vector<int64_t>& shape, int64_t volume) {
  if (volume == 0) return std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const int64_t extent : shape) {
    if (extent <= 0 || volume % extent != 0) return false;
    volume /= extent;
  }
  return volume == 1;
}

absl::StatusOr<CheckpointName> NewestFinished(const CheckpointModel::Source& source) {
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListCheckpoints(*source.files, source.dir));
  for (const CheckpointName& name : names) {
    if (name.tag != source.tag) continue;
    const absl::Status status = ReadManifest(*source.files, source.dir, name).status();
    if (status.ok()) return name;
    if (!IsNone(status)) return status;
  }
  return absl::NotFoundError("the job has left no finished checkpoint");
}

absl::StatusOr<CheckpointName> Choose(const CheckpointModel::Source& source, const CheckpointModel::Choice& choice) {
  // The step stands in a checkpoint's name: the manifests of the others need not be read.
  if (!choice.best && choice.step > 0) {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, ListCheckpoints(*source.files, source.dir));
    for (const CheckpointName& name : names) {
      const bool fits = name.tag == source.tag && name.step == choice.step;
      if (fits && ReadManifest(*source.files, source.dir, name).ok()) return name;
    }
  }
  if (!choice.best && choice.step == 0 && choice.newest) return NewestFinished(source);
  ADJOIN_ASSIGN_OR_RETURN(const Finished finished, ListFinished(source));
  const std::optional<CheckpointName> best = BestCheckpoint(finished, source.validation);
  const std::string steps = StepsText(finished, best, source.validation.keep_best);
  if (choice.best) {
    if (best.has_value()) return *best;
    return absl::NotFoundError(absl::StrCat("no checkpoint was taken at a validation with ",
                                            source.validation.keep_best, ", as checkpoint { keep_best: \"",
                                            source.validation.keep_best, "\" } has them taken; ", steps));
  }
  if (choice.step == 0) {
    return absl::NotFoundError(absl::StrCat("the job has published no model; ", steps,
                                            finished.empty() ? "" : ": --step N or --best takes one"));
  }
  for (const auto& [name, manifest] : finished) {
    if (name.step == choice.step) return name;
  }
  return absl::NotFoundError(absl::StrCat("no checkpoint is of step ", choice.step, "; ", steps));
}

}  // namespace

absl::StatusOr<Manifest> CheckpointModel::Find(const Source& source, const Choice& choice) {
  absl::StatusOr<Manifest> manifest;
  for (int i = 0; i < kTries; ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const CheckpointName name, Choose(source, choice));
    manifest = ReadManifest(*source.files, source.dir, name);
    if (!absl::IsNotFound(manifest.status())) break;
  }
  return manifest;
}

absl::StatusOr<std::unique_ptr<CheckpointModel>> CheckpointModel::Open(Source source, const Choice& choice) {
  ADJOIN_ASSIGN_OR_RETURN(Manifest manifest, Find(source, choice));
  std::unique_ptr<CheckpointModel> model(new CheckpointModel(std::move(source), std::move(manifest)));
  ADJOIN_RETURN_IF_ERROR(model->CheckTensors());
  ADJOIN_ASSIGN_OR_RETURN(model->header_, SafetensorsHeader(model->entries_));
  model->bytes_ = static_cast<int64_t>(model->header_.size());
  for (const SafetensorsEntry& entry : model->entries_) model->bytes_ += entry.Bytes();
  return model;
}

absl::Status CheckpointModel::CheckTensors() {
  for (const auto& [name, shape] : source_.model) {
    const auto stored = manifest_.tensors.find(name);
    if (stored == manifest_.tensors.end() || !HasVolume(shape, VolumeOf(stored->second.shape))) {
      return absl::DataLossError(absl::StrCat(PathOf(source_.dir, manifest_.name.ToString()), ": has no tensor ", name,
                                              " of shape ", absl::StrJoin(shape, "x"), ", which the job's model has"));
    }
    entries_.push_back({name, stored->second.dtype, shape});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointModel::Next() {
  if (header_at_ < header_.size()) {
    std::string part = header_.substr(header_at_, kSlabBytes);
    header_at_ += part.size();
    return part;
  }
  absl::StatusOr<std::string> bytes = NextOfTensor();
  if (!absl::IsNotFound(bytes.status())) return bytes;
  return absl::AbortedError(absl::StrCat("the checkpoint of step ", step(),
                                         " was removed while it was read, as the job keeps only the last ones"
                                         " (checkpoint { keep_last }): try again"));
}

absl::StatusOr<std::string> CheckpointModel::NextOfTensor() {
  const SafetensorsEntry& entry = entries_[tensor_];
  const Manifest::Tensor& stored = manifest_.tensors.at(entry.name);
  if (verified_ < stored.pieces.size()) {
    ADJOIN_RETURN_IF_ERROR(VerifyPiece(*source_.files, source_.dir, manifest_, entry.name, stored.pieces[verified_]));
    ++verified_;
    return std::string();
  }
  std::string bytes;
  const int64_t volume = VolumeOf(stored.shape);
  if (cell_ < volume) {
    const Box slab = SlabFrom(stored.shape, cell_, std::max<int64_t>(1, kSlabBytes / SizeOf(stored.dtype)));
    bytes.resize(static_cast<size_t>(slab.Volume() * SizeOf(stored.dtype)));
    ADJOIN_RETURN_IF_ERROR(
        ReadBox(*source_.files, source_.dir, manifest_, entry.name, slab, bytes.data(), /*bytes_read=*/nullptr));
    cell_ += slab.Volume();
  }
  if (cell_ == volume) {
    ++tensor_;
    verified_ = 0;
    cell_ = 0;
  }
  return bytes;
}

Box SlabFrom(const std::vector<int64_t>& shape, int64_t first, int64_t most) {
  const std::vector<int64_t> at = Box::Whole(shape).CellAt(first);
  std::vector<Interval> dims;
  for (const int64_t index : at) dims.push_back({index, index + 1});
  // From the last dim on: whole dims while they fit and begin here, then a part of the next one.
  int64_t cells = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t rows = std::min(shape[d] - at[d], std::max<int64_t>(1, most / cells));
    dims[d].hi = at[d] + rows;
    cells *= rows;
    if (rows < shape[d]) break;
  }
  return Box(std::move(dims));
}

}  // namespace adjoin
