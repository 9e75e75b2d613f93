#include "tests/vs_serial/number_type_outcomes.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/ldexp.h>
#include <ATen/ops/ones_like.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/geometry/layout.h"
#include "tests/vs_serial/partitioned_run.h"

namespace adjoin {
namespace {

using at::Tensor;

struct Closeness {
  double distance = 0;  // the largest, relative to the whole's largest element
  bool once = true;
};

// Half of the distance of two neighbours of bfloat16, which has 8 binary digits.
Tensor HalfSteps(const Tensor& numbers) {
  const Tensor exponent = std::get<1>(at::frexp(numbers.abs()));
  return at::ldexp(at::ones_like(numbers), exponent - 9);
}

absl::StatusOr<Closeness> ClosenessOf(const std::vector<Tensor>& parts, const LayoutPlan& layout_plan,
                                      const Tensor& expected) {
  ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(layout_plan));
  const Tensor whole = expected.to(at::kDouble).reshape(layout.shape());
  const double largest = std::max(whole.abs().max().item<double>(), 1e-30);
  Closeness closeness;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Tensor own = PartOf(whole, layout, static_cast<int>(rank));
    if (!parts[rank].defined() || parts[rank].sizes() != own.sizes()) {
      return absl::InternalError("it has another shape");
    }
    if (own.numel() == 0) continue;
    const Tensor off = (parts[rank].to(at::kDouble) - own).abs();
    const double distance = off.max().item<double>() / largest;
    closeness.distance = distance <= closeness.distance ? closeness.distance : distance;  // NaN too
    // What float32 is off itself comes on top.
    if ((off > HalfSteps(own) + 1e-5 * largest).any().item<bool>()) closeness.once = false;
  }
  return closeness;
}

// Variants of one kind of which the same is said share a row.
std::string Table(const std::string& what, const std::vector<OutcomeRow>& cases) {
  struct Row {
    std::string kind, said;
    std::vector<std::string> variants;
  };
  std::vector<Row> rows;
  for (const OutcomeRow& one : cases) {
    std::string said;
    for (const TypeOfJob& type : kTypesOfJobs) {
      const OutcomeCells& cells = one.outcome.of_type.at(type.name);
      absl::StrAppend(&said, " ", cells.forward, " | ", cells.backward, " | ", cells.second, " |");
    }
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Row& other) { return other.kind == one.kind && other.said == said; });
    if (row == rows.end()) {
      rows.push_back({one.kind, said, {one.variant}});
    } else {
      row->variants.push_back(one.variant);
    }
  }
  std::string table = absl::StrCat("| ", what,
                                   " | float64: forward | backward | second | float32: forward | backward | second | "
                                   "bfloat16: forward | backward | second |\n"
                                   "|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    const std::string variants = absl::StrJoin(row.variants, "; ");
    absl::StrAppend(&table, "| `", row.kind, "`", variants.empty() ? "" : ": ", variants, " |", row.said, "\n");
  }
  return table;
}

constexpr char kBegin[] = R"(# Number types, layer by layer

What each layer and each loss computes on two ranks, next to serial LibTorch in float64, in the types of [`precision`](training.md#number-types). The test
`//tests/vs_serial:number_types_test` measures all of this, and fails where this page says something else; `bazel run //tests/vs_serial:number_types_test` writes it anew.

| | |
|---|---|
| `=` | equal within the type's rounding. The largest difference, relative to the largest element, is below 1e-12 in float64, 4e-6 in float32, 1/64 in bfloat16; of second derivatives four times that |
| `float32` | computed in float32 inside: each number is what float32 gives, rounded once to bfloat16 |
| `no` | ends the job with an error that says so: LibTorch or the layer has no such derivative |
| `refused` | refused at plan |
| | nothing to compute: indices have no gradient, and a second derivative may be 0 |

The second derivative is that of the gradient of the layer's input. [transformer](layers/transformer.md) is made of the layers here, and a layer [of your own](layers/custom.md)
computes as it is written.

)";

}  // namespace

bool CompareParts(const std::string& what, const std::vector<Tensor>& parts, const LayoutPlan& layout,
                  const Tensor& whole, double tolerance, std::string& differences) {
  const absl::StatusOr<Closeness> closeness = ClosenessOf(parts, layout, whole);
  if (closeness.ok() && closeness->distance <= tolerance) return closeness->once;
  absl::StrAppend(
      &differences, what, ": ",
      closeness.ok() ? absl::StrCat("off by ", closeness->distance, " of its largest") : closeness.status().ToString(),
      "\n");
  return false;
}

std::string NumberTypesPage(const std::vector<OutcomeRow>& layers, const std::vector<OutcomeRow>& losses) {
  return absl::StrCat(
      kBegin, "## Layers\n\n", Table("layer", layers), "\n## Losses\n\n",
      "In bfloat16 a loss is computed in float32 from predictions in bfloat16, and its value is a float32.\n\n",
      Table("loss", losses));
}

}  // namespace adjoin
