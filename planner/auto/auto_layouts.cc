#include "planner/auto/auto_layouts.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {

absl::Status CheckAutoOptions(const AutoLayoutOptions& options) {
  if (options.chosen) return absl::OkStatus();
  const char* given = options.memory_bytes > 0 ? "--memory"
                      : !options.pin.empty()   ? "--pin"
                      : !options.diff.empty()  ? "--diff"
                      : options.emit           ? "--emit"
                      : !options.ranks.empty() ? "--ranks"
                                               : nullptr;
  if (given == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(given, " is for layouts that are chosen: add --auto"));
}

absl::StatusOr<RanksRange> ParseRanks(const std::string& text) {
  if (text.empty()) return RanksRange();
  RanksRange range;
  const size_t dots = text.find("..");
  const bool parsed = absl::SimpleAtoi(text.substr(0, dots), &range.first) &&
                      absl::SimpleAtoi(dots == std::string::npos ? text : text.substr(dots + 2), &range.last);
  if (!parsed) return absl::InvalidArgumentError(absl::StrCat("--ranks ", text, ": write 8, or 1..64 for a table"));
  if (range.first < 1 || range.last > Planner::kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks ", text, ": from 1 to ", Planner::kMaxRanks, " ranks are possible"));
  }
  if (range.first > range.last) {
    return absl::InvalidArgumentError(absl::StrCat("--ranks ", text, ": the smaller number comes first"));
  }
  return range;
}

std::vector<int64_t> RanksInTable(RanksRange range) {
  std::vector<int64_t> ranks = {range.first};
  for (int64_t power = 1; power < range.last; power *= 2) {
    if (power > range.first) ranks.push_back(power);
  }
  if (range.last > range.first) ranks.push_back(range.last);
  return ranks;
}

absl::StatusOr<std::string> EmittedText(const JobSpec& spec) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  if (!printer.PrintToString(spec, &text)) return absl::InternalError("the job cannot be printed");
  return absl::StrCat(
      "# The layouts were chosen by adjoin plan --auto. Comments of the file that it read are not in this one.\n",
      text);
}

absl::Status ChooseLayouts(const AutoLayoutOptions& options, const DatasetSizes& sizes, const VolumeExtents& extents,
                           const LayerRules& rules, const CostModel& model, LoadedSpec* loaded) {
  ADJOIN_RETURN_IF_ERROR(CheckAutoOptions(options));
  if (!options.chosen) return absl::OkStatus();
  AutoOptions search;
  search.pin = options.pin;
  search.explain = false;
  search.extents = extents;
  search.locations = &loaded->parsed.locations;
  ADJOIN_ASSIGN_OR_RETURN(const RanksRange range, ParseRanks(options.ranks));
  if (range.first != range.last) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks ", options.ranks, ": a range is for adjoin plan; write one number"));
  }
  search.ranks = range.first;
  search.memory_bytes = static_cast<int64_t>(options.memory_bytes);
  ADJOIN_ASSIGN_OR_RETURN(AutoPlan chosen, PlanAutomatically(loaded->parsed.spec, sizes, rules, model, search));
  ADJOIN_ASSIGN_OR_RETURN(loaded->source.text, EmittedText(chosen.spec));
  loaded->parsed.spec = std::move(chosen.spec);
  return absl::OkStatus();
}

}  // namespace adjoin
