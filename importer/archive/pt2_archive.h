// A model that torch.export.save wrote: its graph as JSON, and its tensors.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Pt2Archive> archive, Pt2Archive::Open("model.pt2"));
//   archive->program();                                       // {"graph_module": {"graph": ...}, ...}
//   const ArchivedTensor* weight = archive->Find("conv1.weight");
//   ADJOIN_RETURN_IF_ERROR(archive->Read(*weight, [&](const char* data, int64_t bytes) { ... }));
//
// Reads what PyTorch 2.4 to 2.6 write (serialized_exported_program.json beside two archives of torch.save) and what
// newer releases write (models/NAME.json, data/weights/ with an index). Source: docs/source/export/pt2_archive.md and
// torch/export/__init__.py of PyTorch. One thread.
#ifndef ADJOIN_IMPORTER_ARCHIVE_PT2_ARCHIVE_H_
#define ADJOIN_IMPORTER_ARCHIVE_PT2_ARCHIVE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

class Pt2Archive {
 public:
  static constexpr int64_t kMaxProgramBytes = 32 << 20;
  static constexpr int kMaxDepth = 64;  // of JSON

  // Errors: as ArchiveFile::Open and ZipReader::Open; kInvalidArgument (not an archive of torch.export.save, a big
  // endian one, several models, a pickle of other things than tensors); kDataLoss (not JSON, nested more deeply than
  // kMaxDepth, a tensor that does not lie in its storage).
  static absl::StatusOr<std::unique_ptr<Pt2Archive>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const nlohmann::json& program() const { return program_; }
  // Parameters, buffers and constants, by their names in PyTorch.
  const std::map<std::string, ArchivedTensor>& tensors() const { return tensors_; }
  const ArchivedTensor* Find(const std::string& name) const;  // null where there is none

  // Passes the elements, row-major, in pieces of at most a MiB. Before the first one of a storage is read, all of it is
  // compared with its checksum. Errors: kDataLoss (a wrong checksum); as FileRange::ReadAt; those of `take`.
  absl::Status Read(const ArchivedTensor& tensor, const std::function<absl::Status(const char*, int64_t)>& take) const;

 private:
  explicit Pt2Archive(std::unique_ptr<ArchiveFile> file) : file_(std::move(file)) {}
  absl::Status ReadOld(const ZipReader& zip, const std::string& folder);
  absl::Status ReadNew(const ZipReader& zip, const std::string& folder);
  absl::Status ReadTorchSave(const ZipEntry& entry);
  absl::Status ReadIndex(const ZipReader& zip, const std::string& config, const std::string& folder);
  absl::Status Add(const StoredTensor& claim, const ZipEntry* storage);
  absl::Status CheckStorage(const ArchivedTensor& tensor) const;

  const std::unique_ptr<ArchiveFile> file_;
  nlohmann::json program_;
  std::map<std::string, ArchivedTensor> tensors_;
  mutable std::set<int64_t> checked_;  // where storages begin whose checksum is right
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_PT2_ARCHIVE_H_
