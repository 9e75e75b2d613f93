#include "planner/auto/layer_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/attention/block_expansion.h"
#include "layers/rules/compute_type.h"
#include "layers/rules/layer_kind.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/spec_error.h"
#include "planner/auto/pairwise_minimum.h"
#include "planner/time/rank_rates.h"
#include "primitives/geometry/box.h"

namespace adjoin {
namespace {

constexpr double kChangeSeconds = 1e-6;

bool IsRepartition(const Layer& layer) { return layer.has_repartition(); }

}  // namespace

LayerGroups::LayerGroups(const JobSpec& job, const Plan& serial, const LayerRules& rules, const CostModel& model,
                         LayerGroupsOptions options)
    : job_(job), serial_(serial), options_(std::move(options)), movements_(model, kChangeSeconds) {
  const bool training = serial.program(0).training();
  passes_ = training ? static_cast<int>(std::max<uint32_t>(1, job.train().microbatches())) : 1;
  for (const Layer& layer : job.layer()) {
    if (layer.weights_of().empty()) continue;
    shares_.insert(layer.name());
    shares_.insert(layer.weights_of());
  }
  for (const Layer& layer : job.layer()) alike_.push_back(LayerCosts::Alike(layer));
  NumberTypes types;
  if (const auto named = NumberTypesOf(job); named.ok()) types = *named;
  costs_ = std::make_unique<LayerCosts>(LayerCostsOptions{.rules = rules,
                                                          .model = model,
                                                          .compute = types.compute,
                                                          .parameters = types.parameters,
                                                          .training = training,
                                                          .optimizer = job.train().optimizer(),
                                                          .passes = passes_,
                                                          .all_homes = options_.all_homes,
                                                          .keeps_parameters = !shares_.empty(),
                                                          .slowness = SlownessOfRanks(job)},
                                        &movements_);
}

absl::StatusOr<std::unique_ptr<LayerGroups>> LayerGroups::Create(const JobSpec& job, const Plan& serial,
                                                                 const LayerRules& rules, const CostModel& model,
                                                                 LayerGroupsOptions options) {
  std::unique_ptr<LayerGroups> groups(new LayerGroups(job, serial, rules, model, std::move(options)));
  for (const ValuePlan& plan : serial.program(0).value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(plan.layout()));
    const bool is_field = !plan.field().empty();
    groups->values_[is_field ? plan.field() : plan.name()] = {layout.shape(), layout.dtype(), plan.needs_grad(),
                                                              is_field};
  }
  for (int i = 0; i < job.layer_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(AtField(absl::StrCat("layer[", i, "]"), groups->AddLayer(i)));
  }
  for (LayerGroup& group : groups->groups_) {
    for (GroupCandidate& candidate : group.candidate) groups->Finish(group, candidate);
  }
  return groups;
}

std::vector<std::string> LayerGroups::InputsOf(int index) const {
  const Layer& layer = job_.layer(index);
  if (layer.input().empty()) return {job_.layer(index - 1).name()};
  return {layer.input().begin(), layer.input().end()};
}

absl::Status LayerGroups::AddLayer(int index) {
  if (Attach(index)) return absl::OkStatus();
  return Begin(index);
}

bool LayerGroups::Attach(int index) {
  const Layer& layer = job_.layer(index);
  const std::vector<std::string> inputs = InputsOf(index);
  if (inputs.size() != 1 || !IsLayer(inputs[0]) || IsBlock(KindOf(layer)) || IsRepartition(layer)) return false;
  if (options_.pin.count(layer.name()) > 0 || shares_.count(layer.name()) > 0) return false;
  LayerGroup& group = groups_[GroupOf(inputs[0])];
  // A layer with weights could be cut in ways of its own.
  std::vector<GroupCandidate> longer;
  longer.reserve(group.candidate.size());
  for (const GroupCandidate& candidate : group.candidate) {
    // Most layers that cannot follow are refused at the first one.
    longer.push_back(candidate);
    if (!Cost(index, /*attached=*/true, longer.back()).ok()) return false;
    const LayerCost& cost = *longer.back().cost_of.at(layer.name());
    if (cost.has_weights || cost.moves_input) return false;
  }
  group.candidate = std::move(longer);
  group.layer.push_back(index);
  group_of_[layer.name()] = GroupOf(inputs[0]);
  return true;
}

JobSpec LayerGroups::JobWith(const std::set<std::string>& names) const {
  JobSpec job;
  job.set_ranks(job_.ranks());
  *job.mutable_rank_weight() = job_.rank_weight();
  for (const std::string& name : names) *job.add_layout() = layouts_.at(name);
  return job;
}

