#include "verify/sample_file.h"

#include <cerrno>

#include <sys/mman.h>

#include <memory>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isnan.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errno_status.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "importer/archive/shown_name.h"
#include "importer/archive/zip_reader.h"
#include "primitives/geometry/box.h"
#include "worker/data/array_file.h"
#include "worker/data/open_file.h"

namespace adjoin {
namespace {

constexpr char kEnding[] = ".npy";

// "2, 0, 1", of the element `at` in row-major order.
std::string PositionText(at::IntArrayRef shape, int64_t at) {
  std::vector<int64_t> position(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; at /= shape[dim]) position[dim] = at % shape[dim];
  return absl::StrJoin(position, ", ");
}

// `shown`: what messages call the array.
absl::StatusOr<SampleArray> ArrayOf(const std::string& content, const std::string& shown) {
  // The readers of arrays read files.
  const UniqueFd memory(memfd_create("adjoin-sample", MFD_CLOEXEC));
  if (memory.get() < 0) return ErrnoStatus(errno, shown);
  ADJOIN_RETURN_IF_ERROR(WriteAt(shown, memory.get(), 0, content.data(), static_cast<int64_t>(content.size())));
  ArrayFileOptions options;
  options.format = "npy";
  options.name = shown;
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayFile> file,
                          ArrayFile::Open(absl::StrCat("/proc/self/fd/", memory.get()), options));
  const std::vector<int64_t>& shape = file->header().shape;
  SampleArray array;
  array.type = file->header().type;
  array.values = at::empty(shape, at::kDouble);
  std::vector<Interval> whole;
  for (const int64_t extent : shape) whole.push_back({0, extent});
  ADJOIN_RETURN_IF_ERROR(file->Read(Box(whole), array.values.data_ptr<double>()));
  if (array.values.numel() == 0) return absl::InvalidArgumentError(absl::StrCat(shown, ": is empty"));
  const at::Tensor nan = at::isnan(array.values);
  if (nan.any().item<bool>()) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, ": holds a NaN, at position (",
                     PositionText(shape, nan.view({-1}).to(at::kByte).argmax().item<int64_t>()),
                     "), with which nothing can be compared; right would be a sample whose outputs are numbers"));
  }
  return array;
}

}  // namespace

absl::StatusOr<std::vector<SampleArray>> ReadSampleFile(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveFile> file, ArchiveFile::Open(path));
  ADJOIN_ASSIGN_OR_RETURN(const ZipReader zip,
                          ZipReader::Open(file->whole(), {true, "a file of numpy.savez or numpy.savez_compressed"}));
  int64_t left = kMaxSampleBytes;
  for (const ZipEntry& entry : zip.entries()) {
    if (entry.bytes > left) {
      return absl::DataLossError(absl::StrCat(path, ": its arrays have more than ", kMaxSampleBytes,
                                              " bytes; right would be a sample of fewer elements in the batch"));
    }
    left -= entry.bytes;
  }
  std::vector<SampleArray> arrays;
  for (const ZipEntry& entry : zip.entries()) {
    const std::string shown = absl::StrCat(path, ": ", PrintableText(entry.name, kMaxShownName));
    if (!absl::EndsWith(entry.name, kEnding)) {
      return absl::InvalidArgumentError(
          absl::StrCat(shown, " is no array; right would be a file of numpy.savez, whose entries end in ", kEnding));
    }
    ADJOIN_ASSIGN_OR_RETURN(const std::string content, zip.ReadWhole(entry, entry.bytes));
    ADJOIN_ASSIGN_OR_RETURN(SampleArray array, ArrayOf(content, shown));
    array.name = entry.name.substr(0, entry.name.size() - (sizeof(kEnding) - 1));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

absl::Status BadSampleArray(const std::string& file, const std::string& array, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", PrintableText(array, kMaxShownName), " ", what));
}

}  // namespace adjoin
