#include "worker/runtime/shard_reader.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/plan/layout_proto.h"
#include "primitives/random/philox.h"
#include "primitives/torch_dtype.h"
#include "worker/runtime/path_rules.h"

namespace adjoin {
namespace {

Box WithoutBatch(const Box& box) {
  std::vector<Interval> dims;
  for (int dim = 1; dim < box.dims(); ++dim) dims.push_back(box[dim]);
  return Box(std::move(dims));
}

double EntryOf(const google::protobuf::RepeatedField<double>& list, int64_t channel, double absent) {
  if (list.empty()) return absent;
  return list.size() == 1 ? list[0] : list[static_cast<int>(channel)];
}

// (x * scale - mean) / std, on one sample's box in place. The channel is the first dim after the batch.
void Normalise(const Field& field, const Box& features, double* cells) {
  const double scale = field.scale() == 0 ? 1 : field.scale();
  if (scale == 1 && field.mean().empty() && field.std().empty()) return;
  const Interval channels = features.dims() > 0 ? features[0] : Interval{0, 1};
  const int64_t per_channel = channels.empty() ? 0 : features.Volume() / channels.size();
  for (int64_t channel = channels.lo; channel < channels.hi; ++channel) {
    const double mean = EntryOf(field.mean(), channel, 0);
    const double std = EntryOf(field.std(), channel, 1);
    for (int64_t i = 0; i < per_channel; ++i, ++cells) *cells = (*cells * scale - mean) / std;
  }
}

absl::Status CheckField(const Field& field, const std::vector<int64_t>& sample_shape) {
  if (!field.has_idx()) {
    return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(), "\": only idx files can be read"));
  }
  const int64_t channels = sample_shape.empty() ? 1 : sample_shape[0];
  for (int size : {field.mean_size(), field.std_size()}) {
    if (size > 1 && size != channels) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", field.name(), "\": ", size,
                                                     " means or stds; right would be one, or one for each of the ",
                                                     channels, " channels"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::Create(const Plan& plan, const std::string& dataset,
                                                                 const std::string& data_root, int rank) {
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
  reader->samples_ = size->samples();
  for (const ProgramPlan& program : plan.program()) {
    if (program.dataset() != dataset) continue;
    reader->shards_[program.name()];
    for (const ValuePlan& value : program.value()) {
      if (value.field().empty()) continue;
      ADJOIN_RETURN_IF_ERROR(reader->AddShard(program, value, data_root, rank));
    }
  }
  return reader;
}

absl::Status ShardReader::AddShard(const ProgramPlan& program, const ValuePlan& value, const std::string& data_root,
                                   int rank) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
  Shard shard{layout, layout.BoxOf(rank)};
  const auto field = std::find_if(dataset_.field().begin(), dataset_.field().end(),
                                  [&](const Field& f) { return f.name() == value.field(); });
  if (field == dataset_.field().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set \"", dataset_.name(), "\" has no field \"", value.field(), "\""));
  }
  shard.field = &*field;
  const std::vector<int64_t> sample_shape(layout.shape().begin() + 1, layout.shape().end());
  ADJOIN_RETURN_IF_ERROR(CheckField(*field, sample_shape));
  if (layout.mesh().Has(rank)) {
    const Box features = WithoutBatch(shard.box);
    std::unique_ptr<IdxSamples>& source = sources_[{field->name(), features.ToString()}];
    if (source == nullptr) {
      const std::vector<std::string> names(field->idx().path().begin(), field->idx().path().end());
      std::vector<HeldPath> files;
      std::vector<std::string> paths;
      for (const std::string& name : names) {
        ADJOIN_ASSIGN_OR_RETURN(HeldPath file, HoldBelow(data_root, name));
        paths.push_back(file.path());
        files.push_back(std::move(file));
      }
      ADJOIN_ASSIGN_OR_RETURN(source, IdxSamples::Open(paths, sample_shape, features, names));
      const int64_t used = dataset_.has_limit() ? std::min(dataset_.limit(), source->samples()) : source->samples();
      if (used != samples_) {
        return absl::FailedPreconditionError(
            absl::StrCat("data set \"", dataset_.name(), "\", field \"", field->name(), "\": ", used, " samples in ",
                         absl::StrJoin(names, ", "), "; the job was planned for ", samples_));
      }
    }
    shard.source = source.get();
  }
  shards_[program.name()].emplace(value.name(), std::move(shard));
  return absl::OkStatus();
}

const std::vector<int64_t>* ShardReader::OrderOf(int64_t epoch) {
  if (epoch != order_epoch_) {
    order_ = Permutation(seed_, kPurposeShuffle, static_cast<uint64_t>(epoch), samples_);
    order_epoch_ = epoch;
  }
  return &order_;
}

absl::StatusOr<torch::Tensor> ShardReader::ReadShard(const Shard& shard, const std::vector<int64_t>* order,
                                                     int64_t first) {
  torch::Tensor cells = torch::empty(shard.box.Shape(), torch::kFloat64);
  if (shard.source != nullptr && cells.numel() > 0) {
    const Box features = WithoutBatch(shard.box);
    double* at = cells.data_ptr<double>();
    for (int64_t place = shard.box[0].lo; place < shard.box[0].hi; ++place, at += shard.source->elements()) {
      const int64_t sample = order != nullptr ? (*order)[first + place] : first + place;
      ADJOIN_RETURN_IF_ERROR(shard.source->Read(sample, at));
      Normalise(*shard.field, features, at);
    }
  }
  return cells.to(ScalarTypeOf(shard.layout.dtype()));
}

absl::StatusOr<std::map<std::string, torch::Tensor>> ShardReader::Read(const ProgramPlan& program, int64_t epoch,
                                                                       int64_t first) {
  const auto shards = shards_.find(program.name());
  if (shards == shards_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program \"", program.name(), "\" does not read data set \"", dataset_.name(), "\""));
  }
  if (first < 0 || first + program.batch() > samples_) {
    return absl::OutOfRangeError(absl::StrCat("data set \"", dataset_.name(), "\": a batch of ", program.batch(),
                                              " from sample ", first, "; there are ", samples_));
  }
  const std::vector<int64_t>* order = dataset_.shuffle() && program.training() ? OrderOf(epoch) : nullptr;
  std::map<std::string, torch::Tensor> fields;
  for (const auto& [name, shard] : shards->second) {
    ADJOIN_ASSIGN_OR_RETURN(fields[name], ReadShard(shard, order, first));
  }
  return fields;
}

}  // namespace adjoin
