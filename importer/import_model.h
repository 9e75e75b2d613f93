// A model of PyTorch as the layers of a job.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ModelFile file, OpenModelFile("model.pt2", {}));
//   ADJOIN_ASSIGN_OR_RETURN(ImportedModel model, ImportModel(*file.archive, file.graph, {}));
//   ADJOIN_RETURN_IF_ERROR(WriteWeights(*file.archive, model, "model.safetensors"));
//   std::string text = JobText(model, {.name = "model", .weights = "model.safetensors"});
//
// docs/import.md lists the operators. No LibTorch and no Python here. One thread.
#ifndef ADJOIN_IMPORTER_IMPORT_MODEL_H_
#define ADJOIN_IMPORTER_IMPORT_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/archive/model_archive.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

struct ImportOptions {
  // What the arguments of forward are called in the job: fields of its data sets. Empty: as in forward.
  std::vector<std::string> inputs;
  // Leaves a `custom` layer in place of what has no layer, and an input of one out that no layer computes.
  bool outline = false;
};

struct ImportedInput {
  std::string field;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;  // with the batch, which is kAnyExtent where the program does not fix it
};

struct ImportedModel {
  std::vector<Layer> layers;
  std::vector<ImportedWeight> weights;
  std::vector<ImportedInput> inputs;
  std::vector<std::string> outputs;  // layers
  DType compute = DType::kFloat32;
  std::vector<std::string> notes;  // with `outline`: what has no layer, a line each
};

// `graph`: of the archive's program or trace (model_file.h). Errors: kInvalidArgument: another number of `inputs` than
// forward has arguments; an operator without a layer or with arguments that no layer has: all of them, with the module
// of the first and how often; weights of several types.
absl::StatusOr<ImportedModel> ImportModel(const ModelArchive& archive, const OpGraph& graph,
                                          const ImportOptions& options);

// Writes a safetensors file with the job's names. What is at `path` is replaced when the file is whole.
// Errors: kInvalidArgument (a weight that the archive lacks); as ModelArchive::Read and SafetensorsWriter.
absl::Status WriteWeights(const ModelArchive& archive, const ImportedModel& model, const std::string& path);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_IMPORT_MODEL_H_
