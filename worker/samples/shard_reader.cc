#include "worker/samples/shard_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/spec/augment.h"
#include "planner/spec/field_files.h"
#include "planner/spec/sample_shape.h"
#include "planner/spec/whole_volumes.h"
#include "primitives/status_exception.h"
#include "primitives/to_device.h"

namespace adjoin {
namespace {

// The bounds that the losses set to the labels of `value`.
std::vector<ClassBound> BoundsOf(const ProgramPlan& program, int value) {
  std::vector<ClassBound> bounds;
  if (program.value(value).layout().dtype() != "int64") return bounds;
  for (const LossPlan& loss : program.loss()) {
    const LayoutPlan& prediction = program.value(loss.input()).layout();
    if (static_cast<int>(loss.target()) != value || prediction.shape_size() < 2) continue;
    ClassBound bound{prediction.shape(1), std::nullopt};
    if (loss.spec().has_ignore_index()) bound.ignored = loss.spec().ignore_index();
    bounds.push_back(bound);
  }
  return bounds;
}

// True where the field has the grid of the first one whose extents differ from file to file, from which the extents on
// coarser grids follow.
bool HasFirstGrid(const Dataset& dataset, const Field& field) {
  if (!HasVaryingExtents(field)) return false;
  const auto first = std::find_if(dataset.field().begin(), dataset.field().end(),
                                  [](const Field& other) { return HasVaryingExtents(other); });
  const int spatial = SpatialDims(dataset);
  return std::equal(field.shape().end() - spatial, field.shape().end(), first->shape().end() - spatial);
}

// Returns null where there is none.
const Field* FieldNamed(const Dataset& dataset, const std::string& name) {
  const auto field = std::find_if(dataset.field().begin(), dataset.field().end(),
                                  [&](const Field& other) { return other.name() == name; });
  return field == dataset.field().end() ? nullptr : &*field;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::Create(const Plan& plan, const std::string& dataset,
                                                                 const DataFolder& data, int rank, at::Device device) {
  std::unique_ptr<ShardReader> reader(new ShardReader);
  const auto& sets = plan.spec().dataset();
  const auto spec = std::find_if(sets.begin(), sets.end(), [&](const Dataset& d) { return d.name() == dataset; });
  if (spec == sets.end()) return absl::InvalidArgumentError(absl::StrCat("no data set \"", dataset, "\" in the job"));
  const auto size = std::find_if(plan.dataset().begin(), plan.dataset().end(),
                                 [&](const DatasetSize& d) { return d.name() == dataset; });
  if (size == plan.dataset().end()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan does not know how large data set \"", dataset, "\" is"));
  }
  reader->dataset_ = *spec;
  reader->seed_ = plan.spec().seed();
  reader->warn_ = data.warn;
  reader->device_ = device;
  reader->rank_ = rank;
  for (const ProgramPlan& program : plan.program()) {
    if (program.dataset() == dataset) ADJOIN_RETURN_IF_ERROR(reader->AddProgram(program, data));
  }
  ADJOIN_RETURN_IF_ERROR(reader->OpenForPositions(data));
  ADJOIN_RETURN_IF_ERROR(reader->CountSamples(*size));
  const Train& train = plan.spec().train();
  const int64_t dropped = train.drop_last() && train.batch() > 0 ? reader->samples() % train.batch() : 0;
  reader->order_ = BatchOrder(reader->samples(), reader->samples() - dropped);
  for (const auto& [name, program] : reader->programs_) reader->order_.Add(name, program.training, program.batch);
  reader->ReadInThread();
  return reader;
}

void ShardReader::ReadInThread() {
  ahead_ = std::make_unique<ReadAhead<BatchKey, Batch>>(
      [this](const BatchKey& key, const std::atomic<bool>& stop) { return ReadBatch(key, stop); });
}

absl::Status ShardReader::At(const std::string& field, const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("data set \"", dataset_.name(), "\", field \"", field,
                                                  "\": ", std::string(status.message())));
}

absl::Status ShardReader::AddProgram(const ProgramPlan& program, const DataFolder& data) {
  if (HasWholeVolumes(dataset_)) return OpenWholeVolumes(program, data);
  return AddShards(dataset_, program, data, programs_[program.name()]);
}

// The program is for other extents than those of the samples.
absl::Status ShardReader::OpenWholeVolumes(const ProgramPlan& program, const DataFolder& data) {
  data_ = data;
  for (const ValuePlan& value : program.value()) {
    const Field* const field = FieldNamed(dataset_, value.field());
    if (field == nullptr) continue;
    std::vector<int64_t> shape(field->shape().begin(), field->shape().end());
    if (shape.empty()) shape.assign(value.layout().shape().begin() + 1, value.layout().shape().end());
    const absl::StatusOr<FieldSource*> source = SourceOf(*field, shape, data);
    if (!source.ok()) return At(field->name(), source.status());
  }
  return absl::OkStatus();
}

