#include "planner/time/step_time.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "layers/conv/edge_roles.h"
#include "layers/rules/find_program.h"
#include "layers/rules/program_order.h"
#include "layers/rules/recomputed_runs.h"
#include "layers/rules/roles.h"
#include "planner/memory/local_sizes.h"
#include "planner/memory/tensor_bytes.h"
#include "planner/plan/gradient_buckets.h"
#include "planner/plan/pipeline_stages.h"
#include "planner/time/rank_rates.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/window_edges.h"

namespace adjoin {
namespace {

constexpr int kMostLooked = 16;  // ranks, of a job that has no more
constexpr int kLookedOfMany = 3;
constexpr int kMany = 256;

std::vector<int> RanksToLookAt(int ranks, const std::vector<double>& slowness) {
  const std::vector<int> of_each_rate = RanksOfEachRate(slowness);
  std::set<int> found(of_each_rate.begin(), of_each_rate.end());
  const int count = ranks <= kMostLooked ? ranks : ranks <= kMany ? 8 : kLookedOfMany;
  for (int i = 0; i < count; ++i) {
    found.insert(static_cast<int>(static_cast<int64_t>(i) * (ranks - 1) / std::max(1, count - 1)));
  }
  return {found.begin(), found.end()};
}

// The clocks of the ranks that are looked at.
class Clocks {
 public:
  struct Rank {
    double now = 0, compute = 0, movement = 0, wait = 0;
  };
  explicit Clocks(size_t ranks) : rank_(ranks) {}

  void Compute(size_t rank, double seconds) {
    rank_[rank].now += seconds;
    rank_[rank].compute += seconds;
  }
  // `began`: when each rank's part of it could have gone; its own time where a rank takes no part.
  void Move(const std::vector<double>& seconds, const std::vector<bool>& joined, const std::vector<double>& began) {
    double last = 0;
    for (size_t i = 0; i < rank_.size(); ++i) last = joined[i] ? std::max(last, began[i]) : last;
    for (size_t i = 0; i < rank_.size(); ++i) {
      const double wait = joined[i] ? std::max(0.0, last - rank_[i].now) : 0;
      rank_[i].wait += wait;
      rank_[i].movement += seconds[i];
      rank_[i].now += wait + seconds[i];
    }
  }
  void Meet() {
    const std::vector<bool> all(rank_.size(), true);
    Move(std::vector<double>(rank_.size(), 0), all, Now());
  }
  std::vector<double> Now() const {
    std::vector<double> now;
    for (const Rank& rank : rank_) now.push_back(rank.now);
    return now;
  }
  const std::vector<Rank>& rank() const { return rank_; }

 private:
  std::vector<Rank> rank_;
};

struct Moved {
  std::vector<double> seconds;  // by rank that is looked at
  std::vector<bool> joined;     // it sends or receives
};

class Timeline {
 public:
  Timeline(const Plan& plan, const ProgramPlan& program, const CostModel& model, const StepTimeOptions& options)
      : plan_(plan),
        program_(program),
        model_(model),
        options_(options),
        slowness_(SlownessOfRanks(plan.spec())),
        ranks_(RanksToLookAt(static_cast<int>(plan.spec().ranks()), slowness_)),
        clocks_(ranks_.size()) {}

  absl::StatusOr<StepTime> Run();

 private:
  struct Step {
    std::vector<CostModel::KernelSeconds> seconds;       // by rank that is looked at
    std::vector<CostModel::KernelSeconds> edge_seconds;  // of the kernels on the edges; none: no edges
    std::vector<uint32_t> before, edges, after;          // operators, in order
    std::set<uint32_t> parameters;                       // those of `before` that move parameters ahead
    std::vector<double> began = {};                      // when these were started; empty: they are not
    // Backward: gradients of values that several layers read, and parts that are put together with their halos.
    std::vector<double> adds;
    bool needs_grad = false;
    std::vector<StepTime::Layer> time;  // by rank that is looked at
  };

