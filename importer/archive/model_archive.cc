#include "importer/archive/model_archive.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/shown_name.h"

namespace adjoin {
namespace {

constexpr int64_t kPiece = 1 << 20;

}  // namespace

int64_t ArchivedTensor::Elements() const {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

absl::Status ModelArchive::Add(const StoredTensor& claim, const ZipEntry* storage) {
  const std::string shown = PrintableText(claim.name, kMaxShownName);
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path(), ": tensor ", shown, " ", what));
  };
  if (storage == nullptr) {
    return damaged(absl::StrCat("has no data: entry ", PrintableText(claim.storage, kMaxShownName), " is missing"));
  }
  if (storage->deflated) return damaged("is compressed; right would be a storage as PyTorch writes it");
  int64_t elements = 1, last = claim.offset;
  bool fits = claim.offset >= 0;
  for (size_t i = 0; i < claim.shape.size(); ++i) {
    const int64_t extent = claim.shape[i], stride = claim.stride[i];
    int64_t reach = 0;
    fits = fits && extent >= 0 && stride >= 0 && !__builtin_mul_overflow(elements, extent, &elements) &&
           !__builtin_mul_overflow(std::max<int64_t>(extent - 1, 0), stride, &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  // A stride of 0 would let a file of a few bytes claim any number of elements.
  const int64_t available = storage->data.bytes / SizeOf(claim.dtype);
  if (!fits || elements > available || (elements > 0 && last >= available)) {
    return damaged(absl::StrCat("claims elements outside of its ", storage->data.bytes, " bytes"));
  }
  ArchivedTensor tensor;
  tensor.dtype = claim.dtype;
  tensor.shape = claim.shape;
  tensor.stride = claim.stride;
  tensor.offset = claim.offset;
  tensor.storage = storage->data;
  tensor.crc = storage->crc;
  if (!tensors_.emplace(claim.name, std::move(tensor)).second) {
    return damaged("is there twice");
  }
  return absl::OkStatus();
}

const ArchivedTensor* ModelArchive::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

absl::Status ModelArchive::CheckStorage(const ArchivedTensor& tensor) const {
  // PyTorch writes none where torch.serialization.set_crc32_options(False) says so.
  if (tensor.crc == 0 || checked_.count(tensor.storage.begin) > 0) return absl::OkStatus();
  std::vector<char> piece;
  uLong crc = crc32_z(0, nullptr, 0);
  for (int64_t at = 0; at < tensor.storage.bytes; at += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, tensor.storage.bytes - at)));
    ADJOIN_RETURN_IF_ERROR(tensor.storage.ReadAt(at, piece.data(), static_cast<int64_t>(piece.size())));
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
  }
  if (crc != tensor.crc) {
    return absl::DataLossError(absl::StrCat(path(), ": weights at byte ", tensor.storage.begin,
                                            " have a wrong checksum: the file is damaged; right would be ", right_));
  }
  checked_.insert(tensor.storage.begin);
  return absl::OkStatus();
}

absl::Status ModelArchive::Read(const ArchivedTensor& tensor,
                                const std::function<absl::Status(const char*, int64_t)>& take) const {
  const int64_t size = SizeOf(tensor.dtype), elements = tensor.Elements();
  if (elements == 0) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(CheckStorage(tensor));
  // The last dims whose elements follow each other are one run.
  int64_t run = 1;
  int outer = static_cast<int>(tensor.shape.size());
  while (outer > 0 && (tensor.shape[outer - 1] == 1 || tensor.stride[outer - 1] == run)) run *= tensor.shape[--outer];
  std::vector<int64_t> at(static_cast<size_t>(outer), 0);
  std::vector<char> piece;
  for (int64_t done = 0; done < elements; done += run) {
    int64_t begin = tensor.offset;
    for (int d = 0; d < outer; ++d) begin += at[d] * tensor.stride[d];
    for (int64_t part = 0; part < run * size; part += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, run * size - part)));
      ADJOIN_RETURN_IF_ERROR(
          tensor.storage.ReadAt(begin * size + part, piece.data(), static_cast<int64_t>(piece.size())));
      ADJOIN_RETURN_IF_ERROR(take(piece.data(), static_cast<int64_t>(piece.size())));
    }
    for (int d = outer - 1; d >= 0 && ++at[d] == tensor.shape[d]; --d) at[d] = 0;
  }
  return absl::OkStatus();
}

}  // namespace adjoin