absl::Status ShardReader::UseFor(const ProgramPlan& program, const std::vector<int64_t>& extents,
                                 std::vector<int64_t> samples) {
  ahead_.reset();  // it reads with what is replaced
  programs_.clear();
  in_use_ = std::move(samples);
  const absl::Status added = AddShards(WithExtents(dataset_, extents), program, *data_, programs_[program.name()]);
  ReadInThread();
  return added;
}

absl::Status ShardReader::AddShards(const Dataset& dataset, const ProgramPlan& program, const DataFolder& data,
                                    Program& added) {
  added.training = program.training();
  added.batch = program.batch();
  std::set<std::string> seen;
  for (int i = 0; i < program.value_size(); ++i) {
    const ValuePlan& value = program.value(i);
    if (value.field().empty()) continue;
    const Field* const field = FieldNamed(dataset, value.field());
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("data set \"", dataset_.name(), "\" has no field \"", value.field(), "\""));
    }
    absl::StatusOr<ValueShard> shard = ValueShard::Create(dataset, *field, value, rank_);
    if (!shard.ok()) return At(field->name(), shard.status());
    for (const ClassBound& bound : BoundsOf(program, i)) shard->Bound(bound);
    if (shard->reads()) {
      const absl::StatusOr<FieldSource*> source = SourceOf(*field, shard->sample_shape(), data);
      if (!source.ok()) return At(field->name(), source.status());
      std::unique_ptr<SampleScaling>& scaling = scalings_[field->name()];
      if (scaling == nullptr) scaling = std::make_unique<SampleScaling>(dataset, *field, *source);
      shard->SetSource(*source, scaling.get());
    }
    added.shards.push_back({.name = value.name(),
                            .field = field->name(),
                            .first_of_field = seen.insert(field->name()).second,
                            .shard = *std::move(shard)});
  }
  return absl::OkStatus();
}

absl::StatusOr<FieldSource*> ShardReader::SourceOf(const Field& field, const std::vector<int64_t>& sample_shape,
                                                   const DataFolder& data) {
  std::unique_ptr<FieldSource>& source = sources_[field.name()];
  if (source == nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(source, OpenFieldSource(dataset_, field, sample_shape, seed_, data));
  }
  return source.get();
}

// A rank that reads only other fields draws the same blocks, so it needs to know what they are drawn from: a field of
// the finest grid.
absl::Status ShardReader::OpenForPositions(const DataFolder& data) {
  const Field* varies = nullptr;
  for (const Field& field : dataset_.field()) {
    if (!HasFirstGrid(dataset_, field)) continue;
    if (varies == nullptr || sources_.count(field.name()) > 0) varies = &field;
  }
  if (sources_.empty()) return absl::OkStatus();
  if (dataset_.blocks().has_foreground()) {
    const std::string& name = dataset_.blocks().foreground().field();
    for (const Field& field : dataset_.field()) {
      if (field.name() != name) continue;
      const absl::StatusOr<FieldSource*> source = SourceOf(field, {field.shape().begin(), field.shape().end()}, data);
      if (!source.ok()) return At(name, source.status());
      absl::StatusOr<std::unique_ptr<LabelCells>> labels = LabelCells::Create(dataset_, seed_, *source);
      if (!labels.ok()) return At(name, labels.status());
      labels_ = *std::move(labels);
    }
  }
  if (varies == nullptr) return absl::OkStatus();
  return At(varies->name(), SourceOf(*varies, {varies->shape().begin(), varies->shape().end()}, data).status());
}

// Every rank has to draw from the same samples, so it must find as many as the plan was made for.
absl::Status ShardReader::CountSamples(const DatasetSize& planned) {
  int64_t in_files = planned.in_files() > 0 ? planned.in_files() : std::max<int64_t>(1, planned.samples());
  for (const Field& field : dataset_.field()) {
    const auto source = sources_.find(field.name());
    if (source == sources_.end()) continue;
    const int64_t found = source->second->samples();
    const bool as_planned =
        planned.in_files() > 0 ? found == planned.in_files() : SampleCount(dataset_, found) == planned.samples();
    if (!as_planned) {
      const File* files = FilesOf(field);
      return At(field.name(),
                absl::FailedPreconditionError(absl::StrCat(
                    found, " samples in ", files != nullptr ? absl::StrJoin(files->path(), ", ") : "synthetic",
                    "; the job was planned for ", planned.in_files() > 0 ? planned.in_files() : planned.samples())));
    }
    in_files = found;
  }
  samples_ = SampleCount(dataset_, in_files);
  if (sources_.empty()) return absl::OkStatus();  // then ReadBatch asks for no position
  ADJOIN_ASSIGN_OR_RETURN(extents_, FindExtents(planned));
  ADJOIN_ASSIGN_OR_RETURN(positions_, SamplePositions::Create(dataset_, seed_, in_files, extents_));
  positions_->SetForeground(labels_.get());
  return absl::OkStatus();
}

