#include "importer/torchscript/example_input.h"

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "importer/archive/shown_name.h"
#include "importer/torchscript/shape_inference.h"

namespace adjoin {

absl::StatusOr<ExampleInput> ParseExample(absl::string_view text) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("--example-shape ", PrintableText(text, kMaxShownName), ": ", what,
                                                   "; right would be such as 2x3x64x64, or 2x16:int64"));
  };
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  ExampleInput example;
  for (const absl::string_view part : absl::StrSplit(parts.first, 'x')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent) || extent < 1 || extent > kMaxExtent) return bad("an extent is no number");
    example.shape.push_back(extent);
  }
  if (example.shape.size() > 16 || ElementsOf(example.shape) > kMaxElements) return bad("it is too large");
  if (!absl::StrContains(text, ":")) return example;
  const absl::StatusOr<DType> dtype = ParseDType(parts.second);
  if (!dtype.ok()) return bad("its type is not known");
  example.dtype = *dtype;
  return example;
}

}  // namespace adjoin
