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
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/archive/model_archive.h"
#include "importer/archive/zip_reader.h"

namespace adjoin {

class Pt2Archive : public ModelArchive {
 public:
  static constexpr int64_t kMaxProgramBytes = 32 << 20;
  static constexpr int kMaxDepth = 64;  // of JSON

  // Errors: as ArchiveFile::Open and ZipReader::Open; kInvalidArgument (not an archive of torch.export.save, a big
  // endian one, several models, a pickle of other things than tensors); kDataLoss (not JSON, nested more deeply than
  // kMaxDepth, a tensor that does not lie in its storage).
  static absl::StatusOr<std::unique_ptr<Pt2Archive>> Open(const std::string& path);

  const nlohmann::json& program() const { return program_; }

 private:
  explicit Pt2Archive(std::unique_ptr<ArchiveFile> file)
      : ModelArchive(std::move(file), "the archive as torch.export.save wrote it") {}
  absl::Status ReadOld(const ZipReader& zip, const std::string& folder);
  absl::Status ReadNew(const ZipReader& zip, const std::string& folder);
  absl::Status ReadTorchSave(const ZipEntry& entry);
  absl::Status ReadIndex(const ZipReader& zip, const std::string& config, const std::string& folder);

  nlohmann::json program_;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_PT2_ARCHIVE_H_