absl::StatusOr<std::shared_ptr<ResolvedLayouts>> LayerGroups::LayoutsNamed(const std::set<std::string>& names) {
  if (const auto known = resolved_.find(names); known != resolved_.end()) return known->second;
  ADJOIN_ASSIGN_OR_RETURN(NamedLayouts layouts, NamedLayouts::Create(JobWith(names)));
  return resolved_.emplace(names, std::make_shared<ResolvedLayouts>(std::move(layouts))).first->second;
}

absl::StatusOr<LayerGroups::Written> LayerGroups::Write(int index, bool attached, const GroupCandidate& candidate) {
  std::set<std::string> names;
  if (!attached) {
    names.insert(candidate.x.begin(), candidate.x.end());
    names.insert(candidate.y);
    names.insert(candidate.w);
    names.erase("");
  }
  Layer layer = job_.layer(index);
  layer.clear_input();
  for (const std::string& input : InputsOf(index)) layer.add_input(input);
  if (!attached) {
    for (const std::string& x : candidate.x) layer.add_x(x);
    layer.set_y(candidate.y);
    layer.set_w(candidate.w);
  }
  std::vector<Layer> parts;
  if (layer.has_transformer()) {
    JobSpec one = JobWith(names);
    *one.add_layer() = std::move(layer);
    ADJOIN_ASSIGN_OR_RETURN(const ExpandedSpec expanded, ExpandBlocks(one));
    const auto shape_of = [this](const std::string& name) { return values_.at(name).shape; };
    for (int i = 0; i < expanded.spec.layer_size(); ++i) {
      Layer part = expanded.spec.layer(i);
      ADJOIN_RETURN_IF_ERROR(expanded.CompleteLayer(i, shape_of, &part));
      parts.push_back(std::move(part));
    }
    std::vector<std::string> alike;
    for (const Layer& part : parts) alike.push_back(LayerCosts::Alike(part));
    // It may have layouts of the block's own, whose names stand for others in another candidate.
    ADJOIN_ASSIGN_OR_RETURN(NamedLayouts layouts, NamedLayouts::Create(expanded.spec));
    return Written{.layer = std::move(parts),
                   .alike = std::move(alike),
                   .layouts = std::make_shared<ResolvedLayouts>(std::move(layouts))};
  }
  parts.push_back(std::move(layer));
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<ResolvedLayouts> layouts, LayoutsNamed(names));
  return Written{.layer = std::move(parts), .alike = {alike_[index]}, .layouts = std::move(layouts)};
}

