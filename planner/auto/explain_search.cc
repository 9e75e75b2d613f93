#include "planner/auto/explain_search.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/amount_text.h"
#include "base/text_table.h"

namespace adjoin {
namespace {

std::string SecondsText(double seconds) {
  const double size = std::abs(seconds);
  if (size >= 1) return absl::StrFormat("%.3g s", seconds);
  if (size >= 1e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g us", seconds * 1e6);
}

std::string MoreText(double seconds) { return absl::StrCat(seconds < 0 ? "" : "+", SecondsText(seconds)); }

std::string MoreBytes(int64_t bytes) {
  return bytes < 0 ? absl::StrCat("-", BytesText(-bytes)) : absl::StrCat("+", BytesText(bytes));
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  return TextTable(rows, {.indent = 2, .gap = 3});
}

std::string MemoryText(const AutoPlan& chosen, const MemoryReport& memory) {
  std::string text = absl::StrCat("\nMemory of rank ", memory.rank(), ", which needs most");
  if (!memory.during().empty()) absl::StrAppend(&text, ", in the ", memory.during());
  absl::StrAppend(&text, "\n");
  std::vector<std::vector<std::string>> rows;
  const std::vector<std::pair<const char*, int64_t>> parts = {
      {"parameters", memory.parameters()},   {"gradients", memory.gradients()},
      {"optimizer", memory.optimizer()},     {"data", memory.data()},
      {"activations", memory.activations()}, {"kernels", memory.kernels()}};
  for (const auto& [name, bytes] : parts) {
    if (bytes > 0) rows.push_back({name, BytesText(bytes)});
  }
  absl::StrAppend(&text, Table(rows));
  std::vector<std::string> largest;
  for (const LayerMemoryReport& layer : memory.layer()) {
    if (layer.bytes() > 0) largest.push_back(absl::StrCat(layer.name(), " ", BytesText(layer.bytes())));
  }
  if (!largest.empty()) absl::StrAppend(&text, "  layers with most: ", absl::StrJoin(largest, ", "), "\n");
  return text;
}

// "  parts by rank_weight: rank 0 to 3 1.00, rank 4 to 7 0.62", of the largest; "" where the job has none.
std::string WeightsText(const JobSpec& spec) {
  if (spec.rank_weight().empty()) return "";
  constexpr size_t kMostShown = 8;
  const double most = *std::max_element(spec.rank_weight().begin(), spec.rank_weight().end());
  std::vector<std::string> runs;
  for (int first = 0, end = 0; first < spec.rank_weight_size(); first = end) {
    while (end < spec.rank_weight_size() && spec.rank_weight(end) == spec.rank_weight(first)) ++end;
    if (runs.size() == kMostShown) {
      runs.push_back("...");
      break;
    }
    runs.push_back(absl::StrCat("rank ", first, end - first > 1 ? absl::StrCat(" to ", end - 1) : "",
                                absl::StrFormat(" %.2f", spec.rank_weight(first) / most)));
  }
  return absl::StrCat("  parts by rank_weight: ", absl::StrJoin(runs, ", "), "\n");
}

std::string LayersText(const AutoPlan& chosen) {
  std::vector<std::vector<std::string>> rows = {
      {"LAYER", "LAYOUT", "COMPUTE", "MOVED", "MEMORY", "NEXT BEST", "COSTS"}};
  for (int i = 0; i < chosen.report.choice_size(); ++i) {
    const ChoiceReport& choice = chosen.report.choice(i);
    const AutoPlan::LayerSeconds& layer = chosen.layer[i];
    std::string name = layer.layer;
    if (layer.with.size() == 1) absl::StrAppend(&name, ", ", layer.with[0]);
    if (layer.with.size() > 1) absl::StrAppend(&name, " .. ", layer.with.back());
    std::string costs;
    if (!choice.next().empty()) {
      costs = MoreText(choice.next_seconds());
      if (choice.next_bytes() != 0) absl::StrAppend(&costs, ", ", MoreBytes(choice.next_bytes()));
    }
    rows.push_back({name, choice.layout(), SecondsText(layer.compute), SecondsText(layer.movement),
                    BytesText(layer.bytes), choice.next(), costs});
  }
  return absl::StrCat("\nLayers, with those that follow their layout\n", Table(rows));
}

std::string AlternativesText(const AutoPlan& chosen) {
  if (chosen.report.alternative().empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"INSTEAD", "STEP", "", "MEMORY"}};
  const double now = chosen.step_seconds;
  for (const AlternativeReport& other : chosen.report.alternative()) {
    if (!other.impossible().empty()) {
      rows.push_back({other.what(), absl::StrCat("not possible: ", other.impossible())});
      continue;
    }
    rows.push_back(
        {other.what(), other.step_seconds() > 0 ? SecondsText(other.step_seconds()) : "-",
         other.step_seconds() > 0 && now > 0 ? absl::StrFormat("%.2f times", other.step_seconds() / now) : "",
         BytesText(other.bytes())});
  }
  return absl::StrCat("\nAlternatives\n", Table(rows));
}

// "warning: on 8, 16 ranks: ...", in the order in which they come first.
std::string WarningsText(const std::vector<RanksRow>& rows) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> warnings;
  for (const RanksRow& row : rows) {
    for (const std::string& warning : row.warning) {
      auto known = std::find_if(warnings.begin(), warnings.end(), [&](const auto& w) { return w.first == warning; });
      if (known == warnings.end()) known = warnings.insert(known, {warning, {}});
      known->second.push_back(row.ranks);
    }
  }
  std::string text;
  for (const auto& [warning, ranks] : warnings) {
    absl::StrAppend(&text, "warning: on ", absl::StrJoin(ranks, ", "),
                    ranks == std::vector<int64_t>{1} ? " rank: " : " ranks: ", warning, "\n");
  }
  return text;
}

}  // namespace

