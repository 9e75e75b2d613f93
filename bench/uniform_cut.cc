#include "bench/uniform_cut.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/plan/planner.h"
#include "proto/plan.pb.h"
#include "verify/trained_data.h"

namespace adjoin {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// Shapes of all values, with the batch, by layer or field.
absl::StatusOr<Shapes> ShapesOf(const JobSpec& uncut, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, Planner::Build(uncut, {}, rules));
  Shapes shapes;
  for (const ValuePlan& value : plan.program(0).value()) {
    shapes[value.name()] = {value.layout().shape().begin(), value.layout().shape().end()};
  }
  return shapes;
}

// What each layer reads, also where its job leaves it out.
std::vector<std::vector<std::string>> InputsOf(const JobSpec& spec) {
  std::vector<std::vector<std::string>> inputs;
  std::string before;
  for (const Layer& layer : spec.layer()) {
    inputs.emplace_back(layer.input().begin(), layer.input().end());
    if (inputs.back().empty()) inputs.back() = {before};
    before = layer.name();
  }
  return inputs;
}

// The name of the layout of `dims` dims of which `dim` is cut; it is added where it is missing.
std::string LayoutName(int dim, size_t dims, uint32_t ranks, JobSpec& spec) {
  const std::string name = absl::StrCat("dim", dim, "of", dims);
  for (const LayoutSpec& layout : spec.layout()) {
    if (layout.name() == name) return name;
  }
  LayoutSpec& layout = *spec.add_layout();
  layout.set_name(name);
  for (int i = 0; i < static_cast<int>(dims); ++i) layout.add_partition(i == dim ? ranks : 1);
  return name;
}

// How many classes the labels of a loss have; 2 where nothing tells.
int64_t ClassesOf(const JobSpec& spec, const std::string& label, const Shapes& shapes) {
  for (const Loss& loss : spec.loss()) {
    const auto prediction = shapes.find(loss.input());
    if (loss.target() == label && prediction != shapes.end() && prediction->second.size() > 1) {
      return prediction->second[1];
    }
  }
  return 2;
}

void MakeSynthetic(int64_t samples, int64_t classes, const Blocks& blocks, Field& field) {
  Field made;
  made.set_name(field.name());
  made.set_dtype(field.dtype());
  *made.mutable_shape() = field.shape();
  const int spatial = std::min(blocks.size_size(), made.shape_size());
  for (int i = 0; i < spatial; ++i) {
    made.set_shape(made.shape_size() - spatial + i, blocks.size(blocks.size_size() - spatial + i));
  }
  Synthetic& synthetic = *made.mutable_synthetic();
  synthetic.set_samples(samples);
  synthetic.set_kind(made.dtype() == "int64" ? "index" : "uniform");
  synthetic.set_high(made.dtype() == "int64" ? static_cast<double>(classes) : 1);
  field = made;
}

}  // namespace

JobSpec Uncut(const JobSpec& spec) {
  JobSpec uncut = spec;
  uncut.set_ranks(1);
  uncut.clear_layout();
  uncut.clear_layer();
  uncut.clear_rank_weight();
  const auto inputs = InputsOf(spec);
  std::map<std::string, std::string> moved;  // the repartitions: what they read
  for (int i = 0; i < spec.layer_size(); ++i) {
    std::vector<std::string> read;
    for (const std::string& input : inputs[i]) read.push_back(moved.count(input) > 0 ? moved[input] : input);
    if (spec.layer(i).has_repartition()) {
      moved[spec.layer(i).name()] = read[0];
      continue;
    }
    Layer& layer = *uncut.add_layer();
    layer = spec.layer(i);
    *layer.mutable_input() = {read.begin(), read.end()};
    layer.clear_x();
    layer.clear_w();
    layer.clear_y();
    layer.clear_home();
    layer.clear_owner();
  }
  for (Loss& loss : *uncut.mutable_loss()) {
    if (moved.count(loss.input()) > 0) loss.set_input(moved[loss.input()]);
  }
  return uncut;
}

absl::StatusOr<JobSpec> CutUniformly(const JobSpec& uncut, int dim, uint32_t ranks, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const Shapes shapes, ShapesOf(uncut, rules));
  std::set<std::string> layers;
  for (const Layer& layer : uncut.layer()) layers.insert(layer.name());
  const auto inputs = InputsOf(uncut);
  size_t dims = 0;
  for (const auto& read : inputs) {
    for (const std::string& input : read) {
      if (layers.count(input) == 0) dims = std::max(dims, shapes.at(input).size());
    }
  }
  // The batch may be shorter than there are ranks; some have no samples then.
  const auto fits = [&](const std::string& value) {
    const std::vector<int64_t>& shape = shapes.at(value);
    return dim == 0 || (shape.size() == dims && dim < static_cast<int>(dims) && shape[dim] >= ranks);
  };
  JobSpec cut = uncut;
  cut.set_ranks(ranks);
  std::set<std::string> by_dim;
  for (int i = 0; i < cut.layer_size(); ++i) {
    Layer& layer = *cut.mutable_layer(i);
    bool along = true, mixed = false;
    for (const std::string& input : inputs[i]) {
      const bool field = layers.count(input) == 0;
      along &= fits(input) && (field || by_dim.count(input) > 0);
      mixed |= field || by_dim.count(input) > 0;
    }
    if (along) by_dim.insert(layer.name());
    const bool reads_field =
        std::any_of(inputs[i].begin(), inputs[i].end(), [&](const auto& input) { return layers.count(input) == 0; });
    if (!reads_field && (along || !mixed)) continue;
    for (const std::string& input : inputs[i]) {
      layer.add_x(LayoutName(along ? dim : 0, shapes.at(input).size(), ranks, cut));
    }
  }
  if (by_dim.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no field has a dim ", dim, " that is ", ranks, " long"));
  }
  return cut;
}

absl::Status MakeMeasurable(uint64_t steps, const LayerRules& rules, JobSpec* spec) {
  ADJOIN_ASSIGN_OR_RETURN(const Shapes shapes, ShapesOf(Uncut(*spec), rules));
  Dataset data;
  data.set_name(spec->train().dataset());
  const Dataset& trained = TrainedData(*spec);
  for (const Field& field : trained.field()) {
    *data.add_field() = field;
    MakeSynthetic(4 * static_cast<int64_t>(spec->train().batch()), ClassesOf(*spec, field.name(), shapes),
                  trained.blocks(), *data.mutable_field(data.field_size() - 1));
  }
  spec->clear_dataset();
  *spec->add_dataset() = data;
  Train& train = *spec->mutable_train();
  train.set_steps(steps);
  train.set_drop_last(true);
  train.clear_validate_on();
  train.clear_validate_every();
  train.clear_early_stop();
  spec->clear_evaluate();
  spec->clear_weights();
  spec->clear_checkpoint();
  spec->clear_restart();
  spec->clear_output_dir();
  return absl::OkStatus();
}

}  // namespace adjoin
