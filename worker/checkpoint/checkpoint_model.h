// The model in a checkpoint, as the bytes of one safetensors file with PyTorch's names, whatever ranks wrote it.
// Nothing is ever in memory but one slab of one tensor.
//
//   CheckpointModel::Source source = {.files = &files, .dir = "lenet5/ckpt", .tag = 77, .model = {{"fc.weight", {10,
//   84}}}}; ADJOIN_ASSIGN_OR_RETURN(auto model, CheckpointModel::Open(source, {.best = true})); while (model->more()) {
//     ADJOIN_ASSIGN_OR_RETURN(std::string bytes, model->Next());    // may be empty
//   }
//
// Every byte of the model is checked against its checksum before it is handed out. The job may go on meanwhile and
// remove the checkpoint: then Next returns an error that says so. One thread.
#ifndef ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_MODEL_H_
#define ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/file_system.h"
#include "worker/checkpoint/manifest.h"
#include "worker/model/safetensors.h"

namespace adjoin {

class CheckpointModel {
 public:
  struct Source {
    FileSystem* files = nullptr;  // outlives the model
    std::string dir;
    uint64_t tag = 0;           // of the job; checkpoints of others are not looked at
    Retention validation = {};  // keep_best: the metric that Choice::best is meant by
    // Names and shapes of a state_dict, in the file's order.
    std::vector<std::pair<std::string, std::vector<int64_t>>> model = {};
  };
  // The newest checkpoint of `step`, or the best one, or the newest of all.
  struct Choice {
    bool best = false;
    int64_t step = 0;
    bool newest = false;
  };

  // Returns the manifest of that checkpoint; `source.model` is not used.
  // Errors: kNotFound (no such checkpoint, or `choice` is none: lists the steps that there are), those of ReadManifest.
  static absl::StatusOr<Manifest> Find(const Source& source, const Choice& choice);

  // Errors: those of Find; kDataLoss (it has not the tensors of the model).
  static absl::StatusOr<std::unique_ptr<CheckpointModel>> Open(Source source, const Choice& choice);

  int64_t step() const { return manifest_.name.step; }
  int64_t bytes() const { return bytes_; }  // of the whole file
  bool more() const { return header_at_ < header_.size() || tensor_ < entries_.size(); }
  // Returns the next bytes; none where it has only checked what comes next.
  // Errors: kAborted (the checkpoint was removed meanwhile); kDataLoss (damaged); as FileSystem.
  absl::StatusOr<std::string> Next();

 private:
  CheckpointModel(Source source, Manifest manifest) : source_(std::move(source)), manifest_(std::move(manifest)) {}
  absl::Status CheckTensors();
  absl::StatusOr<std::string> NextOfTensor();

  const Source source_;
  const Manifest manifest_;
  std::vector<SafetensorsEntry> entries_;
  std::string header_;
  int64_t bytes_ = 0;
  size_t header_at_ = 0;  // of it, the next byte
  size_t tensor_ = 0;     // the one under way
  size_t verified_ = 0;   // pieces of it
  int64_t cell_ = 0;      // of it, in row-major order: the next one
};

// Returns the largest box of a row-major tensor that begins with the cell number `first`, is one run of neighbouring
// cells, and has at most `most` of them (but at least one).
Box SlabFrom(const std::vector<int64_t>& shape, int64_t first, int64_t most);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_CHECKPOINT_CHECKPOINT_MODEL_H_
