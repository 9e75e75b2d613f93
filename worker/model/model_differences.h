// The differences between the tensors of a file of weights and a model's parameters. No LibTorch.
//
//   const ModelDifferences differences = CompareModel(file->entries(), {{"fc.weight", {10, 84}}});
//   ADJOIN_RETURN_IF_ERROR(CheckDifferences("w.safetensors", differences, /*strict=*/true));   // lists them all
//
// Any thread.
#ifndef ADJOIN_WORKER_MODEL_MODEL_DIFFERENCES_H_
#define ADJOIN_WORKER_MODEL_MODEL_DIFFERENCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/model/safetensors.h"

namespace adjoin {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

struct ModelDifferences {
  std::vector<std::string> missing;    // parameters that are not in the file
  std::vector<std::string> extra;      // tensors of the file that are no parameter
  std::vector<std::string> misshaped;  // "fc1.weight: 120x400 in the model, 10x84 in the file"
  int64_t fitting = 0;                 // parameters that are in the file in their shape
  bool empty() const { return missing.empty() && extra.empty() && misshaped.empty(); }
  // "missing: ...; not in the model: ...; other shapes: ..."
  std::string ToString() const;
};

ModelDifferences CompareModel(const std::vector<SafetensorsEntry>& file, const std::vector<NamedShape>& model);

// Errors: kInvalidArgument that lists all differences where `strict`; else where nothing fits.
absl::Status CheckDifferences(const std::string& path, const ModelDifferences& differences, bool strict);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_MODEL_MODEL_DIFFERENCES_H_
