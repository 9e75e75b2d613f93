#include "planner/auto/layout_search.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/loss/loss_roles.h"
#include "layers/loss/loss_rule.h"
#include "layers/rules/counted_layout.h"
#include "layers/rules/layout_proto.h"
#include "layers/rules/spec_error.h"
#include "planner/auto/pairwise_minimum.h"
#include "planner/plan/shared_parameters.h"

namespace adjoin {
namespace {

constexpr char kWhole[] = "whole";

// The most cells of a dim that a rank has, for each dim.
std::vector<int64_t> LargestEvenPart(const Layout& layout) {
  std::vector<int64_t> shape;
  for (int dim = 0; dim < layout.dims(); ++dim) {
    shape.push_back((layout.shape()[dim] + layout.Parts(dim) - 1) / layout.Parts(dim));
  }
  return shape;
}

}  // namespace

JobSpec WithoutLayouts(const JobSpec& job, int ranks) {
  JobSpec bare = job;
  bare.set_ranks(static_cast<uint32_t>(ranks));
  if (bare.rank_weight_size() != ranks) bare.clear_rank_weight();
  bare.clear_layout();
  bool named = false;
  for (Layer& layer : *bare.mutable_layer()) {
    layer.clear_x();
    layer.clear_y();
    layer.clear_w();
    layer.clear_home();
    layer.clear_owner();
    layer.clear_recompute();
    // It says nothing but a layout.
    if (!layer.has_repartition()) continue;
    layer.set_y(kWhole);
    named = true;
  }
  if (named) {
    LayoutSpec* layout = bare.add_layout();
    layout->set_name(kWhole);
    layout->add_mesh()->set_size(1);
    layout->add_sbp("B");
  }
  return bare;
}

absl::StatusOr<std::unique_ptr<LayoutSearch>> LayoutSearch::Create(const JobSpec& job, const Plan& serial,
                                                                   const LayerRules& rules, const CostModel& model,
                                                                   LayerGroupsOptions options) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<LayerGroups> groups,
                          LayerGroups::Create(job, serial, rules, model, std::move(options)));
  std::unique_ptr<LayoutSearch> search(new LayoutSearch(std::move(groups), job, model));
  for (const LayerGroup& group : search->groups_->groups()) {
    search->problem_.node.emplace_back();
    for (const GroupCandidate& candidate : group.candidate) {
      std::vector<MemoryProblem::Option> options;
      for (const GroupCandidate::Option& option : candidate.option) {
        if (option.seconds < kImpossible) options.push_back({option.seconds, option.bytes});
      }
      search->problem_.node.back().push_back(std::move(options));
    }
  }
  search->AddEdges();
  search->AddSharedWeights();
  ADJOIN_RETURN_IF_ERROR(search->AddLosses());
  ADJOIN_RETURN_IF_ERROR(search->AddOutputs());
  const std::vector<double>& slowness = search->slowness_;
  const double slowest = slowness.empty() ? 1 : *std::max_element(slowness.begin(), slowness.end());
  search->step_seconds_ = search->groups_->training() ? slowest * model.OfStep() : 0;
  return search;
}

void LayoutSearch::AddEdges() {
  const std::vector<LayerGroup>& groups = groups_->groups();
  MovementCosts& movements = groups_->movements();
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<GroupCandidate>& candidates = groups[g].candidate;
    // All candidates read the same values in the same order, as the layers do.
    for (size_t o = 0; o < candidates[0].outer.size(); ++o) {
      const std::string& value = candidates[0].outer[o].value;
      const int from = groups_->GroupOf(value);
      PairwiseProblem::Edge edge{from, static_cast<int>(g), {}};
      for (const GroupCandidate& source : groups[from].candidate) {
        const int lies = source.layout_of.at(value);
        for (const GroupCandidate& candidate : candidates) {
          const GroupCandidate::Outer& outer = candidate.outer[o];
          const MovementCosts::Pair pair = movements.Seconds(lies, outer.read);
          edge.cost.push_back(groups_->passes() * (pair.forward + (outer.grad ? pair.adjoint : 0)));
        }
      }
      edge_to_.push_back(static_cast<int>(g));
      problem_.edge.push_back(std::move(edge));
    }
  }
}

