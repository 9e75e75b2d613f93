// What a layer costs in given layouts, as its own rule says what it needs.
//
//   LayerCosts costs({...}, &movements);
//   const LayerCost& cost = costs.Of(layer, LayerCosts::Alike(layer), {input_layout}, {true}, layouts);
//   if (!cost.impossible.empty()) ...        // the rule refuses these layouts
//   movements.Seconds(producer_layout, cost.read[0]).forward;   // beside the layer's own seconds
//
// Layers that are alike but for their names are asked about once. Nothing of a kind of layer is known here.
#ifndef ADJOIN_PLANNER_AUTO_LAYER_COSTS_H_
#define ADJOIN_PLANNER_AUTO_LAYER_COSTS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "layers/rules/layer_rule.h"
#include "layers/rules/named_layouts.h"
#include "planner/auto/movement_costs.h"
#include "planner/memory/layer_memory.h"
#include "planner/time/cost_model.h"
#include "planner/time/rank_rates.h"
#include "primitives/geometry/dtype.h"
#include "proto/job.pb.h"

namespace adjoin {

// A layer's parameters where they live in one way.
struct HomeCost {
  Home home = HOME_DEFAULT;
  double seconds = 0;           // to move them and their gradients, and to update them, in a step
  double movement_seconds = 0;  // of these: to move
  int64_t bytes = 0;            // of them, their gradients and the optimizer's state, on the rank that has most
};

struct LayerCost {
  std::string impossible;      // what the rule says against it; empty: it can be
  std::string field;           // of Layer, at which it says so
  std::vector<int> read;       // by input: what of it is read (MovementCosts)
  int output = -1;             // layout
  double forward_seconds = 0;  // the busiest rank's kernel
  double backward_seconds = 0;
  double movement_seconds = 0;           // within the layer, forward and backward
  double again_seconds = 0;              // forward once more, movements included
  std::vector<HomeCost> home;            // the first is the rule's own; empty for a layer without parameters: none
  std::vector<ParameterNeed> parameter;  // where LayerCostsOptions.keeps_parameters says so
  int64_t weight_cells = 0;              // of parameters of two dims or more, on the rank that has most
  bool has_weights = false;              // parameters of two dims or more
  bool moves_input = false;              // reads an input in another layout than it is given in
  std::vector<int64_t> input_bytes;      // as read, on the rank that has most
  std::vector<bool> keeps_input;
  bool keeps_output = false;
  int64_t output_bytes = 0;
  int64_t kept_bytes = 0;  // besides inputs and output
  int64_t work_bytes = 0;  // at most at a time
  bool trained = false;    // has parameters that are
};

struct LayerCostsOptions {
  const LayerRules& rules;
  const CostModel& model;
  DType compute = DType::kFloat32;
  DType parameters = DType::kFloat32;
  bool training = false;
  Optimizer optimizer;
  int passes = 1;                 // micro-batches of a step
  bool all_homes = false;         // also homes other than the rule's own
  bool keeps_parameters = false;  // LayerCost::parameter is asked for
  // By rank, how many times as long it computes as the fastest (planner/time/rank_rates.h); empty: all are as fast.
  std::vector<double> slowness = {};
};

class LayerCosts {
 public:
  // All must outlive it.
  LayerCosts(LayerCostsOptions options, MovementCosts* movements)
      : options_(std::move(options)), movements_(*movements), looked_(RanksOfEachRate(options_.slowness)) {}

  // What a layer has in common with those that are like it but for names, inputs and layouts: the same in all its
  // candidates.
  static std::string Alike(Layer layer);
  // `alike`: of the layer. `inputs`: layouts (LayoutTable) in which the layer is given its inputs, as after Layer.x.
  // `input_grad`: which of them have a gradient. `layouts`: resolves w and y; `frozen`: of the owner of shared weights
  // as well. The answer stays valid.
  const LayerCost& Of(const Layer& layer, const std::string& alike, const std::vector<int>& inputs,
                      const std::vector<bool>& input_grad, const NamedLayouts& layouts);

 private:
  LayerCost Ask(const Layer& layer, const std::vector<int>& inputs, const std::vector<bool>& input_grad,
                const NamedLayouts& layouts);
  // `largest`: what a rank computes on that has the longest part of each dim.
  CostModel::KernelSeconds KernelOf(const LayerOutcome& outcome, const std::vector<Layout>& x,
                                    const LayerSizes& largest, bool input_gradient, bool trained) const;
  void CountKernel(const LayerOutcome& outcome, const std::vector<Layout>& x, const std::vector<bool>& input_grad,
                   LayerCost& cost);
  void CountInnerMovements(const LayerOutcome& outcome, bool input_grad, LayerCost& cost);
  HomeCost CountHome(const LayerOutcome& outcome, Home home, bool shares);
  double OneWay(const Layout& from, const ReadNeed& need, bool forward, bool adjoint);

  const LayerCostsOptions options_;
  MovementCosts& movements_;
  const std::vector<int> looked_;  // ranks of different speeds, the slowest among them; none: all are as fast
  std::unordered_map<std::string, LayerCost> known_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_LAYER_COSTS_H_