absl::Status LayerGroups::Cost(int index, bool attached, GroupCandidate& candidate) {
  ADJOIN_ASSIGN_OR_RETURN(const Written written, Write(index, attached, candidate));
  for (size_t p = 0; p < written.layer.size(); ++p) {
    const Layer& part = written.layer[p];
    std::vector<int> lies;  // the layouts of the inputs as they are; -1: in another group
    std::vector<int> x;
    std::vector<bool> grads;
    for (int i = 0; i < part.input_size(); ++i) {
      const std::string& input = part.input(i);
      const Value& value = values_.at(input);
      const auto own = candidate.layout_of.find(input);
      lies.push_back(own == candidate.layout_of.end() ? -1 : own->second);
      grads.push_back(value.grad && training());
      const std::string named = i < part.x_size() ? part.x(i) : "";
      if (named.empty()) {
        if (lies.back() < 0) return InvalidSpec("it reads \"", input, "\" in no layout");
        x.push_back(lies.back());
        continue;
      }
      const absl::StatusOr<int> number =
          written.layouts->Number(named, value.shape, value.dtype, &movements_.Layouts());
      if (!number.ok()) return AtField(absl::StrCat("x[", i, "]"), number.status());
      x.push_back(*number);
    }
    const LayerCost& cost = costs_->Of(part, written.alike[p], x, grads, written.layouts->named());
    if (!cost.impossible.empty()) return AtField(cost.field, InvalidSpec(cost.impossible));
    for (size_t i = 0; i < x.size(); ++i) {
      const Value& value = values_.at(part.input(static_cast<int>(i)));
      const int read = movements_.Read(cost.read[i]).layout;
      if (value.is_field) {
        // Read from the file as it is needed, but where the layer moves it further.
        if (read == x[i]) continue;
        lies[i] = x[i];
      }
      if (lies[i] < 0) {
        candidate.outer.push_back({part.input(static_cast<int>(i)), cost.read[i], grads[i]});
        continue;
      }
      const MovementCosts::Pair pair = movements_.Seconds(lies[i], cost.read[i]);
      if (pair.forward == kImpossible) return InvalidSpec("there is no such movement");
      candidate.movement_seconds += pair.forward + (grads[i] ? pair.adjoint : 0);
    }
    candidate.compute_seconds += cost.forward_seconds + cost.backward_seconds;
    candidate.movement_seconds += cost.movement_seconds;
    if (cost.movement_seconds == kImpossible) return InvalidSpec("there is no such movement");
    candidate.layout_of[part.name()] = cost.output;
    candidate.cost_of[part.name()] = &cost;
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupCandidate> LayerGroups::Pinned(int index, const LayoutSpec& pin) {
  GroupCandidate candidate;
  const std::vector<std::string> inputs = InputsOf(index);
  candidate.x.assign(job_.layer(index).has_transformer() ? 1 : inputs.size(), pin.name());
  if (IsRepartition(job_.layer(index))) candidate.y = pin.name();
  layouts_[pin.name()] = pin;
  const absl::Status status = Cost(index, /*attached=*/false, candidate);
  if (status.ok()) return candidate;
  return InvalidSpec("it cannot be pinned to ", pin.name(), ": ", std::string(status.message()));
}

void LayerGroups::AddCandidates(int index, const WorkCut& cut, const std::vector<int64_t>& of,
                                std::vector<GroupCandidate>& found, std::string* why) {
  const Layer& layer = job_.layer(index);
  GroupCandidate base;
  base.cut = cut;
  const std::vector<std::string> inputs = InputsOf(index);
  for (const std::string& input : inputs) {
    const LayoutSpec layout = InputLayout(cut, of, values_.at(input).shape);
    layouts_.try_emplace(layout.name(), layout);
    base.x.push_back(layout.name());
  }
  if (IsRepartition(layer)) base.y = base.x[0];
  const auto try_it = [&](GroupCandidate candidate) {
    const absl::Status status = Cost(index, /*attached=*/false, candidate);
    if (!status.ok()) {
      if (why->empty()) *why = std::string(status.message());
      return;
    }
    if (cut.CutsOutputs()) {
      // Only where it divides the weights.
      int64_t cells = 0, whole = 0;
      for (const auto& [name, cost] : candidate.cost_of) {
        cells += cost->weight_cells;
        if (!found.empty()) whole += found[0].cost_of.at(name)->weight_cells;
      }
      if (whole == 0 || cells * cut.axis.back().parts > 2 * whole) return;
    }
    found.push_back(std::move(candidate));
  };
  if (!cut.CutsOutputs()) return try_it(std::move(base));
  const std::vector<int64_t>& output = values_.at(layer.name()).shape;
  const int dims = static_cast<int>(output.size());
  const size_t before = found.size();
  for (const int dim : {1, dims - 1}) {
    if (dim < 1 || dim >= dims || output[dim] < cut.axis.back().parts || found.size() > before) continue;
    const LayoutSpec y = OutputLayout(cut, dims, dim);
    layouts_.try_emplace(y.name(), y);
    GroupCandidate candidate = base;
    candidate.y = y.name();
    try_it(std::move(candidate));
  }
  if (found.size() > before) return;
  const LayoutSpec w = OutputLayout(cut, static_cast<int>(of.size()), static_cast<int>(of.size()) - 1);
  layouts_.try_emplace(w.name(), w);
  base.w = w.name();
  try_it(std::move(base));
}

double LayerGroups::Standing(const GroupCandidate& candidate) {
  double seconds = candidate.compute_seconds + candidate.movement_seconds;
  for (const auto& [name, cost] : candidate.cost_of) {
    if (!cost->home.empty()) seconds += cost->home[0].seconds;
  }
  // Halos, were the input where it is read.
  for (const GroupCandidate::Outer& outer : candidate.outer) {
    const MovementCosts::KnownRead& need = movements_.Read(outer.read);
    if (need.read == nullptr) continue;
    const MovementCosts::Pair pair = movements_.Seconds(need.layout, outer.read);
    seconds += pair.forward + (outer.grad ? pair.adjoint : 0);
  }
  return seconds;
}

std::vector<GroupCandidate> LayerGroups::Best(std::vector<GroupCandidate> found) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < found.size(); ++i) {
    // Cuts of one dim connect well with other layers: they stay.
    const bool simple =
        found[i].cut.axis.size() <= 1 && (found[i].cut.ranks == options_.ranks || found[i].cut.ranks == 1);
    order.emplace_back(simple ? -1 : Standing(found[i]), i);
  }
  std::sort(order.begin(), order.end());
  if (static_cast<int>(order.size()) > options_.most_candidates) order.resize(options_.most_candidates);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<GroupCandidate> best;
  for (const auto& entry : order) best.push_back(std::move(found[entry.second]));
  return best;
}

