#include "verify/report.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text_table.h"
#include "verify/number_text.h"

namespace adjoin {
namespace {

std::string Plural(int64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

// "!" marks what is above the tolerance.
std::string Cell(const Difference& difference, double tolerance) {
  if (!difference.compared) return "-";
  return absl::StrCat(NumberText(difference.relative), difference.deviates(tolerance) ? " !" : "");
}

Difference Worst(const std::map<std::string, Difference>& differences) {
  Difference worst;
  for (const auto& entry : differences) {
    if (!worst.compared || entry.second.relative > worst.relative) worst = entry.second;
  }
  return worst;
}

std::string Where(const Difference& difference, uint32_t steps) {
  std::string text;
  if (difference.rank >= 0) absl::StrAppend(&text, " on rank ", difference.rank);
  if (steps > 1) absl::StrAppend(&text, " in step ", difference.step);
  if (!difference.shape.empty()) return absl::StrCat(text, " ", difference.shape);
  if (!difference.position.empty())
    absl::StrAppend(&text, ", global position (", absl::StrJoin(difference.position, ", "), ")");
  return absl::StrCat(text, absl::StrFormat(", is %.10g instead of %.10g (relative difference %s)", difference.found,
                                            difference.expected, NumberText(difference.relative)));
}

void AddOperators(const RanksResult& run, std::string& text) {
  double largest = 0;
  int tested = 0;
  std::vector<const AdjointResult*> failed;
  for (const AdjointResult& op : run.operators) {
    if (!op.linear) continue;
    ++tested;
    largest = std::max(largest, op.error);
    if (!op.holds()) failed.push_back(&op);
  }
  const int others = static_cast<int>(run.operators.size()) - tested;
  if (failed.empty()) {
    absl::StrAppend(&text, "  adjoint test: holds for ", Plural(tested, "operator"), ", to ", NumberText(largest));
  } else {
    absl::StrAppend(&text, "  adjoint test: FAILS for ", failed.size(), " of ", Plural(tested, "operator"));
  }
  absl::StrAppend(&text, others == 0 ? "" : absl::StrCat("; ", Plural(others, "maximum"), " not tested"), "\n");
  for (const AdjointResult* op : failed) {
    absl::StrAppend(&text, "    operator \"", op->name, "\": <Fx, y> and <x, F*y> differ by ", NumberText(op->error),
                    " of their size; ", NumberText(kAdjointTolerance), " is allowed\n");
  }
}

std::string RunText(const VerifyResult& result, const RanksResult& run) {
  std::string text = absl::StrCat(Plural(run.ranks, "rank"), run.recut ? ", layouts re-cut" : "", "\n");
  if (!run.failure.ok()) return absl::StrCat(text, "  NOT VERIFIED: ", std::string(run.failure.message()), "\n");
  std::vector<std::vector<std::string>> rows = {{"layer", "kind", "output", "cotangent", "gradients", "parameters"}};
  for (const LayerComparison& layer : run.comparison.layers) {
    rows.push_back({layer.name, layer.kind, Cell(layer.output, result.tolerance),
                    Cell(layer.cotangent, result.tolerance), Cell(Worst(layer.gradients), result.tolerance),
                    Cell(Worst(layer.parameters), result.tolerance)});
  }
  rows.push_back({"loss", "", Cell(run.comparison.loss, result.tolerance), "", "", ""});
  absl::StrAppend(&text, TextTable(rows, {.indent = 2}));
  AddOperators(run, text);
  if (run.first.has_value()) {
    const bool loss = run.first->layer == "the loss";
    absl::StrAppend(&text, "  DEVIATES: ", loss ? "" : "layer ", run.first->layer, " is the first: ", run.first->what,
                    Where(run.first->difference, result.steps), "\n");
  } else {
    absl::StrAppend(&text, "  ", run.deviates() ? "no other" : "no", " difference above ", NumberText(result.tolerance),
                    "\n");
  }
  return text;
}

}  // namespace

std::string ReportText(const VerifyResult& result) {
  std::string text =
      absl::StrCat(result.job.empty() ? "the job" : result.job, ": ", Plural(result.steps, "step"), " on ",
                   Plural(result.batch, "sample"), ", in float64, against the serial model; seed ", result.seed, "\n",
                   "Largest differences, relative to the tensor's largest element (at least 1); ! marks what is above ",
                   NumberText(result.tolerance), ".\n");
  if (!result.own_layers.empty()) {
    absl::StrAppend(&text, "Without a serial function, so compared with itself on one rank: ",
                    absl::StrJoin(result.own_layers, ", "), ".\n");
  }
  for (const std::string& warning : result.warnings) absl::StrAppend(&text, "warning: ", warning, "\n");
  for (const RanksResult& run : result.runs) absl::StrAppend(&text, "\n", RunText(result, run));
  return text;
}

}  // namespace adjoin
