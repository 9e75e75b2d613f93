#include "planner/auto/auto_plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/auto/layout_search.h"
#include "planner/auto/pins.h"

namespace adjoin {
namespace {

constexpr int kMostTightenings = 8;
// Sums that the search for next best choices may look at.
constexpr int64_t kMostWorkForNext = 100'000'000;

struct Judged {
  SearchOutcome outcome;
  JobSpec spec;
  Plan plan;
  RankMemory memory;
};

class Chooser {
 public:
  Chooser(const JobSpec& job, const DatasetSizes& sizes, const LayerRules& rules, const CostModel& model,
          const AutoOptions& options)
      : job_(job), sizes_(sizes), rules_(rules), model_(model), options_(options) {}

  absl::StatusOr<AutoPlan> Run();

 private:
  absl::Status Prepare();
  absl::Status Search(bool thrifty);
  absl::StatusOr<Judged> Judge(SearchOutcome outcome) const;
  absl::StatusOr<Judged> Choose();
  absl::StatusOr<Judged> Tighten(Judged best);
  void Report(const Judged& best, AutoPlan& chosen) const;
  void AddNext(const Judged& best, SearchReport& report) const;
  void AddAlternatives(SearchReport& report) const;
  void AddAlternative(const std::string& what, const LayoutSearch::Allowed& allowed, SearchReport& report) const;
  std::string LayoutText(const GroupCandidate& candidate) const;

