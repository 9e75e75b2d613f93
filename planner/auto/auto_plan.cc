#include "planner/auto/auto_plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/amount_text.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/auto/layout_search.h"
#include "planner/auto/pairwise_minimum.h"
#include "planner/auto/pins.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/plan_report.h"
#include "planner/spec/whole_volumes.h"
#include "planner/time/step_time.h"

namespace adjoin {
namespace {

constexpr int kMostTightenings = 16;
// An alternative that nobody looks at is not judged where the search counts so many times the seconds of the choice.
constexpr double kHopeless = 2;
// Sums that the search for next best choices may look at.
constexpr int64_t kMostWorkForNext = 100'000'000;

struct Judged {
  SearchOutcome outcome;
  JobSpec spec;
  Plan plan;
  RankMemory memory;
  double seconds =
      0;  // of a step, as planner/time predicts it from the plan; where nothing trains, as the search counts
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
  // Without its memory.
  absl::StatusOr<Judged> JudgeTime(SearchOutcome outcome) const;
  double SecondsOf(const Plan& plan, double counted) const;
  absl::StatusOr<Judged> Choose();
  int GroupAtPeak(const RankMemory& memory) const;
  absl::StatusOr<Judged> Tighten(Judged best);
  void Report(const Judged& best, AutoPlan& chosen) const;
  void AddNext(const Judged& best, SearchReport& report) const;
  void AddWritten(SearchReport& report) const;
  // Judges the job cut in one way throughout; takes it for `best` where a step of its plan is predicted to be faster.
  // `least`: where one needs less memory, that.
  void TryUniform(Judged& best, SearchReport& report, RankMemory* least = nullptr) const;
  void TryUniform(const std::string& what, const LayoutSearch::Allowed& allowed, Judged& best, SearchReport& report,
                  RankMemory* least) const;
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
  ADJOIN_ASSIGN_OR_RETURN(serial_, Planner::Build(alone, sizes_, rules_, options_.locations));
  if (serial_.program().empty()) return InvalidSpec("the job does nothing");
  if (limit_ > 0 && !KnowsMemory(serial_)) {
    return InvalidSpec(
        "a limit of memory (--memory, resources.memory_bytes) cannot be met for whole volumes of different"
        " extents, whose memory is not known before; ",
        job_.kind() == TRAIN ? "" : "`adjoin plan` and `adjoin run` know it where the files are below --data-root; or ",
        "choose the layouts without one");
  }
  return absl::OkStatus();
}

absl::Status Chooser::Search(bool thrifty) {
  LayerGroupsOptions options;
  options.ranks = ranks_;
  options.most_candidates = MostCandidates(ranks_, serial_);
  options.recompute = options.all_homes = thrifty;
  options.pin = pins_;
  auto search = LayoutSearch::Create(bare_, serial_, rules_, model_, std::move(options));
  if (!search.ok()) return Located(search.status(), bare_, options_.locations);
  search_ = *std::move(search);
  return absl::OkStatus();
}

absl::StatusOr<Judged> Chooser::Judge(SearchOutcome outcome) const {
  ADJOIN_ASSIGN_OR_RETURN(Judged judged, JudgeTime(std::move(outcome)));
  ADJOIN_ASSIGN_OR_RETURN(judged.memory, PredictLargestMemory(judged.plan));
  return judged;
}

absl::StatusOr<Judged> Chooser::JudgeTime(SearchOutcome outcome) const {
  Judged judged;
  judged.spec = search_->Write(outcome);
  judged.outcome = std::move(outcome);
  ADJOIN_ASSIGN_OR_RETURN(judged.plan, Planner::Build(judged.spec, sizes_, rules_));
  ReadHalosFromFiles(&judged.plan);
  judged.seconds = SecondsOf(judged.plan, judged.outcome.seconds + search_->step_seconds());
  return judged;
}

double Chooser::SecondsOf(const Plan& plan, double counted) const {
  const absl::StatusOr<StepTime> time = PredictStepTime(plan, model_);
  return time.ok() ? time->step() : counted;
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

// The bytes that a candidate's layers need while they run, kept or not: of the layer with most.
int64_t RunningBytes(const GroupCandidate& candidate) {
  int64_t most = 0;
  for (const auto& [name, cost] : candidate.cost_of) {
    int64_t bytes = cost->work_bytes + cost->kept_bytes + 2 * cost->output_bytes;
    for (const int64_t input : cost->input_bytes) bytes += 2 * input;
    most = std::max(most, bytes);
  }
  return most;
}

// The group of the layer that runs at the moment with most memory; -1: none does.
int Chooser::GroupAtPeak(const RankMemory& memory) const {
  const std::vector<std::string> words = absl::StrSplit(memory.during, '"');  // "backward pass of \"conv1\""
  if (words.size() < 2) return -1;
  std::string layer = words[1];
  // A part of a block has the block's name before its own.
  while (!search_->groups().IsLayer(layer)) {
    const size_t dot = layer.rfind('.');
    if (dot == std::string::npos) return -1;
    layer.resize(dot);
  }
  return search_->groups().GroupOf(layer);
}

// `best`: the fastest, which is too large. What a plan needs is more than the sum that the search counts: by what is
// needed for a moment only. So both are made less, step by step: the sum, and what the layer needs that runs then.
absl::StatusOr<Judged> Chooser::Tighten(Judged best) {
  const std::vector<LayerGroup>& groups = search_->groups().groups();
  RankMemory least = best.memory;
  std::map<int, int64_t> below;  // by group: only candidates whose layers need less while they run
  std::set<int> fixed;           // groups of which none does
  const auto allowed = [&](int group, const GroupCandidate& candidate) {
    const auto bound = below.find(group);
    return bound == below.end() || RunningBytes(candidate) < bound->second;
  };
  Judged last = best;
  int64_t sum = last.outcome.bytes;  // the search's own limit
  std::optional<Judged> found;
  for (int i = 0; i < kMostTightenings; ++i) {
    const int group = GroupAtPeak(last.memory);
    bool less = false;
    if (group >= 0 && fixed.count(group) == 0) {
      const int64_t running = RunningBytes(groups[group].candidate[last.outcome.choice[group]]);
      if (running > limit_ / 8) {
        below[group] = running;
        less = true;
      }
    }
    if (!less || i % 2 == 1) sum -= std::max<int64_t>(last.memory.bytes - limit_, limit_ / 128);
    SearchOutcome outcome = search_->Best(std::max<int64_t>(0, sum), allowed);
    if (outcome.choice.empty() && less) {
      // Either the group has no smaller candidate, or the others have not.
      below.erase(group);
      fixed.insert(group);
      outcome = search_->Best(std::max<int64_t>(0, sum), allowed);
    }
    const bool smallest = outcome.choice.empty();
    if (smallest) outcome = search_->Best(outcome.least_bytes, allowed);
    if (outcome.choice.empty()) break;
    outcome.lower_bound = best.outcome.lower_bound;  // that of all candidates
    ADJOIN_ASSIGN_OR_RETURN(last, Judge(std::move(outcome)));
    if (last.memory.bytes < least.bytes) least = last.memory;
    if (last.memory.bytes <= limit_ && (!found.has_value() || last.seconds < found->seconds)) found = last;
    if (found.has_value()) break;
    if (smallest && !less) break;
  }
  if (found.has_value()) return *std::move(found);
  SearchReport unused;
  Judged uniform = std::move(best);
  uniform.seconds = kImpossible;
  TryUniform(uniform, unused, &least);
  if (uniform.memory.bytes <= limit_) return uniform;
  return absl::ResourceExhaustedError(absl::StrCat(
      "nothing fits ", BytesText(limit_), " for the tensors of each of ", ranks_,
      " ranks: the least that was found needs ", BytesText(least.bytes), " (", least.bytes, " bytes)",
      least.during.empty() ? "" : absl::StrCat(" on rank ", least.rank, ", in the ", least.during),
      least.largest.empty() ? "" : absl::StrCat(", where layer \"", least.largest[0].layer, "\" holds most"),
      "; use more ranks, micro-batches (train.microbatches), or more memory"));
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
    // Fewer seconds: the search counts less than planner/time for it.
    if (other.choice.empty() || other.seconds < best.outcome.seconds) continue;
    for (ChoiceReport& choice : *report.mutable_choice()) {
      if (choice.layer() != bare_.layer(groups[g].layer[0]).name()) continue;
      choice.set_next(LayoutText(groups[g].candidate[other.choice[g]]));
      choice.set_next_seconds(other.seconds - best.outcome.seconds);
      choice.set_next_bytes(other.bytes - best.outcome.bytes);
    }
  }
}

void Chooser::TryUniform(const std::string& what, const LayoutSearch::Allowed& allowed, Judged& best,
                         SearchReport& report, RankMemory* least) const {
  AlternativeReport* alternative = report.add_alternative();
  alternative->set_what(what);
  SearchOutcome outcome = search_->Best(-1, allowed);
  if (outcome.choice.empty()) {
    alternative->set_impossible("not all layers can be cut so");
    return;
  }
  const bool same = outcome.choice == best.outcome.choice && outcome.option == best.outcome.option;
  if (same && best.seconds < kImpossible) {
    alternative->set_step_seconds(best.seconds);
    alternative->set_bytes(best.memory.bytes);
    return;
  }
  outcome.lower_bound = best.outcome.lower_bound;
  // The clock comes to other seconds than the search, but not to half of them.
  const bool shown = options_.explain || least != nullptr;
  if (!shown && outcome.seconds > kHopeless * best.outcome.seconds) return;
  absl::StatusOr<Judged> judged = JudgeTime(std::move(outcome));
  if (judged.ok() && (shown || judged->seconds < best.seconds)) {
    const absl::StatusOr<RankMemory> memory = PredictLargestMemory(judged->plan);
    if (memory.ok()) {
      judged->memory = *memory;
    } else {
      judged = memory.status();
    }
  }
  if (!judged.ok()) {
    alternative->set_impossible(std::string(judged.status().message()));
    return;
  }
  alternative->set_step_seconds(judged->seconds);
  alternative->set_bytes(judged->memory.bytes);
  if (least != nullptr && judged->memory.bytes < least->bytes) *least = judged->memory;
  const bool fits = limit_ == 0 || judged->memory.bytes <= limit_;
  if (fits && judged->seconds < best.seconds) best = *std::move(judged);
}

void Chooser::TryUniform(Judged& best, SearchReport& report, RankMemory* least) const {
  if (ranks_ == 1) return;
  const std::vector<LayerGroup>& groups = search_->groups().groups();
  const auto cuts_only = [this](const GroupCandidate& candidate, int dim) {
    const std::vector<WorkCut::Axis>& axis = candidate.cut.axis;
    return axis.size() == 1 && !axis[0].outputs && axis[0].dim == dim && axis[0].parts == ranks_;
  };
  TryUniform(
      "all data-parallel", [&](int, const GroupCandidate& candidate) { return cuts_only(candidate, 0); }, best, report,
      least);
  for (int dim = 2; dim < 5; ++dim) {
    // Layers that cannot be cut there are free.
    std::vector<bool> can(groups.size(), false);
    bool any = false;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const GroupCandidate& candidate : groups[g].candidate) can[g] = can[g] || cuts_only(candidate, dim);
      any = any || can[g];
    }
    if (!any) continue;
    TryUniform(
        absl::StrCat("all spatial in dim ", dim),
        [&](int group, const GroupCandidate& candidate) { return !can[group] || cuts_only(candidate, dim); }, best,
        report, least);
  }
}

