// A model in a file of either kind that PyTorch writes: an archive of torch.export.save, or one of torch.jit.save.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile("model.pt2", {}));
//   ADJOIN_ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(*file.archive, file.graph, {}));
#ifndef ADJOIN_IMPORTER_MODEL_FILE_H_
#define ADJOIN_IMPORTER_MODEL_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "importer/archive/model_archive.h"
#include "importer/graph/op_graph.h"
#include "importer/torchscript/script_inliner.h"

namespace adjoin {

struct ModelFile {
  std::unique_ptr<ModelArchive> archive;
  OpGraph graph;
};

// `examples`: what the model was traced with, a shape for each argument; empty for an archive of torch.export.save,
// which tells them. Errors: as Pt2Archive::Open and ReadOpGraph, or as ScriptArchive::Open and InlineScript;
// kInvalidArgument: examples for an archive that tells them.
absl::StatusOr<ModelFile> OpenModelFile(const std::string& path, const std::vector<ExampleInput>& examples);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_MODEL_FILE_H_