absl::Status LayerGroups::Begin(int index) {
  const Layer& layer = job_.layer(index);
  const std::vector<std::string> inputs = InputsOf(index);
  LayerGroup group;
  group.layer = {index};
  const auto pin = options_.pin.find(layer.name());
  if (pin != options_.pin.end()) {
    ADJOIN_ASSIGN_OR_RETURN(GroupCandidate candidate, Pinned(index, pin->second));
    group.candidate.push_back(std::move(candidate));
    group.pinned = true;
  } else {
    std::vector<int64_t> of;
    for (const std::string& input : inputs) {
      const std::vector<int64_t>& shape = values_.at(input).shape;
      if (of.empty() || shape.size() > of.size() || (shape.size() == of.size() && VolumeOf(shape) > VolumeOf(of))) {
        of = shape;
      }
    }
    std::string why;
    std::vector<GroupCandidate> found;
    for (const WorkCut& cut : CutsOf(of, /*outputs=*/true, options_.ranks)) {
      if (cut.CutsOutputs() && (found.empty() || found[0].cost_of.empty())) continue;
      AddCandidates(index, cut, of, found, &why);
    }
    if (found.empty()) return InvalidSpec("it can be cut in no way that is tried: ", why);
    group.candidate = Best(std::move(found));
  }
  const int number = static_cast<int>(groups_.size());
  group_of_[layer.name()] = number;
  for (const auto& [name, layout] : group.candidate[0].layout_of) group_of_[name] = number;
  groups_.push_back(std::move(group));
  return absl::OkStatus();
}

void LayerGroups::Finish(const LayerGroup& group, GroupCandidate& candidate) {
  double base = passes_ * (candidate.compute_seconds + candidate.movement_seconds);
  double again = 0;
  int64_t kept = 0, kept_again = 0;
  std::set<std::string> own;  // values that are kept already
  bool shares = false, has_home = false;
  for (const auto& [name, cost] : candidate.cost_of) {
    again += passes_ * cost->again_seconds;
    shares = shares || shares_.count(name) > 0;
    has_home = has_home || cost->home.size() > 1;
    kept += cost->kept_bytes;
    if (cost->keeps_output && own.insert(name).second) kept += cost->output_bytes;
    for (size_t i = 0; i < cost->keeps_input.size(); ++i) {
      if (cost->keeps_input[i]) kept += cost->input_bytes[i];
    }
  }
  if (!training()) {
    kept = 0;
    for (const auto& [name, cost] : candidate.cost_of) kept = std::max(kept, cost->output_bytes + cost->work_bytes);
  }
  for (const GroupCandidate::Outer& outer : candidate.outer) {
    const Layout& lies = movements_.Read(outer.read).Lies();
    int64_t bytes = SizeOf(lies.dtype());
    for (int dim = 0; dim < lies.dims(); ++dim) bytes *= (lies.shape()[dim] + lies.Parts(dim) - 1) / lies.Parts(dim);
    kept_again += bytes;
  }
  std::vector<GroupCandidate::Option> options;
  for (int h = 0; h < (has_home && !shares ? 3 : 1); ++h) {
    double home_seconds = 0;
    int64_t home_bytes = 0;
    Home home = HOME_DEFAULT;
    for (const auto& [name, cost] : candidate.cost_of) {
      if (cost->home.empty()) continue;
      const HomeCost& of = cost->home[std::min<size_t>(h, cost->home.size() - 1)];
      if (of.home != HOME_DEFAULT) home = of.home;
      home_seconds += of.seconds;
      home_bytes += of.bytes;
    }
    options.push_back({home, false, base + home_seconds, home_bytes + kept});
    if (options_.recompute && training() && kept_again < kept) {
      options.push_back({home, true, base + home_seconds + again, home_bytes + kept_again});
    }
    if (h == 0) {
      for (const auto& [name, cost] : candidate.cost_of) {
        if (!cost->home.empty()) candidate.movement_seconds += cost->home[0].movement_seconds / passes_;
      }
    }
  }
  std::stable_sort(options.begin(), options.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  for (const GroupCandidate::Option& option : options) {
    if (candidate.option.empty() || option.bytes < candidate.option.back().bytes) candidate.option.push_back(option);
  }
}

}  // namespace adjoin