  // Parts of a batch, which go through the network one after another.
  int64_t Passes() const {
    return static_cast<int64_t>(std::clamp<uint64_t>(plan_.spec().train().microbatches(), 1, 1 << 30));
  }
  double OnItsCore(double seconds) const { return seconds * options_.ranks_per_core; }
  // A kernel's seconds on a rank that is looked at.
  double Computed(size_t i, double seconds) const {
    return OnItsCore(slowness_.empty() ? seconds : seconds * slowness_[ranks_[i]]);
  }
  absl::StatusOr<Moved> MovedBy(const OperatorPlan& op, bool adjoint);
  absl::Status Prepare(int index);
  absl::Status PrepareLosses();
  absl::Status MoveOf(Step& step, uint32_t op, bool adjoint, const std::vector<double>* began = nullptr);
  void ComputeOf(Step& step, bool backward, bool edges);
  void StartParameters(int layer) { layers_[layer].began = clocks_.Now(); }
  absl::Status Forward(Step& step);
  absl::Status ForwardOfLayers(int first, int end);
  // `ahead`: the gradients of its parameters travel until EndTravel.
  absl::Status Backward(Step& step, bool ahead);
  absl::Status EndTravel(Step* step);
  absl::Status BackwardOfLayer(int layer, bool ahead);
  absl::Status ComputeAgain(const LayerStretch& stretch);
  absl::Status Pass();
  absl::Status SumGradients();
  void Update();

  const Plan& plan_;
  const ProgramPlan& program_;
  const CostModel& model_;
  const StepTimeOptions options_;
  const std::vector<double> slowness_;  // by rank; empty: all are as fast
  const std::vector<int> ranks_;
  Clocks clocks_;
  std::optional<PipelineStages> stages_;  // of a program with several micro-batches in flight
  std::vector<Step> layers_;
  std::vector<Step> losses_;
  std::vector<RecomputedRun> recomputed_;
  std::vector<LayerStretch> stretches_;
  Step* travels_ = nullptr;                                               // whose parameters' gradients travel
  std::vector<GradientSum> sums_;                                         // traffic_ knows them by their addresses
  using RanksTraffic = std::vector<std::pair<RankTraffic, RankTraffic>>;  // forward and adjoint, by rank looked at
  std::map<const OperatorPlan*, RanksTraffic> traffic_;
  PlanGeometry geometry_;
  std::set<uint32_t> read_;                          // values that a layer before has read
  std::vector<std::vector<int64_t>> home_elements_;  // by rank that is looked at, of each trained parameter
};

absl::StatusOr<Moved> Timeline::MovedBy(const OperatorPlan& op, bool adjoint) {
  auto found = traffic_.find(&op);
  if (found == traffic_.end()) {
    ADJOIN_ASSIGN_OR_RETURN(const MovementEnds* ends, geometry_.EndsOf(op));
    ADJOIN_ASSIGN_OR_RETURN(const TwoWayTraffic traffic, TwoWayTrafficOf(*ends));
    RanksTraffic of_ranks(ranks_.size());
    for (size_t i = 0; i < ranks_.size() && !traffic.is_identity; ++i) {
      const size_t rank = static_cast<size_t>(ranks_[i]);
      if (rank < traffic.forward.rank.size()) of_ranks[i].first = traffic.forward.rank[rank];
      if (rank < traffic.adjoint.rank.size()) of_ranks[i].second = traffic.adjoint.rank[rank];
    }
    found = traffic_.emplace(&op, std::move(of_ranks)).first;
  }
  Moved moved;
  for (const auto& [forward, back] : found->second) {
    const RankTraffic& rank = adjoint ? back : forward;
    moved.seconds.push_back(OnItsCore(model_.OfMovement(rank, options_.lane)));
    moved.joined.push_back(rank.messages_sent + rank.messages_received > 0);
  }
  return moved;
}

// A slab that the kernel computes again where a neighbour's cells have come.
LayerSizes SlabOf(const LayerSizes& sizes, size_t dim, const WindowEdges::Side& side) {
  LayerSizes slab = sizes;
  slab.edge.clear();
  slab.input[0][dim] = std::min(slab.input[0][dim], side.reads);
  slab.output[dim] = std::min(slab.output[dim], side.outputs);
  return slab;
}

absl::Status Timeline::Prepare(int index) {
  const LayerPlan& layer = program_.layer(index);
  Step step;
  step.needs_grad = program_.value(layer.output()).needs_grad();
  bool input_gradient = false, trained = false;
  std::set<std::string> roles;  // of parameters
  for (const uint32_t input : layer.input()) input_gradient = input_gradient || program_.value(input).needs_grad();
  for (const ParameterUse& use : layer.parameter()) {
    const ParameterPlan& parameter = plan_.parameter(use.index());
    trained = trained || (!parameter.frozen() && !parameter.buffer());
    roles.insert(use.role());
  }
  for (const OperatorUse& use : layer.op()) {
    const bool edge = use.role().rfind(EdgeRole(2).substr(0, EdgeRole(2).size() - 1), 0) == 0;
    (use.role() == kRoleOutput ? step.after : edge ? step.edges : step.before).push_back(use.index());
    const bool between = stages_.has_value() && stages_->Between(program_.op(static_cast<int>(use.index())));
    if (roles.count(use.role()) > 0 && !between) step.parameters.insert(use.index());
  }
  for (const int rank : ranks_) {
    ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(plan_, program_, layer, rank, &geometry_));
    step.seconds.push_back(model_.OfLayer(layer.spec(), local.sizes, input_gradient, trained));
    CostModel::KernelSeconds edges;
    for (size_t dim = 2; dim < local.sizes.edge.size(); ++dim) {
      for (const WindowEdges::Side& side : local.sizes.edge[dim].FromNeighbours()) {
        const auto slab = model_.OfLayer(layer.spec(), SlabOf(local.sizes, dim, side), input_gradient, trained);
        edges.forward += slab.forward;
        edges.backward += slab.backward;
      }
    }
    step.edge_seconds.push_back(edges);
    double adds = 0;
    // Part and halo are put together again, about as an addition takes.
    if (local.sizes.halo_apart.has_value())
      adds += model_.OfAdd(BoundedProduct(local.sizes.input[0]), local.sizes.type);
    for (int i = 0; i < layer.input_size(); ++i) {
      if (!program_.value(layer.input(i)).needs_grad() || read_.count(layer.input(i)) == 0) continue;
      adds += model_.OfAdd(BoundedProduct(local.sizes.input[i]), local.sizes.type);
    }
    step.adds.push_back(adds);
  }
  for (const uint32_t input : layer.input()) read_.insert(input);
  step.time.resize(ranks_.size());
  for (StepTime::Layer& time : step.time) time.name = layer.name();
  layers_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status Timeline::PrepareLosses() {
  for (const LossPlan& loss : program_.loss()) {
    Step step;
    step.needs_grad = true;
    for (const int rank : ranks_) {
      ADJOIN_ASSIGN_OR_RETURN(const LocalSizes local, LocalSizesOf(program_, loss, rank));
      step.seconds.push_back(model_.OfLoss(loss.spec(), local.sizes));
    }
    for (const OperatorUse& use : loss.op()) step.before.push_back(use.index());
    step.adds.resize(ranks_.size());
    step.edge_seconds.resize(ranks_.size());
    step.time.resize(ranks_.size());
    losses_.push_back(std::move(step));
  }
  return absl::OkStatus();
}

absl::Status Timeline::MoveOf(Step& step, uint32_t op, bool adjoint, const std::vector<double>* began) {
  const OperatorPlan& plan = program_.op(static_cast<int>(op));
  if (adjoint && !plan.differentiable()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(Moved moved, MovedBy(plan, adjoint));
  // A node of the graph on every rank, which the rates of movements do not have: forward it is made, backward it runs.
  const double call = plan.differentiable() ? OnItsCore(model_.OfCall()) : 0;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    moved.seconds[i] += call;
    step.time[i].movement += moved.seconds[i];
  }
  clocks_.Move(moved.seconds, moved.joined, began != nullptr ? *began : clocks_.Now());
  return absl::OkStatus();
}

void Timeline::ComputeOf(Step& step, bool backward, bool edges) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const CostModel::KernelSeconds& of = edges ? step.edge_seconds[i] : step.seconds[i];
    const double seconds = Computed(i, backward ? of.backward + (edges ? 0 : step.adds[i]) : of.forward);
    clocks_.Compute(i, seconds);
    (backward ? step.time[i].backward : step.time[i].forward) += seconds;
  }
}

