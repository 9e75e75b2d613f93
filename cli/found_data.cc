#include "cli/found_data.h"

#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/plan/extent_plan.h"
#include "planner/spec/field_files.h"
#include "planner/spec/sample_shape.h"
#include "primitives/geometry/shape_text.h"
#include "worker/data/array_file.h"
#include "worker/samples/sample_rule.h"

namespace adjoin {
namespace {

// The samples of a field, or nothing where its files are not here. `extents` gets theirs where they differ.
absl::StatusOr<std::optional<int64_t>> SamplesOf(const Field& field, const std::string& data_root,
                                                 SampleExtents& extents) {
  if (field.has_synthetic()) return std::optional<int64_t>(field.synthetic().samples());
  const File* files = FilesOf(field);
  if (files == nullptr || files->path().empty()) return std::optional<int64_t>();
  std::optional<std::vector<int64_t>> sample_shape;
  if (!field.shape().empty()) sample_shape.emplace(field.shape().begin(), field.shape().end());
  int64_t samples = 0;
  for (const std::string& path : files->path()) {
    const std::string file = (std::filesystem::path(data_root) / path).string();
    if (!std::filesystem::exists(file)) return std::optional<int64_t>();
    ArrayFileOptions options;
    options.format = SourceName(field);
    options.object = files->object();
    ADJOIN_ASSIGN_OR_RETURN(const ArrayHeader header, ReadArrayHeader(file, options));
    const absl::StatusOr<int64_t> own = SamplesIn(header, sample_shape);
    if (!own.ok()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", std::string(own.status().message())));
    samples += *own;
    if (!HasVaryingExtents(field)) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, SampleShapeIn(header, *sample_shape));
    ADJOIN_RETURN_IF_ERROR(extents.Add(field.name(), file, shape));
  }
  return std::optional<int64_t>(samples);
}

LargestVolume LargestOf(const Dataset& dataset, const SampleExtents& extents) {
  const auto cells = [&](int64_t sample) {
    return std::accumulate(extents[sample].begin(), extents[sample].end(), 1.0, std::multiplies<double>());
  };
  const int64_t used = UsedSamples(dataset, extents.size());
  int64_t largest = 0;
  for (int64_t sample = 1; sample < used; ++sample) {
    if (cells(sample) > cells(largest)) largest = sample;
  }
  return {
      extents[largest],
      absl::StrCat("what needs volumes of data set \"", dataset.name(), "\" is shown and predicted for the largest of ",
                   used, used == 1 ? " file, " : " files, ", ShapeText(extents[largest]), " (", extents.FileOf(largest),
                   "); the ranks plan it for the extents of each, one after the other")};
}

}  // namespace

absl::StatusOr<FoundData> FindData(const JobSpec& spec, const std::string& data_root) {
  FoundData found;
  for (const Dataset& dataset : spec.dataset()) {
    std::optional<int64_t> samples;
    SampleExtents extents(dataset);
    for (const Field& field : dataset.field()) {
      if (samples.has_value()) break;
      if (HasVaryingExtents(dataset) && !HasVaryingExtents(field)) continue;
      ADJOIN_ASSIGN_OR_RETURN(samples, SamplesOf(field, data_root, extents));
    }
    if (samples.has_value()) {
      found.sizes[dataset.name()] = {*samples, extents.empty() ? 0 : extents.Hash()};
      found.extents[dataset.name()] = std::move(extents);
    } else {
      found.unknown.push_back(dataset.name());
    }
  }
  return found;
}

std::map<std::string, LargestVolume> LargestVolumes(const JobSpec& spec, const FoundData& data) {
  std::map<std::string, LargestVolume> largest;
  for (const Dataset& dataset : spec.dataset()) {
    const auto extents = data.extents.find(dataset.name());
    if (extents == data.extents.end() || extents->second.empty() || !ExtentCheck::Concerns(spec, dataset)) continue;
    largest[dataset.name()] = LargestOf(dataset, extents->second);
  }
  return largest;
}

VolumeExtents ExtentsToChooseFor(const JobSpec& spec, const std::map<std::string, LargestVolume>& largest) {
  VolumeExtents extents;
  if (spec.kind() == TRAIN) return extents;
  for (const auto& [dataset, volume] : largest) extents[dataset] = volume.extents;
  return extents;
}

}  // namespace adjoin
