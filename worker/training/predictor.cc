#include "worker/training/predictor.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "layers/rules/find_program.h"
#include "layers/rules/layout_proto.h"
#include "planner/checks/name_check.h"
#include "planner/spec/field_files.h"
#include "planner/spec/whole_volumes.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "primitives/status_exception.h"
#include "primitives/tape.h"
#include "primitives/tensor_device.h"
#include "worker/data/array_file.h"
#include "worker/data/array_formats.h"
#include "worker/data/path_rules.h"

namespace adjoin {
namespace {

constexpr char kProgram[] = "predict";
constexpr int kClassDim = 1;
constexpr absl::Duration kFailureOfOthers = absl::Seconds(5);  // within which a rank hears of another rank's failure
constexpr int kVolumeDims = 5;                                 // [samples, channels, z, y, x]

CellType CellTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return CellType::kFloat64;
    case DType::kInt64: return CellType::kInt64;
    case DType::kInt32: return CellType::kInt32;
    case DType::kUInt8:
    case DType::kBool: return CellType::kUInt8;
    default: return CellType::kFloat32;
  }
}

at::ScalarType TensorTypeOf(CellType type) {
  switch (type) {
    case CellType::kFloat64: return at::kDouble;
    case CellType::kInt64: return at::kLong;
    case CellType::kInt32: return at::kInt;
    case CellType::kUInt8: return at::kByte;
    default: return at::kFloat;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Create(const Plan& plan, Communicator* communicator,
                                                             Parameters* parameters, const DataFolder& data,
                                                             FindFolder find_folder, const LayerRegistry& registry,
                                                             SessionActivity* activity,
                                                             const ExtentPlanning& planning) {
  const ProgramPlan* full = FindProgram(plan, kProgram);
  if (full == nullptr) return absl::InvalidArgumentError("the plan has no program \"predict\"");
  ADJOIN_ASSIGN_OR_RETURN(const ArrayFormat* const format,
                          BuiltinArrayFormats().Written(plan.spec().predict().format()));
  std::unique_ptr<Predictor> predictor(new Predictor(plan, format, communicator, data.root, std::move(find_folder)));
  predictor->activity_ = activity;
  predictor->warn_ = data.warn;
  predictor->FindInputs(plan, *full);
  {
    const SessionActivity::Files files(activity);
    ADJOIN_ASSIGN_OR_RETURN(predictor->data_, ShardReader::Create(plan, full->dataset(), data, communicator->rank(),
                                                                  TensorDeviceOf(communicator->memory())));
  }
  predictor->samples_ = predictor->data_->samples();
  if (HasWholeVolumes(*FindDataset(plan.spec(), full->dataset()))) {
    ADJOIN_ASSIGN_OR_RETURN(predictor->own_, ExtentNetworks::Create(plan, kProgram, planning, communicator, parameters,
                                                                    registry, predictor->data_.get(), activity));
    predictor->total_steps_ = predictor->samples_;
    return predictor;
  }
  ADJOIN_RETURN_IF_ERROR(predictor->AddOutputs(*full));
  ADJOIN_ASSIGN_OR_RETURN(predictor->full_, Network::Create(plan, kProgram, communicator, parameters, registry));
  const std::string tail = absl::StrCat(kProgram, "_tail");
  if (FindProgram(plan, tail) != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(predictor->tail_, Network::Create(plan, tail, communicator, parameters, registry));
  }
  predictor->total_steps_ = predictor->samples_ / full->batch() + (predictor->tail_ != nullptr ? 1 : 0);
  return predictor;
}

absl::Status Predictor::AddOutputs(const ProgramPlan& program) {
  outputs_.clear();
  for (const OutputPlan& plan : program.output()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(plan.layout()));
    Output output;
    output.layer = program.value(plan.value()).name();
    output.type = predict_.classes() ? CellType::kUInt8 : CellTypeOf(layout.dtype());
    for (int dim = 1; dim < layout.dims(); ++dim) {
      const bool one_channel = Volumes() && layout.dims() == kVolumeDims && layout.shape()[kClassDim] == 1;
      if (dim == kClassDim && (predict_.classes() || one_channel)) continue;
      output.sample.push_back(layout.shape()[dim]);
    }
    outputs_.push_back(std::move(output));
  }
  return absl::OkStatus();
}

void Predictor::FindInputs(const Plan& plan, const ProgramPlan& program) {
  for (const Dataset& dataset : plan.spec().dataset()) {
    if (dataset.name() != program.dataset()) continue;
    for (const ValuePlan& value : program.value()) {
      for (const Field& field : dataset.field()) {
        if (SourceName(field) != format_.name || field.name() != value.field() || !inputs_.empty()) continue;
        inputs_ = FilesOf(field)->path();
      }
    }
  }
}

std::string Predictor::FileName(const Output& output, int64_t sample) const {
  return absl::StrCat(output.layer, PerSample() ? absl::StrCat("-", sample) : "", format_.extension);
}

absl::StatusOr<std::string> Predictor::SpaceOf(const Output& output, int64_t sample) const {
  if (!Volumes() || sample >= inputs_.size()) return "";
  const std::string& name = inputs_[static_cast<int>(sample)];
  ADJOIN_ASSIGN_OR_RETURN(const HeldPath held, HoldBelow(data_root_, name));
  ArrayFileOptions options;
  options.format = format_.name;
  options.name = name;
  ADJOIN_ASSIGN_OR_RETURN(const ArrayHeader header, ReadArrayHeader(held.path(), options));
  constexpr size_t kSpatial = 3;
  if (header.shape.size() < kSpatial || output.sample.size() < kSpatial) return "";
  const bool same_cells = std::equal(header.shape.end() - kSpatial, header.shape.end(), output.sample.end() - kSpatial);
  return same_cells ? header.nifti : "";
}

void Predictor::WarnOfNoSpace(const Output& output, int64_t sample) {
  if (!Volumes() || inputs_.empty() || warned_ || !warn_) return;
  warned_ = true;
  const int path = static_cast<int>(std::min<int64_t>(sample, inputs_.size() - 1));
  warn_(absl::StrCat("the files of layer \"", output.layer, "\" (", absl::StrJoin(output.sample, "x"),
                     " cells) do not have the cells of ", inputs_[path],
                     ": they are written without its affine and size of a cell (reported once)"));
}

absl::StatusOr<Predictor::File> Predictor::OpenFile(const Output& output, int64_t sample) {
  File file{FileName(output, sample), sample, nullptr};
  const auto hint = [&](const absl::Status& status) {
    if (Creates() || !absl::IsNotFound(status)) return status;
    // Rank 0 takes its files away when it fails: what it says is the cause then.
    ADJOIN_RETURN_IF_ERROR(communicator_->WaitForFailure(kFailureOfOthers));
    return absl::NotFoundError(absl::StrCat(std::string(status.message()), "; rank 0 has made ", file.name,
                                            ", and rank ", communicator_->rank(),
                                            " does not see it: the nodes of a job that predicts need an"
                                            " --output-root that they share"));
  };
  if (folder_.empty()) {
    absl::StatusOr<std::string> folder = find_folder_();
    if (!folder.ok()) return hint(folder.status());
    folder_ = *std::move(folder);
  }
  const std::string path = absl::StrCat(folder_, "/", file.name);
  std::vector<int64_t> shape = output.sample;
  if (!PerSample()) shape.insert(shape.begin(), samples_);
  ArrayWriterOptions options;
  if (Creates()) {
    ADJOIN_ASSIGN_OR_RETURN(options.nifti, SpaceOf(output, sample));
    if (options.nifti.empty()) WarnOfNoSpace(output, sample);
  }
  auto writer = Creates() ? ArrayWriter::Create(path, predict_.format(), output.type, shape, options)
                          : ArrayWriter::Open(path, predict_.format(), output.type, shape, options);
  if (!writer.ok()) return hint(writer.status());
  file.writer = *std::move(writer);
  return file;
}

absl::Status Predictor::CreateFiles(int64_t first, int64_t count) {
  if (!Creates() || (!PerSample() && first > 0)) return absl::OkStatus();
  const SessionActivity::Files files(activity_);
  for (int index = 0; index < static_cast<int>(outputs_.size()); ++index) {
    for (int64_t sample = 0; sample < (PerSample() ? count : 1); ++sample) {
      const int64_t number = PerSample() ? first + sample : 0;
      ADJOIN_ASSIGN_OR_RETURN(File file, OpenFile(outputs_[index], number));
      open_.emplace(std::make_pair(index, number), std::move(file));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Predictor::Batch> Predictor::NextBatch() {
  if (own_ != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const ExtentNetworks::Step next, own_->At(step_));
    ADJOIN_RETURN_IF_ERROR(AddOutputs(next.network->program()));
    return Batch{next.network, next.sample};
  }
  const int64_t batch = full_->program().batch();
  return Batch{(step_ + 1) * batch <= samples_ ? full_.get() : tail_.get(), step_ * batch};
}

absl::Status Predictor::RunStep(bool stop_asked) {
  try {
    ADJOIN_ASSIGN_OR_RETURN(const Batch batch, NextBatch());
    const int64_t first = batch.first;
    Network& network = *batch.network;
    const ProgramPlan& program = network.program();
    ADJOIN_RETURN_IF_ERROR(CreateFiles(first, program.batch()));
    // Here all ranks wait until the files of this batch are made and those of the last one are written.
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<double> sums, network.SumOverRanks({stop_asked ? 1.0 : 0.0}));
    stop_asked_ = sums[0] > 0;
    if (stop_asked_) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(PublishWritten());
    at::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> fields;
    {
      const SessionActivity::Files files(activity_);
      ADJOIN_ASSIGN_OR_RETURN(fields, data_->Read(program, /*epoch=*/0, first));
    }
    Tape tape(network.device());
    ADJOIN_ASSIGN_OR_RETURN(Network::Result result, network.Forward(std::move(fields), tape));
    ADJOIN_RETURN_IF_ERROR(network.ReadNumbers({}).status());
    const SessionActivity::Files files(activity_);
    for (int index = 0; index < program.output_size(); ++index) {
      ADJOIN_RETURN_IF_ERROR(WriteOutput(program.output(index), index, first, std::move(result.outputs[index])));
    }
    ADJOIN_RETURN_IF_ERROR(EndBatch());
  } catch (...) {
    return StatusFromCurrentException();
  }
  ++step_;
  return absl::OkStatus();
}

absl::Status Predictor::WriteOutput(const OutputPlan& plan, int index, int64_t first, at::Tensor value) {
  if (value.numel() == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(plan.layout()));
  const Box local = layout.BoxOf(communicator_->rank());
  if (predict_.classes()) value = value.argmax(kClassDim);
  value = value.to(TensorTypeOf(outputs_[index].type)).contiguous().to(at::kCPU);
  const int64_t count = local[0].size();
  std::vector<Interval> cells;
  for (int dim = 1; dim < local.dims(); ++dim) {
    const bool written = static_cast<int>(outputs_[index].sample.size()) == local.dims() - 1 || dim != kClassDim;
    if (written) cells.push_back(local[dim]);
  }
  if (!PerSample()) {
    cells.insert(cells.begin(), {first + local[0].lo, first + local[0].hi});
    return WriteCells(index, 0, Box(std::move(cells)), value.data_ptr());
  }
  const Box box(std::move(cells));
  for (int64_t i = 0; i < count; ++i) {
    ADJOIN_RETURN_IF_ERROR(WriteCells(index, first + local[0].lo + i, box, value[i].data_ptr()));
  }
  return absl::OkStatus();
}

absl::Status Predictor::WriteCells(int index, int64_t sample, const Box& box, const void* cells) {
  auto open = open_.find({index, sample});
  if (open == open_.end()) {
    ADJOIN_ASSIGN_OR_RETURN(File file, OpenFile(outputs_[index], sample));
    open = open_.emplace(std::make_pair(index, sample), std::move(file)).first;
  }
  return open->second.writer->Write(box, cells);
}

absl::Status Predictor::EndBatch() {
  if (!PerSample() && step_ + 1 < total_steps_) return absl::OkStatus();
  for (auto& [key, file] : open_) {
    ADJOIN_RETURN_IF_ERROR(file.writer->Finish());
    if (Creates()) written_.push_back(std::move(file));
  }
  open_.clear();
  return absl::OkStatus();
}

absl::Status Predictor::PublishWritten() {
  const SessionActivity::Files files(activity_);
  for (File& file : written_) {
    ADJOIN_RETURN_IF_ERROR(file.writer->Publish());
    names_.emplace_back(file.sample, file.name);
  }
  written_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Predictor::Finish() {
  Network* network = full_.get();
  if (own_ != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(const ExtentNetworks::Step last, own_->At(total_steps_ - 1));
    network = last.network;
  }
  ADJOIN_RETURN_IF_ERROR(network->SumOverRanks({}).status());
  ADJOIN_RETURN_IF_ERROR(PublishWritten());
  // Volumes of different extents are not predicted in their order.
  if (own_ != nullptr) {
    std::stable_sort(names_.begin(), names_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  std::vector<std::string> names;
  for (const auto& [sample, name] : names_) names.push_back(name);
  return names;
}

}  // namespace adjoin