void LayoutSearch::AddSharedWeights() {
  const std::vector<LayerGroup>& groups = groups_->groups();
  MovementCosts& movements = groups_->movements();
  std::map<std::string, const Layer*> owners;
  for (const LayerPlan& layer : groups_->serial().program(0).layer()) {
    const std::string& owner = layer.spec().weights_of();
    if (owner.empty()) continue;
    const int a = groups_->GroupOf(owner), b = groups_->GroupOf(layer.name());
    const auto seconds = [&](const GroupCandidate& of_owner, const GroupCandidate& of_user) {
      const LayerCost& owned = *of_owner.cost_of.at(owner);
      const LayerCost& used = *of_user.cost_of.at(layer.name());
      const bool updates_buffers = !layer.spec().has_parameter();
      if (!CheckSharedParameters(owner, owned.parameter, used.parameter, updates_buffers).ok()) return kImpossible;
      double sum = 0;
      for (const ParameterNeed& need : used.parameter) {
        const int home = movements.Layouts().Add(FindNeed(owned.parameter, need.role)->home);
        const MovementCosts::Pair pair =
            movements.Seconds(home, movements.AddRead(movements.Layouts().Add(need.needed)));
        sum += groups_->passes() * (pair.forward + (used.trained && groups_->training() ? pair.adjoint : 0));
      }
      return sum;
    };
    if (a == b) {
      for (size_t c = 0; c < groups[a].candidate.size(); ++c) {
        const double more = seconds(groups[a].candidate[c], groups[a].candidate[c]);
        if (more == kImpossible) problem_.node[a][c].clear();
        for (MemoryProblem::Option& option : problem_.node[a][c]) option.seconds += more;
      }
      continue;
    }
    PairwiseProblem::Edge edge{a, b, {}};
    for (const GroupCandidate& of_owner : groups[a].candidate) {
      for (const GroupCandidate& of_user : groups[b].candidate) edge.cost.push_back(seconds(of_owner, of_user));
    }
    edge_to_.push_back(-1);
    problem_.edge.push_back(std::move(edge));
  }
}

double LayoutSearch::LossSeconds(const LossPlan& loss, const Layout& prediction, const Layout* variance) const {
  const auto target = LayoutFromProto(groups_->serial().program(0).value(loss.target()).layout());
  const LossRequest request = {.spec = loss.spec(),
                               .prediction = prediction,
                               .target_shape = target->shape(),
                               .target_dtype = target->dtype(),
                               .variance = variance};
  const absl::StatusOr<LossOutcome> outcome = ApplyLossRule(request);
  if (!outcome.ok()) return kImpossible;
  MovementCosts& movements = groups_->movements();
  const bool training = groups_->training();
  double seconds = 0;
  const auto add = [&](const Layout& from, const Layout& to, bool adjoint) {
    const MovementCosts::Pair pair =
        movements.Seconds(movements.Layouts().Add(from), movements.AddRead(movements.Layouts().Add(to)));
    seconds += pair.forward + (adjoint ? pair.adjoint : 0);
  };
  add(prediction, outcome->prediction, training);
  for (const LossMovement& movement : outcome->movement) {
    add(movement.from, movement.to, training && movement.differentiable);
  }
  LayerSizes sizes;
  sizes.input = {LargestEvenPart(outcome->prediction)};
  sizes.type = outcome->prediction.dtype();
  const CostModel::KernelSeconds kernel = model_.OfLoss(loss.spec(), sizes);
  const double slowest = SlowestOf(slowness_, outcome->prediction.mesh().ranks());
  return groups_->passes() * (seconds + slowest * (kernel.forward + (training ? kernel.backward : 0)));
}

absl::Status LayoutSearch::AddLosses() {
  const ProgramPlan& program = groups_->serial().program(0);
  const std::vector<LayerGroup>& groups = groups_->groups();
  MovementCosts& movements = groups_->movements();
  for (const LossPlan& loss : program.loss()) {
    const std::string& input = program.value(loss.input()).name();
    const int g = groups_->GroupOf(input);
    const std::string variance = loss.has_variance() ? program.value(loss.variance()).name() : "";
    const int v = variance.empty() ? g : groups_->GroupOf(variance);
    std::map<std::pair<int, int>, double> known;
    const auto seconds = [&](const GroupCandidate& a, const GroupCandidate& b) {
      const int layout = a.layout_of.at(input);
      const int other = variance.empty() ? -1 : b.layout_of.at(variance);
      const auto [it, fresh] = known.emplace(std::pair(layout, other), 0);
      if (fresh) {
        it->second =
            LossSeconds(loss, movements.Layouts()[layout], variance.empty() ? nullptr : &movements.Layouts()[other]);
      }
      return it->second;
    };
    if (v == g) {
      for (size_t c = 0; c < groups[g].candidate.size(); ++c) {
        const double more = seconds(groups[g].candidate[c], groups[g].candidate[c]);
        if (more == kImpossible) problem_.node[g][c].clear();
        for (MemoryProblem::Option& option : problem_.node[g][c]) option.seconds += more;
      }
      continue;
    }
    PairwiseProblem::Edge edge{g, v, {}};
    for (const GroupCandidate& a : groups[g].candidate) {
      for (const GroupCandidate& b : groups[v].candidate) edge.cost.push_back(seconds(a, b));
    }
    edge_to_.push_back(-1);
    problem_.edge.push_back(std::move(edge));
  }
  return absl::OkStatus();
}