std::string ExplainSearch(const AutoPlan& chosen, const MemoryReport& memory, const std::string& machine) {
  const SearchReport& report = chosen.report;
  const double step = report.chosen_seconds(), bound = report.lower_bound_seconds();
  const double gap = bound > 0 ? (step - bound) / bound : 0;
  double compute = 0, movement = 0;
  for (const AutoPlan::LayerSeconds& layer : chosen.layer) {
    compute += layer.compute;
    movement += layer.movement;
  }
  std::string text =
      absl::StrCat("Layouts chosen for ", chosen.spec.ranks(), chosen.spec.ranks() == 1 ? " rank" : " ranks",
                   ": a step takes ", SecondsText(chosen.step_seconds), " (compute ", SecondsText(compute),
                   ", movement ", SecondsText(movement), ")\n");
  absl::StrAppend(
      &text, "  ",
      gap < 1e-6 ? "the best of all candidates, as the search counts"
                 : absl::StrFormat("at most %.2g %% above the best of all candidates, as the search counts", gap * 100),
      "\n");
  if (!machine.empty()) absl::StrAppend(&text, "  by the rates of ", machine, "\n");
  absl::StrAppend(&text, "  ", BytesText(chosen.memory.bytes), " of tensors on the rank that needs most",
                  report.memory_limit_bytes() > 0 ? absl::StrCat(", of ", BytesText(report.memory_limit_bytes())) : "",
                  "\n");
  absl::StrAppend(&text, WeightsText(chosen.spec), MemoryText(chosen, memory), LayersText(chosen),
                  AlternativesText(chosen));
  absl::StrAppendFormat(&text, "\nSearched %s layers that are free to choose, %s candidates, in %s\n",
                        CountText(report.variables()), CountText(report.candidates()),
                        SecondsText(report.search_seconds()));
  return text;
}

std::string ExplainRanks(const std::vector<RanksRow>& rows) {
  std::vector<std::vector<std::string>> cells = {{"RANKS", "STEP", "SPEED-UP", "MEMORY", "RANK-SECONDS"}};
  const RanksRow* first = nullptr;
  const RanksRow* best = nullptr;
  for (const RanksRow& row : rows) {
    if (!row.impossible.empty()) {
      cells.push_back({absl::StrCat(row.ranks), absl::StrCat("not possible: ", row.impossible)});
      continue;
    }
    if (first == nullptr) first = &row;
    if (best == nullptr || row.seconds < best->seconds) best = &row;
    cells.push_back({absl::StrCat(row.ranks), SecondsText(row.seconds),
                     absl::StrFormat("%.2f", row.seconds > 0 ? first->seconds / row.seconds : 1), BytesText(row.bytes),
                     absl::StrFormat("%.3g", row.seconds * static_cast<double>(row.ranks))});
  }
  std::string text = Table(cells);
  if (best == nullptr) return text;
  // The fewest ranks that are within a tenth of the fastest.
  for (const RanksRow& row : rows) {
    if (!row.impossible.empty() || row.seconds > best->seconds * 1.1) continue;
    if (row.ranks < rows.back().ranks) {
      absl::StrAppend(&text, "More than ", row.ranks, row.ranks == 1 ? " rank gains" : " ranks gain",
                      " less than 10 %\n");
    }
    break;
  }
  return absl::StrCat(text, WarningsText(rows));
}

}  // namespace adjoin
