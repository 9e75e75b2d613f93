#include <filesystem>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/commands.h"
#include "planner/plan/file_halos.h"
#include "planner/plan/planner.h"
#include "planner/spec/field_files.h"
#include "planner/spec/spec_file.h"
#include "planner/spec/spec_parser.h"
#include "planner/spec/spec_setter.h"
#include "worker/data/array_file.h"
#include "worker/samples/sample_rule.h"

namespace adjoin {
namespace {

// The samples of a field, or nothing where its files are not here.
absl::StatusOr<std::optional<int64_t>> SamplesOf(const Field& field, const std::string& data_root) {
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
  }
  return std::optional<int64_t>(samples);
}

}  // namespace

absl::StatusOr<int> RunPlan(const std::string& spec_file, const std::vector<std::string>& settings,
                            const std::string& data_root, const LayerRules& rules) {
  SpecSource source;
  source.name = spec_file == "-" ? "standard input" : spec_file;
  ADJOIN_ASSIGN_OR_RETURN(source.text, ReadSpecFile(spec_file));
  ADJOIN_ASSIGN_OR_RETURN(source, WithSettings(source, settings));
  ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(source.text, source.name));
  DatasetSizes sizes;
  std::vector<std::string> unknown;
  for (const Dataset& dataset : parsed.spec.dataset()) {
    std::optional<int64_t> samples;
    for (const Field& field : dataset.field()) {
      if (samples.has_value()) break;
      ADJOIN_ASSIGN_OR_RETURN(samples, SamplesOf(field, data_root));
    }
    if (samples.has_value()) {
      sizes[dataset.name()] = *samples;
    } else {
      unknown.push_back(absl::StrCat("'", dataset.name(), "'"));
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, sizes, rules, &parsed.locations));
  ReadHalosFromFiles(&plan);
  std::cout << Planner::Explain(plan);
  if (!unknown.empty()) {
    std::cout << "The size of data set " << absl::StrJoin(unknown, ", ")
              << " is not known here: its files are not below "
              << std::filesystem::absolute(data_root).lexically_normal().string()
              << ". Name their folder with --data-root to see the last, smaller batch as well.\n";
  }
  std::cout << "plan " << Planner::Hash(plan) << std::endl;
  return 0;
}

}  // namespace adjoin
