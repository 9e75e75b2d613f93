// The tensors of a model's file, by their names in PyTorch.
//
//   const ArchivedTensor* weight = archive.Find("conv1.weight");
//   ADJOIN_RETURN_IF_ERROR(archive.Read(*weight, [&](const char* data, int64_t bytes) { ... }));
//
// One thread.
#ifndef ADJOIN_IMPORTER_ARCHIVE_MODEL_ARCHIVE_H_
#define ADJOIN_IMPORTER_ARCHIVE_MODEL_ARCHIVE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "importer/archive/tensor_pickle.h"
#include "importer/archive/zip_reader.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

// A tensor of which every element is known to be in the file.
struct ArchivedTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape, stride;  // in elements
  int64_t offset = 0;                  // in elements
  FileRange storage;
  uint32_t crc = 0;  // of the storage, as the archive says; 0: it does not

  int64_t Elements() const;
};

class ModelArchive {
 public:
  virtual ~ModelArchive() = default;
  ModelArchive(const ModelArchive&) = delete;
  ModelArchive& operator=(const ModelArchive&) = delete;

  const std::string& path() const { return file_->path(); }
  // Parameters, buffers and constants, by their names in PyTorch.
  const std::map<std::string, ArchivedTensor>& tensors() const { return tensors_; }
  const ArchivedTensor* Find(const std::string& name) const;  // null where there is none

  // Passes the elements, row-major, in pieces of at most a MiB. Before the first one of a storage is read, all of it is
  // compared with its checksum. Errors: kDataLoss (a wrong checksum); as FileRange::ReadAt; those of `take`.
  absl::Status Read(const ArchivedTensor& tensor, const std::function<absl::Status(const char*, int64_t)>& take) const;

 protected:
  // `right` is what messages about a damaged file call the right one.
  ModelArchive(std::unique_ptr<ArchiveFile> file, std::string right)
      : file_(std::move(file)), right_(std::move(right)) {}
  const ArchiveFile& file() const { return *file_; }
  // Takes a tensor as a view of its storage; null: the archive has none such. Errors: kDataLoss: it is not within its
  // storage, or is there twice.
  absl::Status Add(const StoredTensor& claim, const ZipEntry* storage);

 private:
  absl::Status CheckStorage(const ArchivedTensor& tensor) const;

  const std::unique_ptr<ArchiveFile> file_;
  const std::string right_;
  std::map<std::string, ArchivedTensor> tensors_;
  mutable std::set<int64_t> checked_;  // where storages begin whose checksum is right
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_MODEL_ARCHIVE_H_
