// Layers' outputs over a whole data set, written to files as they are computed.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto predictor, Predictor::Create(plan, &communicator, &parameters, data_root,
//                                                             [&] { return attempt_folder; }, registry));
//   while (!predictor->done()) ADJOIN_RETURN_IF_ERROR(predictor->RunStep());                 // on every rank
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<std::string> files, predictor->Finish());            // on every rank
//
// Each rank writes the cells that the plan gives it (ProgramPlan.output) into files that all share: rank 0 makes a file
// in its full size, the others open it. "npy" and "hdf5": `<layer>.npy` or `<layer>.h5`, [samples, ...]. "nifti":
// `<layer>-<sample>.nii` for each sample, from 0, [z, y, x] or with channels [c, z, y, x], at the position in space
// (the affine) of the sample's input where that is a NIfTI file of the same extents. Values have the layer's type
// (bfloat16: float32); with Predict.classes they are the index of the largest value along dim 1, as uint8, without dim
// 1.
// Whole volumes of different extents are predicted one at a time, those of the same extents after each other, and
// have a file for each sample in all formats: `<layer>-<sample>.npy`, [channels, ...].
//
// Nothing is kept for a backward pass; a value is freed after its last reader. One thread.
#ifndef ADJOIN_WORKER_TRAINING_PREDICTOR_H_
#define ADJOIN_WORKER_TRAINING_PREDICTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <google/protobuf/repeated_field.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/network/network.h"
#include "layers/network/parameters.h"
#include "layers/registry.h"
#include "primitives/comm/communicator.h"
#include "primitives/geometry/box.h"
#include "proto/plan.pb.h"
#include "worker/data/array_format.h"
#include "worker/data/array_writer.h"
#include "worker/data/cell_type.h"
#include "worker/samples/field_source.h"
#include "worker/samples/shard_reader.h"
#include "worker/training/extent_networks.h"
#include "worker/training/session_activity.h"

namespace adjoin {

class Predictor {
 public:
  // Returns the folder of the files as this rank sees it. Called once, on other ranks than 0 after rank 0 has made
  // files there.
  using FindFolder = std::function<absl::StatusOr<std::string>()>;

  // The plan has a program "predict". `communicator` and `parameters` must outlive it, and so must `activity`, which is
  // told when it reads and writes files and may be null. `planning`: as of Evaluator::Create.
  // Errors: kInvalidArgument (a layer whose output the format cannot hold); as Network::Create and ShardReader::Create.
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(const Plan& plan, Communicator* communicator,
                                                           Parameters* parameters, const DataFolder& data,
                                                           FindFolder find_folder, const LayerRegistry& registry,
                                                           SessionActivity* activity = nullptr,
                                                           const ExtentPlanning& planning = {});

  int64_t total_steps() const { return total_steps_; }
  int64_t steps_done() const { return step_; }
  bool done() const { return step_ >= total_steps_; }

  // Runs the next batch, or nothing where any rank was asked to stop. Collective. `stop_asked`: this rank was. Errors:
  // those of the data, a layer or a movement; as ArrayWriter; kNotFound where this rank does not see the files of rank
  // 0.
  absl::Status RunStep(bool stop_asked = false);
  // True where any rank was asked to stop before the last step: none of them has done it.
  bool stop_asked() const { return stop_asked_; }

  // Once done: waits until all ranks' cells are on the disk and gives the files their names. Returns the names, without
  // the folder, on rank 0. Collective. Errors: as ArrayWriter; those of movements.
  absl::StatusOr<std::vector<std::string>> Finish();

 private:
  // One ProgramPlan.output.
  struct Output {
    std::string layer;
    CellType type;
    std::vector<int64_t> sample;  // a sample's shape in the file
  };
  struct File {
    std::string name;
    int64_t sample;  // 0 where a file holds all
    std::unique_ptr<ArrayWriter> writer;
  };

  Predictor(const Plan& plan, const ArrayFormat* format, Communicator* communicator, std::string data_root,
            FindFolder find_folder)
      : predict_(plan.spec().predict()),
        format_(*format),
        communicator_(communicator),
        data_root_(std::move(data_root)),
        find_folder_(std::move(find_folder)) {}
  bool Volumes() const { return !format_.volume_dims.empty(); }  // the format's files are one volume each
  bool PerSample() const { return Volumes() || own_ != nullptr; }
  struct Batch {
    Network* network;
    int64_t first;
  };
  absl::StatusOr<Batch> NextBatch();
  bool Creates() const { return communicator_->rank() == 0; }
  absl::Status AddOutputs(const ProgramPlan& program);
  void FindInputs(const Plan& plan, const ProgramPlan& program);
  std::string FileName(const Output& output, int64_t sample) const;
  // Returns the header of the sample's NIfTI input, whose affine the output takes over; empty where its cells differ.
  absl::StatusOr<std::string> SpaceOf(const Output& output, int64_t sample) const;
  // Warns once, where the samples are NIfTI files and an output has other cells.
  void WarnOfNoSpace(const Output& output, int64_t sample);
  absl::StatusOr<File> OpenFile(const Output& output, int64_t sample);
  absl::Status CreateFiles(int64_t first, int64_t count);
  absl::Status WriteOutput(const OutputPlan& plan, int index, int64_t first, at::Tensor value);
  absl::Status WriteCells(int index, int64_t sample, const Box& box, const void* cells);
  absl::Status EndBatch();
  absl::Status PublishWritten();

  const Predict predict_;
  const ArrayFormat& format_;
  Communicator* const communicator_;
  const std::string data_root_;
  const FindFolder find_folder_;
  std::string folder_;  // empty until it is found
  SessionActivity* activity_ = nullptr;
  std::unique_ptr<ShardReader> data_;
  std::unique_ptr<ExtentNetworks> own_;  // for samples with extents of their own; then the next two are null
  std::unique_ptr<Network> full_;
  std::unique_ptr<Network> tail_;                           // for a smaller last batch; null where there is none
  google::protobuf::RepeatedPtrField<std::string> inputs_;  // the samples' NIfTI files, if they are
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
  int64_t samples_ = 0;
  std::vector<Output> outputs_;
  std::map<std::pair<int, int64_t>, File> open_;  // by output, and by sample where each sample has a file (else 0)
  std::vector<File> written_;  // on rank 0: files of the batch before, which other ranks may still write
  std::vector<std::pair<int64_t, std::string>> names_;  // on rank 0: all published files', with their samples
  int64_t total_steps_ = 0;
  int64_t step_ = 0;
  bool stop_asked_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRAINING_PREDICTOR_H_