absl::Status Timeline::Forward(Step& step) {
  const std::vector<double> started = std::exchange(step.began, {});
  for (const uint32_t op : step.before) {
    const bool ahead = !started.empty() && step.parameters.count(op) > 0;
    ADJOIN_RETURN_IF_ERROR(MoveOf(step, op, /*adjoint=*/false, ahead ? &started : nullptr));
  }
  const std::vector<double> began = clocks_.Now();
  ComputeOf(step, /*backward=*/false, /*edges=*/false);
  // They have travelled meanwhile.
  for (const uint32_t op : step.edges) ADJOIN_RETURN_IF_ERROR(MoveOf(step, op, /*adjoint=*/false, &began));
  if (!step.edges.empty()) ComputeOf(step, /*backward=*/false, /*edges=*/true);
  for (const uint32_t op : step.after) ADJOIN_RETURN_IF_ERROR(MoveOf(step, op, /*adjoint=*/false));
  return absl::OkStatus();
}

// Each layer's parameters travel while the one before computes.
absl::Status Timeline::ForwardOfLayers(int first, int end) {
  for (int i = first; i < end; ++i) {
    if (i + 1 < end) StartParameters(i + 1);
    ADJOIN_RETURN_IF_ERROR(Forward(layers_[i]));
  }
  return absl::OkStatus();
}

