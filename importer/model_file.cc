#include "importer/model_file.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/archive/pt2_archive.h"
#include "importer/archive/zip_reader.h"
#include "importer/torchscript/script_archive.h"

namespace adjoin {
namespace {

// False for what is no zip archive at all, which Pt2Archive has the message about.
absl::StatusOr<bool> IsScript(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArchiveFile> file, ArchiveFile::Open(path));
  const auto zip = ZipReader::Open(file->whole(), {true, "the archive as torch.jit.save wrote it"});
  return zip.ok() && ScriptArchive::Is(*zip);
}

}  // namespace

absl::StatusOr<ModelFile> OpenModelFile(const std::string& path, const std::vector<ExampleInput>& examples) {
  ADJOIN_ASSIGN_OR_RETURN(const bool script, IsScript(path));
  ModelFile model;
  if (script) {
    ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ScriptArchive> archive, ScriptArchive::Open(path));
    ADJOIN_ASSIGN_OR_RETURN(model.graph, InlineScript(*archive, examples));
    model.archive = std::move(archive);
    return model;
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Pt2Archive> archive, Pt2Archive::Open(path));
  if (!examples.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": --example-shape is for files of torch.jit.save; an archive of torch.export.save tells ",
                     "the extents of its arguments"));
  }
  ADJOIN_ASSIGN_OR_RETURN(model.graph, ReadOpGraph(archive->program(), path));
  model.archive = std::move(archive);
  return model;
}

}  // namespace adjoin
