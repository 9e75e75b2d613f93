#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text_table.h"
#include "verify/against.h"
#include "verify/number_text.h"

namespace adjoin {
namespace {

// " on rank 1, global position (0, 3), is 0.5 instead of 0.25"
std::string Where(const Difference& difference) {
  std::string text = difference.rank >= 0 ? absl::StrCat(" on rank ", difference.rank, ",") : "";
  if (!difference.shape.empty()) return absl::StrCat(text, " ", difference.shape);
  return absl::StrCat(text, " global position (", absl::StrJoin(difference.position, ", "), ")",
                      absl::StrFormat(", is %.10g instead of %.10g", difference.found, difference.expected));
}

std::string SampleLines(const std::vector<SampleDifference>& sample) {
  std::string text;
  for (const SampleDifference& output : sample) {
    absl::StrAppend(&text, "  against PyTorch: ", output.array, " (layer ", output.layer,
                    "): ", NumberText(output.difference.relative));
    if (output.deviates()) {
      absl::StrAppend(&text, " !, above ", NumberText(output.tolerance), ":", Where(output.difference));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

// What the serial model's differences say of where the mistake is.
std::string SerialFinding(const std::vector<SampleDifference>& sample) {
  const auto first = std::find_if(sample.begin(), sample.end(), [](const auto& output) { return output.deviates(); });
  if (first == sample.end()) return "";
  std::string text =
      absl::StrCat("  DEVIATES: layer ", first->layer,
                   " is the first of the sample's that deviates, in the serial model itself: the weights or"
                   " the layers are not those of the sample");
  if (first != sample.begin()) {
    return absl::StrCat(text, ". It is ", first->layer, " or a layer after ", (first - 1)->layer, ", which is right\n");
  }
  return absl::StrCat(text, ". To narrow it down, store the outputs of layers before it, too, as output.<layer>\n");
}

// One line for the loss and one for all gradients, and the first of them that deviates.
std::string LossLines(const std::vector<SampleDifference>& loss) {
  std::string text;
  const SampleDifference* largest = nullptr;
  int64_t gradients = 0;
  for (const SampleDifference& one : loss) {
    if (one.layer.empty()) {
      absl::StrAppend(&text, "  against PyTorch: loss: ", NumberText(one.difference.relative),
                      one.deviates() ? " !" : "", "\n");
      continue;
    }
    ++gradients;
    if (largest == nullptr || !(one.difference.relative <= largest->difference.relative)) largest = &one;
  }
  if (largest != nullptr) {
    absl::StrAppend(&text, "  against PyTorch: ", gradients, gradients == 1 ? " gradient" : " gradients",
                    ", the largest difference is ", NumberText(largest->difference.relative), " of ", largest->layer,
                    largest->deviates() ? " !" : "", "\n");
  }
  const auto first = std::find_if(loss.begin(), loss.end(), [](const auto& one) { return one.deviates(); });
  if (first == loss.end()) return text;
  if (first->layer.empty()) {
    return absl::StrCat(
        text, "  DEVIATES: the loss",
        absl::StrFormat(" is %.10g instead of %.10g", first->difference.found, first->difference.expected),
        ": where the outputs are right, kind, weight or targets are not those of the sample\n");
  }
  return absl::StrCat(
      text, "  DEVIATES: the gradient of ", first->layer,
      " is the first in the backward pass that deviates, in the serial model itself:", Where(first->difference), "\n");
}

std::string RunText(const AgainstRanks& run) {
  std::string text = absl::StrCat(run.ranks, run.ranks == 1 ? " rank" : " ranks",
                                  run.recut    ? ", layouts re-cut"
                                  : run.chosen ? ", layouts chosen"
                                               : "",
                                  "\n");
  if (!run.failure.ok()) return absl::StrCat(text, "  NOT VERIFIED: ", std::string(run.failure.message()), "\n");
  std::vector<std::vector<std::string>> rows = {{"layer", "kind", "output"}};
  const LayerComparison* first = nullptr;
  for (const LayerComparison& layer : run.layers) {
    const bool deviates = layer.output.deviates(kDefaultTolerance);
    rows.push_back({layer.name, layer.kind, absl::StrCat(NumberText(layer.output.relative), deviates ? " !" : "")});
    if (deviates && first == nullptr) first = &layer;
  }
  absl::StrAppend(&text, TextTable(rows, {.indent = 2}), SampleLines(run.sample));
  if (first != nullptr) {
    return absl::StrCat(text, "  DEVIATES: layer ", first->name,
                        " is the first that is not as in the serial model: output", Where(first->output), "\n");
  }
  return absl::StrCat(text, "  no difference from the serial model above ", NumberText(kDefaultTolerance), "\n");
}

}  // namespace

std::string AgainstText(const AgainstResult& result) {
  std::string text = absl::StrCat(
      result.job.empty() ? "the job" : result.job, ": ", result.batch, result.batch == 1 ? " sample" : " samples",
      " of ", result.sample, " with ", result.weights, ", in evaluation mode, in float64\n",
      "Largest differences: of layers from the serial model, relative to the tensor's largest element (at least 1);\n"
      "of the sample's outputs from PyTorch, relative to the output's largest element. ! marks what is above the "
      "tolerance.\n");
  for (const std::string& warning : result.warnings) absl::StrAppend(&text, "warning: ", warning, "\n");
  absl::StrAppend(&text, "\nthe serial model\n", SampleLines(result.serial), SerialFinding(result.serial),
                  LossLines(result.loss));
  for (const AgainstRanks& run : result.runs) absl::StrAppend(&text, "\n", RunText(run));
  return text;
}

}  // namespace adjoin