// Returns the extents where they differ from sample to sample, which have to be those that the plan was made for.
absl::StatusOr<SampleExtents> ShardReader::FindExtents(const DatasetSize& planned) const {
  SampleExtents extents(dataset_);
  if (!HasVaryingExtents(dataset_)) return extents;
  for (const bool first_grid : {true, false}) {
    for (const Field& field : dataset_.field()) {
      const auto source = sources_.find(field.name());
      const bool now = HasVaryingExtents(field) && HasFirstGrid(dataset_, field) == first_grid;
      if (!now || source == sources_.end()) continue;
      for (int64_t sample = 0; sample < source->second->samples(); ++sample) {
        ADJOIN_RETURN_IF_ERROR(At(
            field.name(), extents.Add(field.name(), source->second->NameOf(sample), source->second->ShapeOf(sample))));
      }
    }
  }
  if (extents.Hash() == planned.extents()) return extents;
  return absl::FailedPreconditionError(absl::StrCat(
      "data set \"", dataset_.name(), "\": ",
      planned.extents() == 0
          ? "the plan does not know the extents of its files"
          : "its files have other extents than those that the job was planned with: they have changed, or are others on"
            " this node"));
}

absl::StatusOr<ShardReader::Batch> ShardReader::ReadBatch(const BatchKey& key, const std::atomic<bool>& stop) {
  Program& program = programs_.at(key.program);
  Batch batch;
  for (const auto& [name, source] : sources_) batch.bytes -= source->bytes_read();
  try {
    std::vector<SamplePosition> positions;
    for (int64_t i = 0; i < program.batch && !sources_.empty(); ++i) {
      absl::StatusOr<SamplePosition> position = positions_->At(program.training, key.epoch, key.first + i, &stop);
      if (!position.ok()) return At(dataset_.blocks().foreground().field(), position.status());
      positions.push_back(*std::move(position));
    }
    for (NamedShard& named : program.shards) {
      std::optional<std::string> not_finite;
      absl::StatusOr<at::Tensor> tensor =
          named.shard.Read(positions, stop, named.first_of_field ? &not_finite : nullptr);
      if (!tensor.ok()) return At(named.field, tensor.status());
      batch.values[named.name] = *std::move(tensor);
      if (not_finite.has_value()) batch.not_finite[named.field] = *not_finite;
    }
  } catch (...) {
    return StatusFromCurrentException();
  }
  for (const auto& [name, source] : sources_) batch.bytes += source->bytes_read();
  return batch;
}

std::optional<BatchKey> ShardReader::After(const BatchKey& key) const {
  if (!HasWholeVolumes(dataset_)) return order_.After(key);
  const auto at = std::find(in_use_.begin(), in_use_.end(), key.first);
  if (at == in_use_.end() || std::next(at) == in_use_.end()) return std::nullopt;
  return BatchKey{key.program, key.epoch, *std::next(at)};
}

absl::StatusOr<std::map<std::string, at::Tensor>> ShardReader::Read(const ProgramPlan& program, int64_t epoch,
                                                                    int64_t first) {
  const auto known = programs_.find(program.name());
  if (known == programs_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program \"", program.name(), "\" does not read data set \"", dataset_.name(), "\""));
  }
  const bool other = HasWholeVolumes(dataset_) && std::count(in_use_.begin(), in_use_.end(), first) == 0;
  if (first < 0 || first + known->second.batch > samples() || other) {
    return absl::OutOfRangeError(absl::StrCat("data set \"", dataset_.name(), "\": a batch of ", known->second.batch,
                                              " from sample ", first, "; there are ", samples()));
  }
  const BatchKey key{program.name(), epoch, first};
  ADJOIN_ASSIGN_OR_RETURN(Batch batch, ahead_->Get(key, After(key)));
  bytes_read_ += batch.bytes;
  for (const auto& [field, where] : batch.not_finite) {
    if (!warned_.insert(field).second || !warn_) continue;
    warn_(absl::StrCat("data set \"", dataset_.name(), "\", field \"", field, "\": ", where,
                       "; values that are not finite are used as they are, and reported once"));
  }
  try {
    for (auto& [name, value] : batch.values) value = ToDevice(value, device_);
  } catch (...) {
    return StatusFromCurrentException();
  }
  return std::move(batch.values);
}

}  // namespace adjoin
