#include "planner/checks/dataset_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/checks/name_check.h"
#include "planner/spec/augment.h"
#include "planner/spec/field_files.h"
#include "planner/spec/file_formats.h"
#include "planner/spec/grid_strides.h"
#include "planner/spec/sample_shape.h"

namespace adjoin {
namespace {

// Whole numbers up to this one are exact as doubles. Values are doubles until they are cast.
constexpr int64_t kMostNumber = int64_t{1} << 53;

// The coarsest grid beside that of another field.
constexpr int64_t kMostStride = 1024;

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

bool IsWhole(double value) {
  return std::fabs(value) <= static_cast<double>(kMostNumber) && value == std::floor(value);
}

absl::Status CheckFiles(const Field& field) {
  const std::string source = SourceName(field);
  const File& files = *FilesOf(field);
  if (files.path().empty()) return AtField(source, InvalidSpec(source, ".path is missing: the file"));
  for (int i = 0; i < files.path_size(); ++i) {
    const std::string at = absl::StrCat(source, ".path[", i, "]");
    if (files.path(i).empty()) return AtField(at, InvalidSpec("an empty path"));
    ADJOIN_RETURN_IF_ERROR(CheckPath(at, "--data-root", files.path(i)));
  }
  const FileFormat* const format = FindFileFormat(source);
  if (files.object().empty() || (format != nullptr && format->objects)) return absl::OkStatus();
  const std::string right = FileFormatNames([](const FileFormat& known) { return known.objects; });
  return AtField(
      absl::StrCat(source, ".object"),
      InvalidSpec("only files of format ", right, " hold several data sets; leave object out, or write ", right));
}

absl::Status CheckSynthetic(const Synthetic& made) {
  const auto at = [](const char* field) { return absl::StrCat("synthetic.", field); };
  if (made.samples() < 1 || made.samples() > kMostNumber) {
    return AtField("synthetic",
                   AtField(made.samples() == 0 ? "" : "samples",
                           InvalidSpec("synthetic.samples is ", made.samples(), "; it must be from 1 to 2^53")));
  }
  ADJOIN_RETURN_IF_ERROR(CheckFinite(at("low"), made.low()));
  ADJOIN_RETURN_IF_ERROR(CheckFinite(at("high"), made.high()));
  if (made.kind() == "normal" || made.kind() == "constant") {
    const bool normal = made.kind() == "normal";
    if (made.high() == 0 && (!normal || made.low() == 0)) return absl::OkStatus();
    return AtField(
        at(made.high() != 0 ? "high" : "low"),
        InvalidSpec("synthetic.kind \"", made.kind(), "\" takes ", normal ? "neither low nor high" : "no high",
                    normal ? ": it has mean 0 and standard deviation 1; std and mean change that" : ""));
  }
  if (made.kind() != "uniform" && made.kind() != "index") {
    return AtField(made.kind().empty() ? "synthetic" : at("kind"),
                   InvalidSpec("synthetic.kind \"", made.kind(),
                               "\" is not one of \"normal\", \"uniform\", \"index\", \"constant\""));
  }
  if (!(made.low() < made.high()) || !std::isfinite(made.high() - made.low())) {
    return AtField("synthetic", InvalidSpec("synthetic.low is ", made.low(), " and synthetic.high ", made.high(),
                                            "; values are from low to below high"));
  }
  for (const char* name : {"low", "high"}) {
    const double value = name[0] == 'l' ? made.low() : made.high();
    if (made.kind() == "uniform" || IsWhole(value)) continue;
    return AtField(at(name), InvalidSpec("synthetic.", name, " is ", value,
                                         "; of kind \"index\" it is a whole number up to 2^53"));
  }
  return absl::OkStatus();
}

absl::Status CheckRemap(const Field& field) {
  if (field.remap().empty()) return absl::OkStatus();
  if (field.dtype() != "int64") {
    return AtField("remap", InvalidSpec("remap is of classes' numbers; the field needs dtype: \"int64\""));
  }
  if (field.scale() != 0 || field.mean_size() > 0 || field.std_size() > 0) {
    return AtField("remap", InvalidSpec("remap makes classes' numbers, which scale, mean and std would change; write"
                                        " either"));
  }
  for (int i = 0; i < field.remap_size(); ++i) {
    if (IsWhole(static_cast<double>(field.remap(i)))) continue;
    return AtField(absl::StrCat("remap[", i, "]"),
                   InvalidSpec("remap has ", field.remap(i), "; at most 2^53 is possible"));
  }
  return absl::OkStatus();
}

absl::Status CheckNormalisation(const Field& field) {
  const int64_t channels = field.shape_size() > 0 && !IsVaryingExtent(field.shape(0)) ? field.shape(0) : 1;
  for (const auto* list : {&field.mean(), &field.std()}) {
    const char* name = list == &field.mean() ? "mean" : "std";
    if (list->size() > 1 && list->size() != channels) {
      return AtField(
          name, InvalidSpec(name, " has ", list->size(), " values; write one, or one per channel (", channels, ")"));
    }
    for (double value : *list) ADJOIN_RETURN_IF_ERROR(CheckFinite(name, value));
  }
  for (double value : field.std()) {
    if (value == 0) return AtField("std", InvalidSpec("std is 0; values are divided by it"));
  }
  return CheckFinite("scale", field.scale());
}

absl::Status CheckField(const Field& field) {
  ADJOIN_RETURN_IF_ERROR(CheckName("a field", field.name()));
  if (field.source_case() == Field::SOURCE_NOT_SET) {
    const std::string known = FileFormatNames([](const FileFormat&) { return true; });
    return InvalidSpec("its source is missing; write ", known, " { path: ... }, or synthetic { ... }");
  }
  ADJOIN_RETURN_IF_ERROR(field.has_synthetic() ? CheckSynthetic(field.synthetic()) : CheckFiles(field));
  if (!field.dtype().empty() && field.dtype() != "float32" && field.dtype() != "float64" && field.dtype() != "int64") {
    return AtField("dtype",
                   InvalidSpec("dtype \"", field.dtype(), "\" is not one of \"float32\", \"float64\", \"int64\""));
  }
  for (int i = 0; i < field.shape_size(); ++i) {
    const bool varies =
        field.shape(i) >= -kMostStride && IsVaryingExtent(field.shape(i)) && IsPowerOfTwo(-field.shape(i));
    if (field.shape(i) < 1 && !varies) {
      return AtField(absl::StrCat("shape[", i, "]"),
                     InvalidSpec("shape has ", field.shape(i),
                                 "; every extent must be at least 1, or -1 where it differs from file to file (-2, -4"
                                 " up to -",
                                 kMostStride, " on a grid that is coarser by that)"));
    }
  }
  int64_t cells = 1;
  for (int64_t extent : field.shape()) {
    if (!IsVaryingExtent(extent) && (__builtin_mul_overflow(cells, extent, &cells) || cells > kMostNumber)) {
      return AtField("shape", InvalidSpec("shape has more than 2^53 cells, the most that a sample can have"));
    }
  }
  ADJOIN_RETURN_IF_ERROR(CheckNormalisation(field));
  return CheckRemap(field);
}

// Checks normalize and clip_percentile, which use the sample's own values.
absl::Status CheckSampleScaling(const Dataset& dataset, const Field& field) {
  const bool clips = !field.clip_percentile().empty();
  if (field.normalize().empty() && !clips) return absl::OkStatus();
  const char* const name = field.normalize().empty() ? "clip_percentile" : "normalize";
  if (!field.normalize().empty() && field.normalize() != "zscore") {
    return AtField(name, InvalidSpec("normalize is \"", field.normalize(), "\"; it must be \"zscore\""));
  }
  if (field.dtype() == "int64") {
    return AtField(name, InvalidSpec(name, " makes fractions, which dtype \"int64\" does not hold; leave one out"));
  }
  if (!field.normalize().empty() && (field.scale() != 0 || field.mean_size() > 0 || field.std_size() > 0)) {
    return AtField(name, InvalidSpec("normalize uses the sample's own mean and standard deviation, instead of scale,"
                                     " mean and std; write either"));
  }
  if (clips) {
    const auto& limits = field.clip_percentile();
    const bool right = limits.size() == 2 && limits[0] >= 0 && limits[0] < limits[1] && limits[1] <= 100;
    if (!right) {
      return AtField("clip_percentile", InvalidSpec("clip_percentile is [", absl::StrJoin(limits, ", "),
                                                    "]; write two percentages from 0 to 100, the lower one first, as"
                                                    " [0.5, 99.5]"));
    }
  }
  bool one_cell = true;
  for (int i = HasChannels(dataset, field) ? 1 : 0; i < field.shape_size(); ++i) one_cell &= field.shape(i) == 1;
  if (!one_cell || field.normalize().empty()) return absl::OkStatus();
  return AtField(name, InvalidSpec("normalize would make every value 0: a sample has one cell",
                                   HasChannels(dataset, field) ? " per channel" : "", "; write mean and std"));
}

std::string Ending(const Field& field, int dims) {
  return absl::StrJoin(field.shape().end() - dims, field.shape().end(), "x");
}

// Checks the extents of -1, which differ from file to file: in spatial dims, and in the same ones of all fields that
// have any.
absl::Status CheckVaryingExtents(const Dataset& dataset, const Field& field) {
  const int spatial = SpatialDims(dataset);
  for (int i = 0; i < field.shape_size(); ++i) {
    if (!IsVaryingExtent(field.shape(i))) continue;
    const std::string at = absl::StrCat("shape[", i, "]");
    if (field.has_synthetic()) {
      return AtField(at, InvalidSpec("shape has -1, but synthetic values come from no file; write the extent"));
    }
    if (field.shape_size() >= spatial && i >= field.shape_size() - spatial) continue;
    if (dataset.has_blocks()) {
      return AtField(at, InvalidSpec("shape has -1 in a dim that no block cuts; blocks.size has the last ", spatial,
                                     " dims, and only there files may differ"));
    }
    return AtField(at, InvalidSpec("shape has -1 in a dim that is not spatial; without blocks, the spatial dims are all"
                                   " but the first, the channels, of the field with most dims: the last ",
                                   spatial, ". A volume without channels gets a leading 1, shape: [1, -1, ...]"));
  }
  if (!HasVaryingExtents(field)) return absl::OkStatus();
  const auto first = std::find_if(dataset.field().begin(), dataset.field().end(),
                                  [](const Field& other) { return HasVaryingExtents(other); });
  for (int i = 0; i < field.shape_size() && first->name() == field.name(); ++i) {
    if (field.shape(i) >= -1) continue;
    return AtField(absl::StrCat("shape[", i, "]"),
                   InvalidSpec("shape has ", field.shape(i),
                               ", a coarser grid than that of a field before it, and there is"
                               " none: list the field with the finest grid, -1, first"));
  }
  if (dataset.has_blocks()) return absl::OkStatus();  // CheckGrids compares all fields
  const auto same = [](int64_t a, int64_t b) { return IsVaryingExtent(a) == IsVaryingExtent(b); };
  if (std::equal(field.shape().end() - spatial, field.shape().end(), first->shape().end() - spatial, same)) {
    return absl::OkStatus();
  }
  return AtField("shape", InvalidSpec("shape ends in ", Ending(field, spatial), ", that of field \"", first->name(),
                                      "\" in ", Ending(*first, spatial),
                                      "; the same dims differ from file to file in all fields in which any does"));
}

// Checks that the fields' spatial dims have the same extents, so that a block or shift has the same position in all
// fields.
absl::Status CheckSpatialExtents(const Dataset& dataset, int spatial, const char* reason) {
  const Field* first = nullptr;
  for (int i = 0; i < dataset.field_size(); ++i) {
    const Field& field = dataset.field(i);
    if (!HasSpatialDims(dataset, field.shape_size())) continue;
    const std::vector<int64_t> extents(field.shape().end() - spatial, field.shape().end());
    if (first == nullptr) {
      first = &field;
      continue;
    }
    if (std::equal(extents.begin(), extents.end(), first->shape().end() - spatial)) continue;
    return AtField(
        absl::StrCat("field[", i, "].shape"),
        InvalidSpec("field \"", field.name(), "\" ends in ", absl::StrJoin(extents, "x"), ", field \"", first->name(),
                    "\" in ", absl::StrJoin(first->shape().end() - spatial, first->shape().end(), "x"), "; for ",
                    reason, " they have to be the same"));
  }
  return absl::OkStatus();
}

// Checks that each field with the blocks' dims has the first one's grid or a coarser one, which divides the blocks.
absl::Status CheckGrids(const Dataset& dataset) {
  const int spatial = SpatialDims(dataset);
  const Field* first = nullptr;
  for (int i = 0; i < dataset.field_size(); ++i) {
    const Field& field = dataset.field(i);
    const std::vector<int64_t> strides = GridStrides(dataset, field);
    if (strides.empty()) continue;
    if (first == nullptr) first = &field;
    for (int dim = 0; dim < spatial; ++dim) {
      if (strides[dim] == 0 || strides[dim] > kMostStride) {
        return AtField(absl::StrCat("field[", i, "].shape"),
                       InvalidSpec("field \"", field.name(), "\" ends in ", Ending(field, spatial), ", field \"",
                                   first->name(), "\" in ", Ending(*first, spatial),
                                   "; for blocks they have to be the same, or those of a grid that is coarser by 2, 4,"
                                   " 8, ..., rounded up; the field with the finest grid comes first"));
      }
      if (dataset.blocks().size(dim) % strides[dim] == 0) continue;
      return AtField(absl::StrCat("blocks.size[", dim, "]"),
                     InvalidSpec("blocks.size has ", dataset.blocks().size(dim), ", which ", strides[dim],
                                 " does not divide: so much coarser is the grid of field \"", field.name(),
                                 "\" than that of \"", first->name(),
                                 "\" in this dim, and a block has whole cells of both;"
                                 " right would be a multiple of ",
                                 strides[dim]));
    }
  }
  return absl::OkStatus();
}

// Refuses a mean or std per channel where blocks or augment change the first dim, so that there are no fixed channels.
absl::Status CheckChannelsStay(const Dataset& dataset, int spatial) {
  for (int i = 0; i < dataset.field_size(); ++i) {
    const Field& field = dataset.field(i);
    if (field.shape_size() != spatial || (field.mean_size() <= 1 && field.std_size() <= 1)) continue;
    return AtField(
        absl::StrCat("field[", i, "]"),
        InvalidSpec("a mean or std for each entry of dim 0, which blocks or augment cut or move; write one, or"
                    " a shape whose first dim counts channels"));
  }
  return absl::OkStatus();
}

absl::Status CheckForeground(const Dataset& dataset) {
  const Foreground& foreground = dataset.blocks().foreground();
  const auto at = [](const char* field) { return absl::StrCat("blocks.foreground.", field); };
  const Field* labels = nullptr;
  for (const Field& field : dataset.field()) {
    if (field.name() == foreground.field()) labels = &field;
  }
  if (foreground.field().empty()) {
    return AtField("blocks.foreground", InvalidSpec("blocks.foreground.field is missing: the field of labels"));
  }
  if (labels == nullptr) {
    return AtField(at("field"), InvalidSpec("blocks.foreground.field is \"", foreground.field(),
                                            "\"; the data set has no such field"));
  }
  const int block = dataset.blocks().size_size();
  if (labels->dtype() != "int64" || labels->shape_size() != block) {
    return AtField(at("field"), InvalidSpec("field \"", labels->name(), "\" has dtype \"", labels->dtype(), "\" and ",
                                            labels->shape_size(),
                                            " dims; blocks.foreground needs labels of dtype"
                                            " \"int64\" with the ",
                                            block, " dims of a block and no channels"));
  }
  for (int64_t stride : GridStrides(dataset, *labels)) {
    if (stride == 1) continue;
    return AtField(at("field"),
                   InvalidSpec("field \"", labels->name(),
                               "\" has a coarser grid than the first field;"
                               " blocks are drawn around cells of the finest one: name a field that has it"));
  }
  if (!(foreground.share() > 0 && foreground.share() <= 1)) {
    return AtField(
        foreground.share() == 0 ? "blocks.foreground" : at("share"),
        InvalidSpec("blocks.foreground.share is ", foreground.share(), "; it must be above 0 and at most 1"));
  }
  std::set<int64_t> seen;
  for (int i = 0; i < foreground.label_size(); ++i) {
    const int64_t label = foreground.label(i);
    const std::string where = absl::StrCat("blocks.foreground.label[", i, "]");
    if (!seen.insert(label).second) return AtField(where, InvalidSpec("label ", label, " stands twice"));
    if (!IsWhole(static_cast<double>(label))) {
      return AtField(where, InvalidSpec("label ", label, " is beyond 2^53, which no label in a file is"));
    }
    if (labels->remap().empty() || std::count(labels->remap().begin(), labels->remap().end(), label) > 0) continue;
    return AtField(where, InvalidSpec("label ", label, " is none of those that remap of field \"", labels->name(),
                                      "\" makes: ", absl::StrJoin(labels->remap(), ", ")));
  }
  return absl::OkStatus();
}

absl::Status CheckBlocks(const Dataset& dataset) {
  const Blocks& blocks = dataset.blocks();
  if (blocks.size().empty()) return AtField("blocks", InvalidSpec("blocks.size is missing: as in size: [32, 32, 32]"));
  if (blocks.per_epoch() < 1 || blocks.per_epoch() > kMostNumber) {
    return AtField(blocks.per_epoch() == 0 ? "blocks" : "blocks.per_epoch",
                   InvalidSpec("blocks.per_epoch is ", blocks.per_epoch(), "; it must be from 1 to 2^53"));
  }
  if (!blocks.by().empty() && blocks.by() != "sample" && blocks.by() != "cell") {
    return AtField("blocks.by", InvalidSpec("blocks.by is \"", blocks.by(), "\"; it must be \"sample\" or \"cell\""));
  }
  const Field* cut = nullptr;
  for (const Field& field : dataset.field()) {
    if (cut == nullptr && field.shape_size() >= blocks.size_size()) cut = &field;
  }
  if (cut == nullptr) {
    return AtField("blocks.size",
                   InvalidSpec("a block has ", blocks.size_size(), " extents; no field has as many dims"));
  }
  for (int dim = 0; dim < blocks.size_size(); ++dim) {
    const int64_t whole = cut->shape(cut->shape_size() - blocks.size_size() + dim);
    if (blocks.size(dim) >= 1 && (blocks.size(dim) <= whole || IsVaryingExtent(whole))) continue;
    if (IsVaryingExtent(whole)) {
      return AtField(absl::StrCat("blocks.size[", dim, "]"),
                     InvalidSpec("blocks.size has ", blocks.size(dim), "; it must be at least 1"));
    }
    return AtField(absl::StrCat("blocks.size[", dim, "]"),
                   InvalidSpec("blocks.size has ", blocks.size(dim), " where field \"", cut->name(), "\" has ", whole,
                               " cells; it must be from 1 to ", whole));
  }
  ADJOIN_RETURN_IF_ERROR(CheckGrids(dataset));
  return blocks.has_foreground() ? CheckForeground(dataset) : absl::OkStatus();
}

absl::Status CheckSamples(const Dataset& dataset) {
  if (dataset.has_blocks()) ADJOIN_RETURN_IF_ERROR(CheckBlocks(dataset));
  ADJOIN_ASSIGN_OR_RETURN(const Augment augment, ParseAugment(dataset));
  const int spatial = SpatialDims(dataset);
  if (augment.shift > 0) ADJOIN_RETURN_IF_ERROR(CheckSpatialExtents(dataset, spatial, "a shift"));
  if (dataset.has_blocks() || !augment.empty()) ADJOIN_RETURN_IF_ERROR(CheckChannelsStay(dataset, spatial));
  return absl::OkStatus();
}

// Training takes batches of one shape.
absl::Status CheckTrainsOnOneShape(const Dataset& dataset) {
  for (int i = 0; i < dataset.field_size(); ++i) {
    for (int dim = 0; dim < dataset.field(i).shape_size(); ++dim) {
      if (!IsVaryingExtent(dataset.field(i).shape(dim))) continue;
      return AtField(absl::StrCat("field[", i, "].shape[", dim, "]"),
                     InvalidSpec("shape has ", dataset.field(i).shape(dim),
                                 ", and the data set has no blocks: training takes samples of one shape,"
                                 " which from files of several extents only blocks have; write blocks { size: ... }"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDataset(const Dataset& dataset) {
  ADJOIN_RETURN_IF_ERROR(CheckName("a data set", dataset.name()));
  if (dataset.field().empty()) return InvalidSpec("it has no field");
  if (dataset.has_limit() && dataset.limit() < 1) {
    return AtField("limit", InvalidSpec("limit is ", dataset.limit(), "; it must be at least 1"));
  }
  std::set<std::string> names;
  for (int i = 0; i < dataset.field_size(); ++i) {
    const std::string at = absl::StrCat("field[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckField(dataset.field(i))));
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckVaryingExtents(dataset, dataset.field(i))));
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckSampleScaling(dataset, dataset.field(i))));
    if (!names.insert(dataset.field(i).name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another field has this name; names are unique"));
    }
  }
  return CheckSamples(dataset);
}

}  // namespace

absl::Status CheckDatasets(const JobSpec& spec) {
  std::set<std::string> names;
  for (int i = 0; i < spec.dataset_size(); ++i) {
    const std::string at = absl::StrCat("dataset[", i, "]");
    ADJOIN_RETURN_IF_ERROR(AtField(at, CheckDataset(spec.dataset(i))));
    if (spec.kind() == TRAIN && spec.train().dataset() == spec.dataset(i).name() && !spec.dataset(i).has_blocks()) {
      ADJOIN_RETURN_IF_ERROR(AtField(at, CheckTrainsOnOneShape(spec.dataset(i))));
    }
    if (!names.insert(spec.dataset(i).name()).second) {
      return AtField(absl::StrCat(at, ".name"), InvalidSpec("another data set has this name; names are unique"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