absl::Status Timeline::Backward(Step& step, bool ahead) {
  if (!step.needs_grad) return absl::OkStatus();
  for (auto op = step.after.rbegin(); op != step.after.rend(); ++op) {
    ADJOIN_RETURN_IF_ERROR(MoveOf(step, *op, /*adjoint=*/true));
  }
  if (!step.edges.empty()) ComputeOf(step, /*backward=*/true, /*edges=*/true);
  const std::vector<double> began = clocks_.Now();
  ComputeOf(step, /*backward=*/true, /*edges=*/false);
  for (auto op = step.edges.rbegin(); op != step.edges.rend(); ++op) {
    ADJOIN_RETURN_IF_ERROR(MoveOf(step, *op, /*adjoint=*/true, &began));
  }
  if (ahead) {
    step.began = clocks_.Now();
    travels_ = &step;
  }
  for (auto op = step.before.rbegin(); op != step.before.rend(); ++op) {
    if (ahead && step.parameters.count(*op) > 0) continue;
    ADJOIN_RETURN_IF_ERROR(MoveOf(step, *op, /*adjoint=*/true));
  }
  return absl::OkStatus();
}

absl::Status Timeline::EndTravel(Step* step) {
  if (step == nullptr) return absl::OkStatus();
  const std::vector<double> began = std::exchange(step->began, {});
  for (auto op = step->before.rbegin(); op != step->before.rend(); ++op) {
    if (step->parameters.count(*op) > 0) ADJOIN_RETURN_IF_ERROR(MoveOf(*step, *op, /*adjoint=*/true, &began));
  }
  return absl::OkStatus();
}

absl::Status Timeline::BackwardOfLayer(int layer, bool ahead) {
  Step* const travelled = std::exchange(travels_, nullptr);
  ADJOIN_RETURN_IF_ERROR(Backward(layers_[layer], ahead));
  return EndTravel(travelled);
}

// Counts as a part of the backward pass.
absl::Status Timeline::ComputeAgain(const LayerStretch& stretch) {
  const auto layers = absl::MakeSpan(layers_).subspan(stretch.first, stretch.end - stretch.first);
  std::vector<std::vector<StepTime::Layer>> before;
  for (const Step& step : layers) before.push_back(step.time);
  ADJOIN_RETURN_IF_ERROR(ForwardOfLayers(stretch.first, stretch.end));
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t k = 0; k < ranks_.size(); ++k) {
      StepTime::Layer& time = layers[i].time[k];
      time.backward += time.forward - before[i][k].forward;
      time.forward = before[i][k].forward;
    }
  }
  return absl::OkStatus();
}

absl::Status Timeline::Pass() {
  for (size_t n = 0; n < stretches_.size(); ++n) {
    if (n + 1 < stretches_.size()) StartParameters(stretches_[n + 1].first);
    ADJOIN_RETURN_IF_ERROR(ForwardOfLayers(stretches_[n].first, stretches_[n].end));
  }
  for (Step& step : losses_) ADJOIN_RETURN_IF_ERROR(Forward(step));
  for (auto step = losses_.rbegin(); step != losses_.rend(); ++step) {
    ADJOIN_RETURN_IF_ERROR(Backward(*step, /*ahead=*/false));
  }
  for (size_t n = stretches_.size(); n-- > 0;) {
    const LayerStretch& stretch = stretches_[n];
    if (stretch.again == nullptr) {
      ADJOIN_RETURN_IF_ERROR(BackwardOfLayer(stretch.first, /*ahead=*/n > 0));
      continue;
    }
    Step* const travelled = std::exchange(travels_, nullptr);
    ADJOIN_RETURN_IF_ERROR(ComputeAgain(stretch));
    for (int i = stretch.end - 1; i >= stretch.first; --i) {
      ADJOIN_RETURN_IF_ERROR(BackwardOfLayer(i, /*ahead=*/i > stretch.first));
    }
    ADJOIN_RETURN_IF_ERROR(EndTravel(travelled));
  }
  return absl::OkStatus();
}

absl::Status Timeline::SumGradients() {
  ADJOIN_ASSIGN_OR_RETURN(sums_, GradientSums(plan_));
  for (const GradientSum& sum : sums_) {
    ADJOIN_ASSIGN_OR_RETURN(const Moved moved, MovedBy(sum.movement, /*adjoint=*/false));
    clocks_.Move(moved.seconds, moved.joined, clocks_.Now());
  }
  return absl::OkStatus();
}

