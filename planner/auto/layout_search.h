// Searches the layouts of a job: the least predicted time of a step, under a limit of memory where there is one.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<LayoutSearch> search, LayoutSearch::Create(job, serial, rules, model,
//   {...})); const SearchOutcome best = search->Best(/*limit=*/-1); ADJOIN_ASSIGN_OR_RETURN(JobSpec cut,
//   search->Write(best));    // the job with the layouts as ordinary text
//
// Candidates: layer_groups.h; the search itself: memory_multiplier.h and pairwise_minimum.h. Its memory is a sum over
// layers of what stays until the backward pass; what a plan needs exactly, planner/memory says.
#ifndef ADJOIN_PLANNER_AUTO_LAYOUT_SEARCH_H_
#define ADJOIN_PLANNER_AUTO_LAYOUT_SEARCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/auto/layer_groups.h"
#include "planner/auto/memory_multiplier.h"
#include "planner/time/rank_rates.h"
#include "proto/job.pb.h"

namespace adjoin {

using SearchOutcome = MemoryMinimum;  // by group: the candidate and its option

class LayoutSearch {
 public:
  // `job`: without layouts (WithoutLayouts). All must outlive it. Errors: as LayerGroups::Create.
  static absl::StatusOr<std::unique_ptr<LayoutSearch>> Create(const JobSpec& job, const Plan& serial,
                                                              const LayerRules& rules, const CostModel& model,
                                                              LayerGroupsOptions options);

  // `allowed`: which candidates of a group may be taken; absent: all. Those of pinned layers always may.
  using Allowed = std::function<bool(int group, const GroupCandidate& candidate)>;
  SearchOutcome Best(int64_t limit, const Allowed& allowed = nullptr) const;

  // Returns the job with the layouts of a choice written into it, as few fields as are needed.
  JobSpec Write(const SearchOutcome& outcome) const;

  const LayerGroups& groups() const { return *groups_; }
  const MemoryProblem& problem() const { return problem_; }
  // What a step takes beside the layers.
  double step_seconds() const { return step_seconds_; }
  int64_t candidates() const;
  // Seconds of the movements between groups into this one, in a choice.
  double EdgeSeconds(const SearchOutcome& outcome, int group) const;

 private:
  LayoutSearch(std::unique_ptr<LayerGroups> groups, const JobSpec& job, const CostModel& model)
      : groups_(std::move(groups)), job_(job), model_(model), slowness_(SlownessOfRanks(job)) {}
  void AddEdges();
  void AddSharedWeights();
  absl::Status AddLosses();
  absl::Status AddOutputs();
  double LossSeconds(const LossPlan& loss, const Layout& prediction, const Layout* variance) const;

  std::unique_ptr<LayerGroups> groups_;
  const JobSpec& job_;
  const CostModel& model_;
  MemoryProblem problem_;
  std::vector<int> edge_to_;  // by edge of the problem: the group that reads; -1: a loss's, or of shared weights
  double step_seconds_ = 0;
  const std::vector<double> slowness_;  // by rank; empty: all are as fast
};

// The job without layouts, homes and recomputation, on `ranks` ranks; weights of another number of ranks are left out.
JobSpec WithoutLayouts(const JobSpec& job, int ranks);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_LAYOUT_SEARCH_H_
