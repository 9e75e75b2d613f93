#include "planner/auto/pins.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "layers/rules/spec_error.h"
#include "planner/spec/nearest_name.h"

namespace adjoin {
namespace {

absl::StatusOr<LayoutSpec> PartitionOf(const std::string& pin, const std::string& text, int ranks) {
  LayoutSpec layout;
  layout.set_name(text);
  int64_t product = 1;
  for (const absl::string_view part : absl::StrSplit(text, 'x')) {
    int64_t parts = 0;
    if (!absl::SimpleAtoi(part, &parts) || parts < 1) {
      return InvalidSpec("--pin ", pin, ": \"", part, "\" is no number of parts; write 1x1x2x2, say");
    }
    product = parts > ranks ? int64_t{ranks} + 1 : std::min<int64_t>(product * parts, int64_t{ranks} + 1);
    if (product > ranks) return InvalidSpec("--pin ", pin, ": ", text, " takes more ranks than there are, ", ranks);
    layout.add_partition(static_cast<uint32_t>(parts));
  }
  return layout;
}

}  // namespace

absl::StatusOr<std::map<std::string, LayoutSpec>> ParsePins(const std::vector<std::string>& pins, const JobSpec& job,
                                                            int ranks) {
  std::map<std::string, LayoutSpec> parsed;
  std::vector<std::string> layers;
  for (const Layer& layer : job.layer()) layers.push_back(layer.name());
  for (const std::string& pin : pins) {
    const size_t equals = pin.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pin.size()) {
      return InvalidSpec("--pin ", pin, ": write LAYER=PARTITION, as in conv1=1x1x2x2");
    }
    const std::string layer = pin.substr(0, equals), text = pin.substr(equals + 1);
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) {
      const std::string nearest = NearestName(layer, layers);
      return InvalidSpec("--pin ", pin, ": there is no layer \"", layer, "\"",
                         nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"));
    }
    LayoutSpec layout;
    const auto named = std::find_if(job.layout().begin(), job.layout().end(),
                                    [&](const LayoutSpec& own) { return own.name() == text; });
    if (named != job.layout().end()) {
      layout = *named;
      // Its name may also be that of a layout that the search makes.
      layout.set_name(absl::StrCat("pinned.", text));
    } else if (text.find_first_not_of("0123456789x") == std::string::npos) {
      ADJOIN_ASSIGN_OR_RETURN(layout, PartitionOf(pin, text, ranks));
    } else {
      std::vector<std::string> known;
      for (const LayoutSpec& own : job.layout()) known.push_back(own.name());
      return InvalidSpec("--pin ", pin, ": \"", text, "\" is neither a partition, as 1x1x2x2, nor a layout of the job",
                         known.empty() ? ", which has none" : absl::StrCat("; it has ", absl::StrJoin(known, ", ")));
    }
    if (!parsed.emplace(layer, std::move(layout)).second) {
      return InvalidSpec("--pin ", pin, ": layer \"", layer, "\" is pinned twice");
    }
  }
  return parsed;
}

}  // namespace adjoin
