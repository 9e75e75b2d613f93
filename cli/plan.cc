#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/new_file.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/found_data.h"
#include "cli/rates.h"
#include "cli/terminal.h"
#include "planner/auto/auto_layouts.h"
#include "planner/auto/auto_plan.h"
#include "planner/auto/explain_search.h"
#include "planner/auto/layout_diff.h"
#include "planner/picture/plan_picture.h"
#include "planner/plan/extent_plan.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/plan_report.h"
#include "planner/plan/plan_warnings.h"
#include "planner/plan/planner.h"
#include "planner/spec/sample_shape.h"
#include "planner/spec/spec_include.h"
#include "planner/time/cost_model.h"
#include "worker/samples/sample_extents.h"

namespace adjoin {
namespace {

// Plans the network for the extents of each file of these data sets.
absl::Status CheckExtents(const JobSpec& spec, const std::map<std::string, LargestVolume>& largest,
                          const FoundData& data, const LayerRules& rules) {
  if (largest.empty()) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ExtentCheck> check, ExtentCheck::Create(spec, rules));
  for (const Dataset& dataset : spec.dataset()) {
    if (largest.count(dataset.name()) == 0) continue;
    const SampleExtents& extents = data.extents.at(dataset.name());
    const int64_t used = UsedSamples(dataset, extents.size());
    for (int64_t sample = 0; sample < used; ++sample) {
      ADJOIN_RETURN_IF_ERROR(check->Check(dataset.name(), extents.FileOf(sample), extents[sample]));
    }
  }
  return absl::OkStatus();
}

// The plan as it is for the largest volumes.
absl::StatusOr<Plan> OfLargestVolumes(Plan plan, const std::map<std::string, LargestVolume>& largest,
                                      const LayerRules& rules) {
  for (const auto& [dataset, volume] : largest) {
    ADJOIN_ASSIGN_OR_RETURN(plan, PlanWithExtents(plan, dataset, volume.extents, rules));
  }
  return plan;
}

void ShowReport(const PlanReport& report, const PlanOptions& options) {
  const std::string text = Planner::Explain(report);
  const std::string shown = options.wide ? text : CutLines(text, static_cast<size_t>(TerminalWidth()));
  std::cout << shown;
  if (!report.unknown_size().empty()) {
    std::cout << "The size of data set '" << absl::StrJoin(report.unknown_size(), "', '")
              << "' is not known here: its files are not below "
              << std::filesystem::absolute(options.data_root).lexically_normal().string()
              << ". Name their folder with --data-root to see the last, smaller batch as well.\n";
  }
  std::cout << "plan " << report.plan() << std::endl;
  if (shown != text) {
    std::cout << "Lines end in " << CutMark() << " where the terminal is too narrow: --wide shows them whole."
              << std::endl;
  }
}

// Writes the picture that the options ask for; false where they ask for none.
absl::StatusOr<bool> WritePicture(const Plan& plan, const PlanReport& report, const PlanOptions& options) {
  if (options.svg_file.empty() && options.html_file.empty()) return false;
  const bool svg = !options.svg_file.empty();
  ADJOIN_ASSIGN_OR_RETURN(const std::string picture, svg ? PlanSvg(plan, report) : PlanHtml(plan, report));
  ADJOIN_ASSIGN_OR_RETURN(NewFile file,
                          NewFile::Begin(svg ? options.svg_file : options.html_file, NewFile::Over::kRegularFile));
  ADJOIN_RETURN_IF_ERROR(file.Write(picture));
  ADJOIN_RETURN_IF_ERROR(file.Finish());
  return true;
}

absl::Status CheckPictureOptions(const PlanOptions& options) {
  if (options.svg_file.empty() && options.html_file.empty()) return absl::OkStatus();
  if (!options.svg_file.empty() && !options.html_file.empty()) {
    return absl::InvalidArgumentError("--svg and --html: one picture at a time; give one of them");
  }
  const std::string name = options.svg_file.empty() ? "--html" : "--svg";
  if (options.format != Format::kTable || options.layouts.emit || !options.layouts.diff.empty()) {
    return absl::InvalidArgumentError(name +
                                      " writes a picture; leave out -o, --emit and --diff, which print something else");
  }
  return absl::OkStatus();
}

// Layouts for several numbers of ranks, as a table.
absl::StatusOr<int> ShowRanks(const JobSpec& spec, const PlanOptions& options, RanksRange range, AutoOptions search,
                              const DatasetSizes& sizes, const LayerRules& rules, const CostModel& model) {
  const bool picture = !options.svg_file.empty() || !options.html_file.empty();
  if (picture || options.format != Format::kTable || options.layouts.emit || !options.layouts.diff.empty()) {
    return absl::InvalidArgumentError("a range of --ranks is a table; name one number of ranks for all else");
  }
  search.explain = false;
  std::vector<RanksRow> rows;
  absl::Status wrong;
  bool any = false;
  for (const int64_t ranks : RanksInTable(range)) {
    search.ranks = ranks;
    RanksRow row{ranks, 0, 0, "", {}};
    const absl::StatusOr<AutoPlan> chosen = PlanAutomatically(spec, sizes, rules, model, search);
    if (chosen.ok()) {
      row.seconds = chosen->step_seconds;
      row.bytes = chosen->memory.bytes;
      row.warning = PlanWarnings(chosen->plan);
    } else if (absl::IsResourceExhausted(chosen.status())) {
      row.impossible = "too little memory";
    } else if (absl::IsInvalidArgument(chosen.status())) {
      row.impossible = std::string(chosen.status().message());
      wrong = chosen.status();
    } else {
      return chosen.status();
    }
    any = any || row.impossible.empty();
    rows.push_back(std::move(row));
  }
  if (!any && !wrong.ok()) return wrong;
  std::cout << ExplainRanks(rows) << std::flush;
  return 0;
}

absl::StatusOr<int> RunAutoPlan(const LoadedSpec& loaded, const PlanOptions& options, const FoundData& data,
                                const LayerRules& rules, const CostModel& model) {
  AutoOptions search;
  search.pin = options.layouts.pin;
  ADJOIN_ASSIGN_OR_RETURN(const RanksRange range, ParseRanks(options.layouts.ranks));
  search.memory_bytes = static_cast<int64_t>(options.layouts.memory_bytes);
  const JobSpec& spec = loaded.parsed.spec;
  const std::map<std::string, LargestVolume> largest = LargestVolumes(spec, data);
  search.extents = ExtentsToChooseFor(spec, largest);
  search.locations = &loaded.parsed.locations;
  const bool for_volumes = !search.extents.empty();
  if (range.first != range.last) {
    ADJOIN_ASSIGN_OR_RETURN(const int code, ShowRanks(spec, options, range, search, data.sizes, rules, model));
    if (for_volumes) {
      for (const auto& [dataset, volume] : largest) std::cout << "warning: " << volume.note << std::endl;
    }
    return code;
  }
  search.ranks = range.first;
  search.explain = !options.layouts.emit;
  std::optional<Plan> other;
  if (!options.layouts.diff.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec read, LoadSpec(options.layouts.diff, {}));
    ADJOIN_ASSIGN_OR_RETURN(other, Planner::Build(read.parsed.spec, data.sizes, rules, &read.parsed.locations));
    if (for_volumes) {
      ADJOIN_ASSIGN_OR_RETURN(other, OfLargestVolumes(*other, largest, rules));
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(const AutoPlan chosen, PlanAutomatically(spec, data.sizes, rules, model, search));
  if (for_volumes) ADJOIN_RETURN_IF_ERROR(CheckExtents(chosen.spec, largest, data, rules));
  if (options.layouts.emit) {
    ADJOIN_ASSIGN_OR_RETURN(const std::string text, EmittedText(chosen.spec));
    std::cout << text << std::flush;
    return 0;
  }
  PlanReport report = MakePlanReport(chosen.plan, model);
  if (for_volumes) {
    ADJOIN_ASSIGN_OR_RETURN(Plan of_job, Planner::Build(chosen.spec, data.sizes, rules));
    ReadHalosFromFiles(&of_job);
    report.set_plan(Planner::Hash(of_job));
    for (const auto& [dataset, volume] : largest) report.add_warning(volume.note);
  }
  *report.mutable_search() = chosen.report;
  *report.mutable_unknown_size() = {data.unknown.begin(), data.unknown.end()};
  ADJOIN_ASSIGN_OR_RETURN(const bool written, WritePicture(chosen.plan, report, options));
  if (written) return 0;
  if (options.format != Format::kTable) {
    std::cout << Formatted(report, options.format) << std::flush;
    return 0;
  }
  std::string text = ExplainSearch(chosen, report.memory(), model.machine());
  if (other.has_value()) {
    text += "\nOtherwise than in " + options.layouts.diff + "\n" + DiffOfLayouts(*other, chosen.plan);
  }
  if (!report.warning().empty()) text += "\n";
  for (const std::string& warning : report.warning()) text += "warning: " + warning + "\n";
  std::cout << (options.wide ? text : CutLines(text, static_cast<size_t>(TerminalWidth()))) << std::flush;
  return 0;
}

}  // namespace

absl::StatusOr<int> RunPlan(const PlanOptions& options, const LayerRules& rules) {
  ADJOIN_RETURN_IF_ERROR(CheckAutoOptions(options.layouts));
  ADJOIN_RETURN_IF_ERROR(CheckPictureOptions(options));
  ADJOIN_ASSIGN_OR_RETURN(const CostModel model, ChosenModel(options.rates, options.client));
  ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec loaded, LoadSpec(options.spec_file, options.changes));
  const ParsedSpec& parsed = loaded.parsed;
  ADJOIN_ASSIGN_OR_RETURN(const FoundData data, FindData(parsed.spec, options.data_root));
  if (options.layouts.chosen) return RunAutoPlan(loaded, options, data, rules, model);
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, data.sizes, rules, &parsed.locations));
  ReadHalosFromFiles(&plan);
  const std::string hash = Planner::Hash(plan);
  const std::map<std::string, LargestVolume> largest = LargestVolumes(parsed.spec, data);
  ADJOIN_RETURN_IF_ERROR(CheckExtents(parsed.spec, largest, data, rules));
  ADJOIN_ASSIGN_OR_RETURN(plan, OfLargestVolumes(std::move(plan), largest, rules));
  PlanReport report = MakePlanReport(plan, model);
  report.set_plan(hash);
  for (const auto& [dataset, volume] : largest) report.add_warning(volume.note);
  *report.mutable_unknown_size() = {data.unknown.begin(), data.unknown.end()};
  ADJOIN_ASSIGN_OR_RETURN(const bool written, WritePicture(plan, report, options));
  if (written) return 0;
  if (options.format == Format::kTable) {
    ShowReport(report, options);
  } else {
    std::cout << Formatted(report, options.format) << std::flush;
  }
  return 0;
}

}  // namespace adjoin
