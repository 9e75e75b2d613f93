// A job's layers as variables of the search: groups of layers, each with candidates.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LayerGroups> groups, LayerGroups::Create(...));
//
// A layer that computes where its input lies has no freedom of its own: it belongs to the group of the layer that makes
// its input. Every other layer begins a group, whose candidates are cuts of this layer's work (cuts.h). What is
// possible, and what it takes, each layer's rule says; a block of layers (Layer.transformer) is one layer here.
#ifndef ADJOIN_PLANNER_AUTO_LAYER_GROUPS_H_
#define ADJOIN_PLANNER_AUTO_LAYER_GROUPS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layers/rules/layer_rule.h"
#include "planner/auto/cuts.h"
#include "planner/auto/layer_costs.h"
#include "planner/auto/movement_costs.h"
#include "planner/auto/resolved_layouts.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

// How one group may be computed. What touches no other group is chosen within: Option.
struct GroupCandidate {
  WorkCut cut;
  std::vector<std::string> x;  // of the first layer; names of LayoutSpecs in LayerGroups::layouts()
  std::string y, w;
  struct Option {
    Home home = HOME_DEFAULT;
    bool recompute = false;
    double seconds = 0;
    int64_t bytes = 0;
  };
  std::vector<Option> option;  // at least one, none of which is worse than another in both
  // What the first option's seconds are made of, for people: one forward and backward pass.
  double compute_seconds = 0, movement_seconds = 0;
  // What is read of other groups' values, and of values of this group in another layout (already counted).
  struct Outer {
    std::string value;  // the layer whose output it is
    int read = -1;
    bool grad = false;
  };
  std::vector<Outer> outer;
  std::map<std::string, int> layout_of;             // of the group's values, by layer: LayoutTable
  std::map<std::string, const LayerCost*> cost_of;  // by layer, the parts of blocks apart
};

struct LayerGroup {
  std::vector<int> layer;  // of the job; the first one has the freedom
  std::vector<GroupCandidate> candidate;
  bool pinned = false;
};

struct LayerGroupsOptions {
  int ranks = 1;
  int most_candidates = 24;
  bool recompute = false;  // whether it may be computed again
  bool all_homes = false;
  std::map<std::string, LayoutSpec> pin;  // by layer: in which layout it reads its inputs
};

class LayerGroups {
 public:
  // `job`: without layouts; `serial`: its plan on one rank. All must outlive it.
  // Errors: kInvalidArgument, at the layer (a pin that is not possible; a layer that can be cut in no way).
  static absl::StatusOr<std::unique_ptr<LayerGroups>> Create(const JobSpec& job, const Plan& serial,
                                                             const LayerRules& rules, const CostModel& model,
                                                             LayerGroupsOptions options);

  const std::vector<LayerGroup>& groups() const { return groups_; }
  // By layer, blocks' parts too.
  int GroupOf(const std::string& value) const { return group_of_.at(value); }
  bool IsLayer(const std::string& value) const { return group_of_.count(value) > 0; }
  const std::map<std::string, LayoutSpec>& layouts() const { return layouts_; }
  MovementCosts& movements() { return movements_; }
  const Plan& serial() const { return serial_; }
  const JobSpec& job() const { return job_; }
  int passes() const { return passes_; }  // micro-batches of a step
  bool training() const { return serial_.program(0).training(); }

 private:
  LayerGroups(const JobSpec& job, const Plan& serial, const LayerRules& rules, const CostModel& model,
              LayerGroupsOptions options);
  struct Value {
    std::vector<int64_t> shape;
    DType dtype = DType::kFloat32;
    bool grad = false;
    bool is_field = false;
  };
  // A layer of the job with its parts, written out for a candidate.
  struct Written {
    std::vector<Layer> layer;
    std::vector<std::string> alike;  // LayerCosts::Alike of each
    std::shared_ptr<ResolvedLayouts> layouts;
  };
  absl::Status AddLayer(int index);
  std::vector<std::string> InputsOf(int index) const;
  bool Attach(int index);
  absl::Status Begin(int index);
  absl::StatusOr<GroupCandidate> Pinned(int index, const LayoutSpec& pin);
  void AddCandidates(int index, const WorkCut& cut, const std::vector<int64_t>& of, std::vector<GroupCandidate>& found,
                     std::string* why);
  // Costs the layer of the job as the candidate says, and adds it. Errors: what the rule says.
  absl::Status Cost(int index, bool attached, GroupCandidate& candidate);
  absl::StatusOr<Written> Write(int index, bool attached, const GroupCandidate& candidate);
  // A job that has these of layouts_ and no layer.
  JobSpec JobWith(const std::set<std::string>& names) const;
  absl::StatusOr<std::shared_ptr<ResolvedLayouts>> LayoutsNamed(const std::set<std::string>& names);
  // The options of a candidate that has all its layers.
  void Finish(const LayerGroup& group, GroupCandidate& candidate);
  double Standing(const GroupCandidate& candidate);
  std::vector<GroupCandidate> Best(std::vector<GroupCandidate> found);

  const JobSpec& job_;
  const Plan& serial_;
  const LayerGroupsOptions options_;
  MovementCosts movements_;
  std::unique_ptr<LayerCosts> costs_;
  int passes_ = 1;
  std::map<std::string, Value> values_;        // by name: layers, parts of blocks, fields
  std::map<std::string, LayoutSpec> layouts_;  // what a name stands for never changes
  std::vector<std::string> alike_;             // by layer of the job: LayerCosts::Alike
  std::map<std::set<std::string>, std::shared_ptr<ResolvedLayouts>> resolved_;  // by the names of a candidate
  std::map<std::string, int> group_of_;
  std::set<std::string> shares_;  // layers that take part in sharing of weights
  std::vector<LayerGroup> groups_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_LAYER_GROUPS_H_