// What a prediction writes.
absl::Status LayoutSearch::AddOutputs() {
  const ProgramPlan& program = groups_->serial().program(0);
  MovementCosts& movements = groups_->movements();
  for (const OutputPlan& output : program.output()) {
    const std::string& name = program.value(output.value()).name();
    const int g = groups_->GroupOf(name);
    for (size_t c = 0; c < groups_->groups()[g].candidate.size(); ++c) {
      const int lies = groups_->groups()[g].candidate[c].layout_of.at(name);
      const Layout stored = movements.Layouts()[lies];
      ADJOIN_ASSIGN_OR_RETURN(Layout written, FirstCopy(stored));
      if (job_.predict().classes() && written.dims() > 1) {
        ADJOIN_ASSIGN_OR_RETURN(written, WholeDim(written, 1));
      }
      const double more = movements.Seconds(lies, movements.AddRead(movements.Layouts().Add(written))).forward;
      for (MemoryProblem::Option& option : problem_.node[g][c]) option.seconds += more;
    }
  }
  return absl::OkStatus();
}

SearchOutcome LayoutSearch::Best(int64_t limit, const Allowed& allowed) const {
  if (allowed == nullptr) return MinimumUnder(problem_, limit);
  MemoryProblem fewer = problem_;
  for (size_t g = 0; g < fewer.node.size(); ++g) {
    if (groups_->groups()[g].pinned) continue;
    for (size_t c = 0; c < fewer.node[g].size(); ++c) {
      if (!allowed(static_cast<int>(g), groups_->groups()[g].candidate[c])) fewer.node[g][c].clear();
    }
  }
  return MinimumUnder(fewer, limit);
}

int64_t LayoutSearch::candidates() const {
  int64_t count = 0;
  for (const LayerGroup& group : groups_->groups()) count += static_cast<int64_t>(group.candidate.size());
  return count;
}

double LayoutSearch::EdgeSeconds(const SearchOutcome& outcome, int group) const {
  double seconds = 0;
  for (size_t e = 0; e < problem_.edge.size(); ++e) {
    if (edge_to_[e] != group) continue;
    const PairwiseProblem::Edge& edge = problem_.edge[e];
    seconds += edge.cost[outcome.choice[edge.a] * problem_.node[edge.b].size() + outcome.choice[edge.b]];
  }
  return seconds;
}

JobSpec LayoutSearch::Write(const SearchOutcome& outcome) const {
  JobSpec cut = job_;
  cut.clear_layout();
  for (Layer& layer : *cut.mutable_layer()) layer.clear_y();
  const std::vector<LayerGroup>& groups = groups_->groups();
  MovementCosts& movements = groups_->movements();
  std::set<std::string> used;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupCandidate& candidate = groups[g].candidate[outcome.choice[g]];
    const GroupCandidate::Option& option = candidate.option[outcome.option[g]];
    const int first = groups[g].layer[0];
    Layer& layer = *cut.mutable_layer(first);
    layer.set_y(candidate.y);
    layer.set_w(candidate.w);
    // An input that lies so already is not named; fields always are.
    bool named = groups[g].pinned || !candidate.w.empty() || !candidate.y.empty();
    for (size_t i = 0; i < candidate.x.size(); ++i) {
      const std::string input = layer.input().empty() ? job_.layer(first - 1).name() : layer.input(static_cast<int>(i));
      bool lies = groups_->IsLayer(input);
      if (lies) {
        const int from = groups_->GroupOf(input);
        const Layout& stored = movements.Layouts()[groups[from].candidate[outcome.choice[from]].layout_of.at(input)];
        JobSpec one;
        one.set_ranks(job_.ranks());
        *one.mutable_rank_weight() = job_.rank_weight();
        *one.add_layout() = groups_->layouts().at(candidate.x[i]);
        const auto layouts = NamedLayouts::Create(one);
        const auto wanted = layouts->Resolve(candidate.x[i], stored.shape(), stored.dtype());
        lies = wanted.ok() && *wanted == stored;
      }
      named = named || !lies;
    }
    if (named && job_.ranks() > 1) {
      for (const std::string& x : candidate.x) layer.add_x(x);
      used.insert(candidate.x.begin(), candidate.x.end());
    }
    used.insert(candidate.y);
    used.insert(candidate.w);
    for (const int member : groups[g].layer) {
      Layer& own = *cut.mutable_layer(member);
      if (option.recompute) own.set_recompute(true);
      const auto cost = candidate.cost_of.find(own.name());
      bool has_parameters = own.has_transformer();
      // Some layers of a group can have no other home: they have buffers only.
      for (size_t h = 0; cost != candidate.cost_of.end() && h < cost->second->home.size(); ++h) {
        has_parameters = has_parameters || cost->second->home[h].home == option.home;
      }
      if (has_parameters && option.home != HOME_DEFAULT) own.set_home(option.home);
    }
  }
  for (const std::string& name : used) {
    if (!name.empty()) *cut.add_layout() = groups_->layouts().at(name);
  }
  return cut;
}

}  // namespace adjoin