  const JobSpec& job_;
  const DatasetSizes& sizes_;
  const LayerRules& rules_;
  const CostModel& model_;
  const AutoOptions& options_;
  int ranks_ = 1;
  int64_t limit_ = 0;  // 0: none
  std::map<std::string, LayoutSpec> pins_;
  JobSpec bare_;
  Plan serial_;
  std::unique_ptr<LayoutSearch> search_;
};

// Layers that are not alike, and may be cut in ways of their own: with weights, or with several inputs.
int64_t DifferentLayers(const Plan& serial) {
  const ProgramPlan& program = serial.program(0);
  std::set<std::string> different;
  for (const LayerPlan& layer : program.layer()) {
    bool free = layer.input_size() > 1;
    for (const ParameterUse& use : layer.parameter()) {
      free = free || serial.parameter(static_cast<int>(use.index())).home().shape_size() > 1;
    }
    if (!free) continue;
    Layer alike = layer.spec();
    alike.clear_name();
    alike.clear_input();
    std::string key = alike.SerializeAsString();
    for (const uint32_t input : layer.input()) {
      absl::StrAppend(&key, ",", absl::StrJoin(program.value(static_cast<int>(input)).layout().shape(), "x"));
    }
    different.insert(std::move(key));
  }
  return static_cast<int64_t>(different.size());
}

// So many that pairs of candidates stay few enough to be counted in a second.
int MostCandidates(int ranks, const Plan& serial) {
  if (ranks <= 8) return 40;
  const double pairs = ranks <= 64 ? 40'000 : 25'000;
  const double each = std::sqrt(pairs / static_cast<double>(std::max<int64_t>(1, DifferentLayers(serial))));
  return std::clamp(static_cast<int>(each), 12, 28);
}

absl::Status Chooser::Prepare() {
  const int64_t ranks = options_.ranks != 0 ? options_.ranks : job_.ranks();
  if (ranks < 1 || ranks > Planner::kMaxRanks) {
    return InvalidSpec("--ranks is ", ranks, "; it must be from 1 to ", Planner::kMaxRanks);
  }
  ranks_ = static_cast<int>(ranks);
  limit_ = options_.memory_bytes != 0 ? options_.memory_bytes : static_cast<int64_t>(job_.resources().memory_bytes());
  if (limit_ < 0) return InvalidSpec("--memory must be above 0");
  ADJOIN_ASSIGN_OR_RETURN(pins_, ParsePins(options_.pin, job_, ranks_));
  bare_ = WithoutLayouts(job_, ranks_);
  if (bare_.rank_weight_size() != ranks_) bare_.clear_rank_weight();
  JobSpec alone = WithoutLayouts(job_, 1);
  alone.clear_rank_weight();
  ADJOIN_ASSIGN_OR_RETURN(serial_, Planner::Build(alone, sizes_, rules_));
  if (serial_.program().empty()) return InvalidSpec("the job does nothing");
  return absl::OkStatus();
}

absl::Status Chooser::Search(bool thrifty) {
  LayerGroupsOptions options;
  options.ranks = ranks_;
  options.most_candidates = MostCandidates(ranks_, serial_);
  options.recompute = options.all_homes = thrifty;
  options.pin = pins_;
  auto search = LayoutSearch::Create(bare_, serial_, rules_, model_, std::move(options));
  if (!search.ok()) return Located(search.status(), bare_, nullptr);
  search_ = *std::move(search);
  return absl::OkStatus();
}

absl::StatusOr<Judged> Chooser::Judge(SearchOutcome outcome) const {
  Judged judged;
  judged.spec = search_->Write(outcome);
  judged.outcome = std::move(outcome);
  ADJOIN_ASSIGN_OR_RETURN(judged.plan, Planner::Build(judged.spec, sizes_, rules_));
  ADJOIN_ASSIGN_OR_RETURN(judged.memory, PredictLargestMemory(judged.plan));
  return judged;
}

absl::StatusOr<Judged> Chooser::Choose() {
  ADJOIN_RETURN_IF_ERROR(Search(/*thrifty=*/false));
  SearchOutcome fastest = search_->Best(-1);
  if (fastest.choice.empty()) return InvalidSpec("no choice of layouts is possible together with the pins");
  ADJOIN_ASSIGN_OR_RETURN(Judged best, Judge(std::move(fastest)));
  if (limit_ == 0 || best.memory.bytes <= limit_) return best;
  // Now with all that takes less memory and more time.
  ADJOIN_RETURN_IF_ERROR(Search(/*thrifty=*/true));
  SearchOutcome again = search_->Best(-1);
  ADJOIN_ASSIGN_OR_RETURN(best, Judge(std::move(again)));
  if (best.memory.bytes <= limit_) return best;
  return Tighten(std::move(best));
}

// `best`: the fastest, which is too large.
absl::StatusOr<Judged> Chooser::Tighten(Judged best) {
  // What a plan needs beside the sum that the search counts.
  int64_t more = best.memory.bytes - best.outcome.bytes;
  RankMemory least = best.memory;
  for (int i = 0; i < kMostTightenings; ++i) {
    SearchOutcome outcome = search_->Best(std::max<int64_t>(0, limit_ - more));
    const bool smallest = outcome.choice.empty();
    if (smallest) outcome = search_->Best(outcome.least_bytes);
    if (outcome.choice.empty()) break;
    ADJOIN_ASSIGN_OR_RETURN(Judged judged, Judge(std::move(outcome)));
    if (judged.memory.bytes < least.bytes) least = judged.memory;
    if (judged.memory.bytes <= limit_) return judged;
    if (smallest) break;
    more += std::max<int64_t>(judged.memory.bytes - limit_, limit_ / 128);
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "nothing fits %.1f MiB for the tensors of each of %d ranks: the least that was found needs %.1f MiB (%d bytes) "
      "on "
      "rank %d, in the %s%s; use more ranks, micro-batches (train.microbatches), or more memory",
      static_cast<double>(limit_) / (1 << 20), ranks_, static_cast<double>(least.bytes) / (1 << 20), least.bytes,
      least.rank, least.during,
      least.largest.empty() ? "" : absl::StrCat(", where layer \"", least.largest[0].layer, "\" holds most")));
}

std::string Chooser::LayoutText(const GroupCandidate& candidate) const {
  std::string text = candidate.x.empty() ? "" : candidate.x[0];
  if (!candidate.y.empty()) absl::StrAppend(&text, " -> ", candidate.y);
  if (!candidate.w.empty()) absl::StrAppend(&text, " w ", candidate.w);
  return text;
}

void Chooser::Report(const Judged& best, AutoPlan& chosen) const {
  const std::vector<LayerGroup>& groups = search_->groups().groups();
  SearchReport& report = chosen.report;
  report.set_variables(static_cast<int64_t>(groups.size()));
  report.set_candidates(search_->candidates());
  report.set_lower_bound_seconds(best.outcome.lower_bound + search_->step_seconds());
  report.set_chosen_seconds(best.outcome.seconds + search_->step_seconds());
  report.set_memory_limit_bytes(limit_);
  std::vector<std::pair<int, size_t>> order;
  for (size_t g = 0; g < groups.size(); ++g) order.emplace_back(groups[g].layer[0], g);
  std::sort(order.begin(), order.end());
  for (const auto& [first, g] : order) {
    const GroupCandidate& candidate = groups[g].candidate[best.outcome.choice[g]];
    const GroupCandidate::Option& option = candidate.option[best.outcome.option[g]];
    ChoiceReport* choice = report.add_choice();
    choice->set_layer(bare_.layer(first).name());
    std::string text = LayoutText(candidate);
    if (option.home == SHARDED) absl::StrAppend(&text, " sharded");
    if (option.home == OWNER) absl::StrAppend(&text, " owner");
    if (option.recompute) absl::StrAppend(&text, " recompute");
    choice->set_layout(text);
    AutoPlan::LayerSeconds seconds;
    seconds.layer = bare_.layer(first).name();
    for (size_t i = 1; i < groups[g].layer.size(); ++i) {
      seconds.with.push_back(bare_.layer(groups[g].layer[i]).name());
    }
    const double edges = search_->EdgeSeconds(best.outcome, static_cast<int>(g));
    seconds.compute = search_->groups().passes() * candidate.compute_seconds;
    seconds.movement = search_->groups().passes() * candidate.movement_seconds + edges;
    seconds.bytes = option.bytes;
    chosen.layer.push_back(std::move(seconds));
  }
}

// The best other choice of each layer, everything else chosen anew; of the layers that take longest, first.
void Chooser::AddNext(const Judged& best, SearchReport& report) const {
  const std::vector<LayerGroup>& groups = search_->groups().groups();
  std::vector<std::pair<double, size_t>> order;
  for (size_t g = 0; g < groups.size(); ++g) {
    const GroupCandidate& candidate = groups[g].candidate[best.outcome.choice[g]];
    if (groups[g].candidate.size() > 1) order.emplace_back(-candidate.option[best.outcome.option[g]].seconds, g);
  }
  std::sort(order.begin(), order.end());
  int64_t work = 0;
  for (const auto& [seconds, g] : order) {
    if (work > kMostWorkForNext) break;
    const GroupCandidate* const taken = &groups[g].candidate[best.outcome.choice[g]];
    const SearchOutcome other =
        search_->Best(limit_ == 0 ? -1 : best.outcome.bytes,
                      [&, at = static_cast<int>(g)](int group, const GroupCandidate& candidate) {
                        return group != at || &candidate != taken;
                      });
    work += std::max<int64_t>(other.work, 1);
    if (other.choice.empty()) continue;
    for (ChoiceReport& choice : *report.mutable_choice()) {
      if (choice.layer() != bare_.layer(groups[g].layer[0]).name()) continue;
      choice.set_next(LayoutText(groups[g].candidate[other.choice[g]]));
      choice.set_next_seconds(other.seconds - best.outcome.seconds);
      choice.set_next_bytes(other.bytes - best.outcome.bytes);
    }
  }
}

void Chooser::AddAlternative(const std::string& what, const LayoutSearch::Allowed& allowed,
                             SearchReport& report) const {
  AlternativeReport* alternative = report.add_alternative();
  alternative->set_what(what);
  SearchOutcome outcome = search_->Best(-1, allowed);
  if (outcome.choice.empty()) {
    alternative->set_impossible("not all layers can be cut so");
    return;
  }
  alternative->set_step_seconds(outcome.seconds + search_->step_seconds());
  const absl::StatusOr<Judged> judged = Judge(std::move(outcome));
  if (judged.ok()) {
    alternative->set_bytes(judged->memory.bytes);
  } else {
    alternative->set_impossible(std::string(judged.status().message()));
  }
}

void Chooser::AddAlternatives(SearchReport& report) const {
  if (ranks_ == 1) return;
  const std::vector<LayerGroup>& groups = search_->groups().groups();
  const auto cuts_only = [this](const GroupCandidate& candidate, int dim) {
    const std::vector<WorkCut::Axis>& axis = candidate.cut.axis;
    return axis.size() == 1 && !axis[0].outputs && axis[0].dim == dim && axis[0].parts == ranks_;
  };
  AddAlternative(
      "all data-parallel", [&](int, const GroupCandidate& candidate) { return cuts_only(candidate, 0); }, report);
  for (int dim = 2; dim < 5; ++dim) {
    // Layers that cannot be cut there are free.
    std::vector<bool> can(groups.size(), false);
    bool any = false;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const GroupCandidate& candidate : groups[g].candidate) can[g] = can[g] || cuts_only(candidate, dim);
      any = any || can[g];
    }
    if (!any) continue;
    AddAlternative(
        absl::StrCat("all spatial in dim ", dim),
        [&](int group, const GroupCandidate& candidate) { return !can[group] || cuts_only(candidate, dim); }, report);
  }
  if (job_.layout().empty() || static_cast<int>(job_.ranks()) != ranks_) return;
  AlternativeReport* written = report.add_alternative();
  written->set_what("as written");
  const absl::StatusOr<Plan> plan = Planner::Build(job_, sizes_, rules_);
  if (!plan.ok()) {
    written->set_impossible(std::string(plan.status().message()));
    return;
  }
  const absl::StatusOr<RankMemory> memory = PredictLargestMemory(*plan);
  if (memory.ok()) written->set_bytes(memory->bytes);
}

absl::StatusOr<AutoPlan> Chooser::Run() {
  const auto start = std::chrono::steady_clock::now();
  ADJOIN_RETURN_IF_ERROR(Prepare());
  ADJOIN_ASSIGN_OR_RETURN(Judged best, Choose());
  AutoPlan chosen;
  Report(best, chosen);
  chosen.report.set_search_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (options_.explain) {
    AddNext(best, chosen.report);
    AddAlternatives(chosen.report);
  }
  chosen.spec = std::move(best.spec);
  chosen.plan = std::move(best.plan);
  chosen.memory = std::move(best.memory);
  return chosen;
}

}  // namespace

absl::StatusOr<AutoPlan> PlanAutomatically(const JobSpec& job, const DatasetSizes& sizes, const LayerRules& rules,
                                           const CostModel& model, const AutoOptions& options) {
  return Chooser(job, sizes, rules, model, options).Run();
}

}  // namespace adjoin
