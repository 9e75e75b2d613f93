#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "cli/rates.h"
#include "cli/terminal.h"
#include "planner/plan/extent_plan.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/plan_report.h"
#include "planner/plan/planner.h"
#include "planner/spec/field_files.h"
#include "planner/spec/sample_shape.h"
#include "planner/spec/spec_include.h"
#include "worker/data/array_file.h"
#include "worker/samples/sample_extents.h"
#include "worker/samples/sample_rule.h"

namespace adjoin {
namespace {

// The samples of a field, or nothing where its files are not here. `extents` gets theirs where they differ.
absl::StatusOr<std::optional<int64_t>> SamplesOf(const Field& field, const std::string& data_root,
                                                 SampleExtents& extents) {
  if (field.has_synthetic()) return std::optional<int64_t>(field.synthetic().samples());
  const File* files = FilesOf(field);
  if (files == nullptr || files->path().empty()) return std::optional<int64_t>();
  std::optional<std::vector<int64_t>> sample_shape;
  if (!field.shape().empty()) sample_shape.emplace(field.shape().begin(), field.shape().end());
  int64_t samples = 0;
  for (const std::string& path : files->path()) {
    const std::string file = (std::filesystem::path(data_root) / path).string();
    if (!std::filesystem::exists(file)) return std::optional<int64_t>();
    ArrayFileOptions options;
    options.format = SourceName(field);
    options.object = files->object();
    ADJOIN_ASSIGN_OR_RETURN(const ArrayHeader header, ReadArrayHeader(file, options));
    const absl::StatusOr<int64_t> own = SamplesIn(header, sample_shape);
    if (!own.ok()) return absl::InvalidArgumentError(absl::StrCat(file, ": ", std::string(own.status().message())));
    samples += *own;
    if (!HasVaryingExtents(field)) continue;
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, SampleShapeIn(header, *sample_shape));
    ADJOIN_RETURN_IF_ERROR(extents.Add(field.name(), file, shape));
  }
  return std::optional<int64_t>(samples);
}

// Plans the network for the extents of each file.
absl::Status CheckExtents(const JobSpec& spec, const Dataset& dataset, const SampleExtents& extents,
                          const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ExtentCheck> check, ExtentCheck::Create(spec, rules));
  const int64_t used = dataset.has_limit() ? std::min(extents.size(), dataset.limit()) : extents.size();
  for (int64_t sample = 0; sample < used; ++sample) {
    ADJOIN_RETURN_IF_ERROR(check->Check(dataset.name(), extents.FileOf(sample), extents[sample]));
  }
  return absl::OkStatus();
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
  if (shown != text)
    std::cout << "Lines end in … where the terminal is too narrow: --wide shows them whole." << std::endl;
}

}  // namespace

absl::StatusOr<int> RunPlan(const PlanOptions& options, const LayerRules& rules) {
  ADJOIN_ASSIGN_OR_RETURN(const CostModel model, ChosenModel(options.rates, options.client));
  ADJOIN_ASSIGN_OR_RETURN(const LoadedSpec loaded, LoadSpec(options.spec_file, options.changes));
  const ParsedSpec& parsed = loaded.parsed;
  DatasetSizes sizes;
  std::vector<std::string> unknown;
  std::map<std::string, SampleExtents> found;
  for (const Dataset& dataset : parsed.spec.dataset()) {
    std::optional<int64_t> samples;
    SampleExtents extents(dataset);
    for (const Field& field : dataset.field()) {
      if (samples.has_value()) break;
      if (HasVaryingExtents(dataset) && !HasVaryingExtents(field)) continue;
      ADJOIN_ASSIGN_OR_RETURN(samples, SamplesOf(field, options.data_root, extents));
    }
    if (samples.has_value()) {
      sizes[dataset.name()] = {*samples, extents.empty() ? 0 : extents.Hash()};
      found[dataset.name()] = std::move(extents);
    } else {
      unknown.push_back(dataset.name());
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, sizes, rules, &parsed.locations));
  for (const Dataset& dataset : parsed.spec.dataset()) {
    if (found.count(dataset.name()) == 0 || !ExtentCheck::Concerns(parsed.spec, dataset)) continue;
    ADJOIN_RETURN_IF_ERROR(CheckExtents(parsed.spec, dataset, found[dataset.name()], rules));
  }
  ReadHalosFromFiles(&plan);
  PlanReport report = MakePlanReport(plan, model);
  *report.mutable_unknown_size() = {unknown.begin(), unknown.end()};
  if (options.format == Format::kTable) {
    ShowReport(report, options);
  } else {
    std::cout << Formatted(report, options.format) << std::flush;
  }
  return 0;
}

}  // namespace adjoin
