#include "worker/data/hdf5_chunk.h"

#include <zlib.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr int64_t kChecksumBytes = 4;  // fletcher32's, which follows its data

// Returns how many bytes a zlib stream inflates to, at most `most` + 1; -1 where it is not a sound stream.
int64_t InflatedBytes(const unsigned char* stream, int64_t size, int64_t most) {
  z_stream zlib = {};
  if (inflateInit(&zlib) != Z_OK) return -1;
  std::vector<unsigned char> scratch(1 << 16);
  int64_t done = 0;
  int code = Z_OK;
  while (code == Z_OK && done <= most) {
    // zlib counts in 32 bits.
    if (zlib.avail_in == 0) {
      zlib.next_in = const_cast<unsigned char*>(stream);
      zlib.avail_in = static_cast<uInt>(std::min<int64_t>(size, 1 << 30));
      stream += zlib.avail_in;
      size -= zlib.avail_in;
    }
    zlib.next_out = scratch.data();
    zlib.avail_out = static_cast<uInt>(scratch.size());
    code = inflate(&zlib, Z_NO_FLUSH);
    done += static_cast<int64_t>(scratch.size() - zlib.avail_out);
  }
  inflateEnd(&zlib);
  if (done > most) return most + 1;
  return code == Z_STREAM_END ? done : -1;
}

// Returns the filters in the order in which they were applied, without those that `mask` excludes.
std::vector<H5Z_filter_t> FiltersOf(hid_t creation, uint32_t mask) {
  std::vector<H5Z_filter_t> filters;
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (i >= 32 || (mask >> i & 1) == 0) filters.push_back(filter);
  }
  return filters;
}

}  // namespace

absl::StatusOr<bool> CheckChunk(const Hdf5Lock&, hid_t data_set, const std::vector<hsize_t>& at, int64_t bytes) {
  const Hdf5Id creation(H5Dget_create_plist(data_set), H5Pclose);
  if (FiltersOf(creation.get(), 0).empty()) return true;
  hsize_t stored = 0;
  if (H5Dget_chunk_storage_size(data_set, at.data(), &stored) < 0 || stored == 0) return true;
  const Hdf5Id file(H5Iget_file_id(data_set), H5Fclose);
  hsize_t file_bytes = 0;
  if (H5Fget_filesize(file.get(), &file_bytes) < 0 || stored > file_bytes) {
    return absl::DataLossError(absl::StrCat("claims ", stored, " bytes, more than the file has"));
  }
  unsigned options = 0;  // one of them leaves the chunks at the edges without filters
  if (H5Pget_chunk_opts(creation.get(), &options) < 0 || options != 0) return false;
  std::vector<unsigned char> raw(stored);
  uint32_t mask = 0;
  if (H5Dread_chunk(data_set, H5P_DEFAULT, at.data(), &mask, raw.data()) < 0) return true;
  int64_t after = static_cast<int64_t>(stored);  // bytes that the filter at hand had written
  int64_t added = 0;                             // bytes of checksums among what was inflated
  bool inflated = false;
  const std::vector<H5Z_filter_t> filters = FiltersOf(creation.get(), mask);
  for (auto filter = filters.rbegin(); filter != filters.rend(); ++filter) {
    if (*filter == H5Z_FILTER_FLETCHER32) {
      (inflated ? added : after) += inflated ? kChecksumBytes : -kChecksumBytes;
    } else if (*filter == H5Z_FILTER_SHUFFLE) {
      // Shuffled bytes cannot be inflated before they are put back in order.
      if (!inflated && std::count(filter, filters.rend(), H5Z_FILTER_DEFLATE) > 0) return false;
    } else if (*filter == H5Z_FILTER_DEFLATE && !inflated) {
      inflated = true;
      if (after <= 0) return true;
      const int64_t most = bytes + kChecksumBytes * static_cast<int64_t>(filters.size());
      after = InflatedBytes(raw.data(), after, most);
      if (after < 0) return true;
    } else {
      return std::count(filters.begin(), filters.end(), H5Z_FILTER_DEFLATE) == 0;
    }
  }
  if (after == bytes + added) return true;
  return absl::DataLossError(absl::StrCat("is corrupt: unpacked it has ", after > bytes + added ? "more" : "less",
                                          " than its ", bytes, " bytes"));
}

}  // namespace adjoin