void Timeline::Update() {
  for (const ParameterPlan& parameter : plan_.parameter()) {
    if (parameter.frozen() || parameter.buffer()) continue;
    const auto found = geometry_.LayoutOf(parameter.home());
    if (!found.ok()) continue;  // not in a plan that the planner made
    const Layout* home = *found;
    // Each part of a batch adds its gradient to that of the parts before. The norm reads each gradient, and clipping or
    // undoing the loss's scale writes it: together as much as adding.
    const JobSpec& spec = plan_.spec();
    const bool needs_norm = spec.train().clip_norm() > 0 || spec.precision().loss_scale() > 0;
    const auto adds = static_cast<double>(Passes() - 1 + (needs_norm ? 1 : 0));
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const int64_t elements = BoundedProduct(home->LocalShape(ranks_[i]));
      if (home->LocalShape(ranks_[i]).empty()) continue;
      clocks_.Compute(i, Computed(i, adds * model_.OfAdd(elements, home->dtype())));
      clocks_.Compute(
          i, Computed(i, model_.OfUpdate(plan_.spec().train().optimizer(), elements, /*tensors=*/1, home->dtype())));
    }
  }
  for (size_t i = 0; i < ranks_.size(); ++i) clocks_.Compute(i, Computed(i, model_.OfStep()));
}

absl::StatusOr<StepTime> Timeline::Run() {
  if (plan_.spec().train().microbatches_in_flight() > 1) {
    ADJOIN_ASSIGN_OR_RETURN(stages_, PipelineStages::Of(plan_));
  }
  for (int i = 0; i < program_.layer_size(); ++i) ADJOIN_RETURN_IF_ERROR(Prepare(i));
  ADJOIN_RETURN_IF_ERROR(PrepareLosses());
  ADJOIN_ASSIGN_OR_RETURN(recomputed_, RecomputedRuns(program_));
  stretches_ = StretchesOf(program_, recomputed_);
  ADJOIN_RETURN_IF_ERROR(Pass());
  const std::vector<Clocks::Rank> passed = clocks_.rank();
  ADJOIN_RETURN_IF_ERROR(SumGradients());
  const std::vector<Clocks::Rank> summed = clocks_.rank();
  Update();
  const std::vector<Clocks::Rank> updated = clocks_.rank();
  if (static_cast<int>(program_.report_op()) < program_.op_size()) {
    ADJOIN_ASSIGN_OR_RETURN(const Moved moved, MovedBy(program_.op(program_.report_op()), /*adjoint=*/false));
    clocks_.Move(moved.seconds, moved.joined, clocks_.Now());
  }
  clocks_.Meet();
  // Each part of a batch goes through the network in the same way.
  const auto passes = static_cast<double>(Passes());
  size_t busiest = 0;
  for (size_t i = 1; i < ranks_.size(); ++i) {
    if (passed[i].compute > passed[busiest].compute) busiest = i;
  }
  const auto& end = clocks_.rank()[busiest];
  StepTime time;
  time.rank = ranks_[busiest];
  time.compute = passes * passed[busiest].compute;
  time.movement = passes * passed[busiest].movement;
  time.wait = passes * passed[busiest].wait + (end.wait - updated[busiest].wait);
  time.gradient = summed[busiest].now - passed[busiest].now;
  time.update = (updated[busiest].now - summed[busiest].now) + (end.movement - updated[busiest].movement);
  for (const Step& step : layers_) {
    time.layer.push_back(step.time[busiest]);
    time.layer.back().forward *= passes;
    time.layer.back().backward *= passes;
    time.layer.back().movement *= passes;
  }
  return time;
}

}  // namespace

absl::StatusOr<StepTime> PredictStepTime(const Plan& plan, const CostModel& model, const StepTimeOptions& options) {
  const ProgramPlan* program = FindProgram(plan, "train");
  if (program == nullptr) program = FindProgram(plan, "train_tail");
  if (program == nullptr || plan.spec().ranks() == 0) return absl::NotFoundError("the plan trains nothing");
  return Timeline(plan, *program, model, options).Run();
}

TimeReport ReportOf(const StepTime& time, const CostModel& model) {
  TimeReport report;
  report.set_rates(model.machine());
  report.set_step_seconds(time.step());
  report.set_compute_seconds(time.compute);
  report.set_movement_seconds(time.movement);
  report.set_wait_seconds(time.wait);
  report.set_gradient_seconds(time.gradient);
  report.set_update_seconds(time.update);
  for (const StepTime::Layer& layer : time.layer) {
    LayerTimeReport* of = report.add_layer();
    of->set_name(layer.name);
    of->set_forward_seconds(layer.forward);
    of->set_backward_seconds(layer.backward);
    of->set_movement_seconds(layer.movement);
  }
  return report;
}

}  // namespace adjoin
