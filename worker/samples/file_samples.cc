#include "worker/samples/file_samples.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/spec/field_files.h"
#include "worker/samples/copy_cells.h"
#include "worker/samples/reshaped_box.h"
#include "worker/samples/sample_rule.h"

namespace adjoin {
namespace {

constexpr size_t kMostOpen = 16;

// The dims of the array are the samples and the dims of one, but for extents of 1; else there is no telling.
std::vector<int64_t> ChunkOfSample(const ArrayHeader& header, int64_t samples, const std::vector<int64_t>& shape) {
  std::vector<int64_t> seen = {samples};
  seen.insert(seen.end(), shape.begin(), shape.end());
  std::vector<int64_t> chunk;
  size_t own = 0;
  const auto skip_ones = [&] {
    while (own < header.shape.size() && header.shape[own] == 1) ++own;
  };
  for (int64_t extent : seen) {
    if (extent == 1) {
      chunk.push_back(1);
      continue;
    }
    skip_ones();
    if (own >= header.chunk.size() || header.shape[own] != extent) return {};
    chunk.push_back(header.chunk[own++]);
  }
  skip_ones();
  if (own < header.shape.size()) return {};
  chunk.erase(chunk.begin());
  return chunk;
}

}  // namespace

FileSamples::FileSamples(const Field& field, const DataFolder& data)
    : root_(data.root),
      cache_dir_(data.cache_dir),
      cache_bytes_(data.cache_bytes),
      format_(SourceName(field)),
      object_(FilesOf(field)->object()) {}

ArrayFileOptions FileSamples::OptionsOf(const std::string& name) const {
  ArrayFileOptions options;
  options.format = format_;
  options.object = object_;
  options.name = name;
  options.cache_dir = cache_dir_;
  options.cache_bytes = cache_bytes_;
  options.stop = &stop_;
  return options;
}

absl::StatusOr<std::unique_ptr<FieldSource>> FileSamples::Open(const Field& field,
                                                               const std::vector<int64_t>& sample_shape,
                                                               const DataFolder& data) {
  const adjoin::File* named = FilesOf(field);
  if (named == nullptr || named->path().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", field.name(), "\" names no file; right would be one path or more"));
  }
  std::unique_ptr<FileSamples> all(new FileSamples(field, data));
  for (const std::string& name : named->path()) {
    ADJOIN_ASSIGN_OR_RETURN(const HeldPath held, HoldBelow(data.root, name));
    ADJOIN_ASSIGN_OR_RETURN(ArrayHeader header, ReadArrayHeader(held.path(), all->OptionsOf(name)));
    const absl::StatusOr<int64_t> samples = SamplesIn(header, sample_shape);
    if (!samples.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", std::string(samples.status().message())));
    }
    ADJOIN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, SampleShapeIn(header, sample_shape));
    std::vector<int64_t> chunk = ChunkOfSample(header, *samples, shape);
    all->files_.push_back({.name = name,
                           .header = std::move(header),
                           .first = all->samples_,
                           .samples = *samples,
                           .shape = std::move(shape),
                           .chunk = std::move(chunk)});
    all->samples_ += *samples;
  }
  return all;
}

const FileSamples::File& FileSamples::FileOf(int64_t sample, int64_t* within) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), sample,
                                      [](int64_t number, const File& file) { return number < file.first; });
  const File& file = *std::prev(after);
  if (within != nullptr) *within = sample - file.first;
  return file;
}

std::string FileSamples::NameOf(int64_t sample) const {
  const File& file = FileOf(sample, &sample);
  return file.samples == 1 ? file.name : absl::StrCat(file.name, ", sample ", sample, " from 0");
}

std::optional<BoxCut> FileSamples::CutOf(int64_t sample, const Box& box) const {
  const File& file = FileOf(sample);
  if (file.header.chunk.empty()) {
    if (!file.header.fortran) return BoxCut::FirstDim(box);
    for (int dim = box.dims() - 1; dim >= 0; --dim) {
      if (box[dim].size() > 1) return BoxCut{dim, box[dim].lo + box[dim].size() / 2};
    }
    return std::nullopt;
  }
  for (int dim = 0; dim < static_cast<int>(file.chunk.size()); ++dim) {
    // The end of a chunk that is nearest below the middle, or the first one above.
    const int64_t below = (box[dim].lo + box[dim].size() / 2) / file.chunk[dim] * file.chunk[dim];
    const int64_t at = below > box[dim].lo ? below : below + file.chunk[dim];
    if (at < box[dim].hi) return BoxCut{dim, at};
  }
  return std::nullopt;
}

absl::StatusOr<ArrayFile*> FileSamples::Opened(size_t index) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const OpenFile& open) { return open.index == index; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front().file.get();
  }
  const File& file = files_[index];
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath held, HoldBelow(root_, file.name));
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArrayFile> opened, ArrayFile::Open(held.path(), OptionsOf(file.name)));
  if (opened->header().shape != file.header.shape) {
    return absl::DataLossError(absl::StrCat(file.name, ": has become ", opened->header().ToString(), "; it was ",
                                            absl::StrJoin(file.header.shape, "x")));
  }
  if (open_.size() == kMostOpen) {
    bytes_of_closed_ += open_.back().file->bytes_read();
    open_.pop_back();
  }
  open_.push_front({index, std::move(opened)});
  return open_.front().file.get();
}

absl::Status FileSamples::ReadWithin(size_t index, int64_t sample, int64_t count, const Box& box, double* out) {
  const File& file = files_[index];
  std::vector<int64_t> seen = {file.samples};
  seen.insert(seen.end(), file.shape.begin(), file.shape.end());
  std::vector<Interval> wanted = {{sample, sample + count}};
  for (int dim = 0; dim < box.dims(); ++dim) wanted.push_back(box[dim]);
  const ReshapedBox reshaped = BoxesUnder(seen, Box(std::move(wanted)), file.header.shape);
  if (reshaped.parts.empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(ArrayFile* const opened, Opened(index));
  if (reshaped.parts.size() == 1) return opened->Read(reshaped.parts[0].box, out);
  const std::vector<int64_t> strides = RowMajorStrides(reshaped.extents);
  for (const ReshapedPart& part : reshaped.parts) {
    part_.resize(part.box.Volume());
    ADJOIN_RETURN_IF_ERROR(opened->Read(part.box, part_.data()));
    int64_t at = 0;
    for (size_t dim = 0; dim < strides.size(); ++dim) at += part.at[dim] * strides[dim];
    CopyCells(part_.data(), part.extents, strides, out + at);
  }
  return absl::OkStatus();
}

absl::Status FileSamples::Read(int64_t sample, int64_t count, const Box& box, double* out) {
  if (sample < 0 || count < 0 || count > samples_ - sample) {
    return absl::OutOfRangeError(absl::StrCat(files_[0].name, ": no samples ", sample, " to ", sample + count - 1,
                                              "; there are ", samples_, " from 0"));
  }
  for (size_t index = 0; count > 0; sample -= files_[index++].samples) {
    if (sample >= files_[index].samples) continue;
    const int64_t here = std::min(count, files_[index].samples - sample);
    ADJOIN_RETURN_IF_ERROR(ReadWithin(index, sample, here, box, out));
    out += here * box.Volume();
    sample += here;
    count -= here;
  }
  return absl::OkStatus();
}

int64_t FileSamples::bytes_read() const {
  int64_t bytes = bytes_of_closed_;
  for (const OpenFile& open : open_) bytes += open.file->bytes_read();
  return bytes;
}

}  // namespace adjoin