void Chooser::AddWritten(SearchReport& report) const {
  if (job_.layout().empty() || static_cast<int>(job_.ranks()) != ranks_) return;
  AlternativeReport* written = report.add_alternative();
  written->set_what("as written");
  absl::StatusOr<Plan> plan = Planner::Build(job_, sizes_, rules_);
  if (!plan.ok()) {
    written->set_impossible(std::string(plan.status().message()));
    return;
  }
  ReadHalosFromFiles(&*plan);
  written->set_step_seconds(SecondsOf(*plan, 0));
  const absl::StatusOr<RankMemory> memory = PredictLargestMemory(*plan);
  if (memory.ok()) written->set_bytes(memory->bytes);
}

absl::StatusOr<AutoPlan> Chooser::Run() {
  const auto start = std::chrono::steady_clock::now();
  ADJOIN_RETURN_IF_ERROR(Prepare());
  ADJOIN_ASSIGN_OR_RETURN(Judged best, Choose());
  AutoPlan chosen;
  TryUniform(best, chosen.report);
  Report(best, chosen);
  chosen.report.set_search_seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (options_.explain) {
    AddNext(best, chosen.report);
    AddWritten(chosen.report);
  }
  chosen.step_seconds = best.seconds;
  chosen.spec = std::move(best.spec);
  chosen.plan = std::move(best.plan);
  chosen.memory = std::move(best.memory);
  return chosen;
}

}  // namespace

absl::StatusOr<AutoPlan> PlanAutomatically(const JobSpec& job, const DatasetSizes& sizes, const LayerRules& rules,
                                           const CostModel& model, const AutoOptions& options) {
  if (options.extents.empty()) return Chooser(job, sizes, rules, model, options).Run();
  JobSpec concrete = job;
  for (Dataset& dataset : *concrete.mutable_dataset()) {
    const auto extents = options.extents.find(dataset.name());
    if (extents != options.extents.end()) dataset = WithExtents(dataset, extents->second);
  }
  ADJOIN_ASSIGN_OR_RETURN(AutoPlan chosen, Chooser(concrete, sizes, rules, model, options).Run());
  *chosen.spec.mutable_dataset() = job.dataset();
  return chosen;
}

}  // namespace adjoin
