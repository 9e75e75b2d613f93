#include "planner/picture/row_folding.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

constexpr int kLongestPeriod = 24;  // rows
constexpr int kLeastRepeats = 3;

// What two rows have in common that are drawn alike, names and times left out.
std::string KeyOf(const PictureRow& row, int own) {
  std::string key = absl::StrCat(static_cast<int>(row.kind), "|", row.layers.size(), "|", row.what, "|", row.shape, "|",
                                 row.layout, "|", row.view.roles, "|", row.flops, "|", row.notes.size());
  for (const int input : row.inputs) absl::StrAppend(&key, "|", own - input);
  for (const auto* list : {&row.before, &row.inside, &row.after}) {
    absl::StrAppend(&key, "#");
    for (const MovementRow& movement : *list) {
      absl::StrAppend(&key, "|", movement.what, " ", FactsText(movement.facts));
    }
  }
  for (const ParameterRow& parameter : row.parameters) {
    // Blocks are alike whichever buckets their gradients are in.
    absl::StrAppend(&key, "|", parameter.shape, " ", parameter.home, " ", parameter.gradient.empty(), " ",
                    parameter.bytes);
  }
  return key;
}

// Rows that stand for others: `row` is drawn, and the rows first, ..., end - 1 of the list before are in it.
struct Stretch {
  PictureRow row;
  int first = 0, end = 0;
};

std::string NamesText(const std::vector<PictureRow>& rows, int first, int end) {
  const auto name = [](const PictureRow& row, bool last) {
    return row.layers.empty() ? row.title : last ? row.layers.back() : row.layers.front();
  };
  return absl::StrCat(name(rows[first], false), " … ", name(rows[end - 1], true));
}

// One row for many: their numbers added up.
PictureRow SumOf(const std::vector<PictureRow>& rows, int first, int end, PictureRow::Kind kind) {
  PictureRow sum;
  sum.kind = kind;
  MovementRow all{"all", "all movements", {}};
  size_t parameters = 0;
  for (int i = first; i < end; ++i) {
    sum.layers.insert(sum.layers.end(), rows[i].layers.begin(), rows[i].layers.end());
    sum.flops += rows[i].flops;
    sum.forward += rows[i].forward;
    sum.backward += rows[i].backward;
    sum.movement += rows[i].movement;
    sum.peak = sum.peak || rows[i].peak;
    all.facts.bytes = std::min<int64_t>(all.facts.bytes, INT64_MAX - rows[i].bytes()) + rows[i].bytes();
    for (const auto* list : {&rows[i].before, &rows[i].inside, &rows[i].after}) {
      for (const MovementRow& movement : *list) all.facts.messages += movement.facts.messages;
    }
    parameters += rows[i].parameters.size();
  }
  if (parameters > 0) sum.notes.push_back(absl::StrCat(parameters, " parameters"));
  if (all.facts.bytes > 0) {
    all.facts.kind = "together";
    sum.inside.push_back(std::move(all));
  }
  return sum;
}

// How often the `period` rows at `first` come there, one after the other.
int RepeatsAt(const std::vector<std::string>& keys, int first, int period) {
  int repeats = 1;
  for (int at = first + period; at + period <= static_cast<int>(keys.size()); at += period, ++repeats) {
    for (int i = 0; i < period; ++i) {
      if (keys[first + i] != keys[at + i]) return repeats;
    }
  }
  return repeats;
}

// Puts each stretch in the place of its rows.
std::vector<PictureRow> Replaced(const std::vector<PictureRow>& rows, std::vector<Stretch> stretches) {
  std::vector<int> new_index(rows.size());
  std::vector<PictureRow> result;
  size_t next = 0;
  for (int i = 0; i < static_cast<int>(rows.size());) {
    if (next < stretches.size() && stretches[next].first == i) {
      Stretch& stretch = stretches[next++];
      std::set<int> inputs;
      for (; i < stretch.end; ++i) {
        for (const int input : rows[i].inputs) {
          if (input < stretch.first) inputs.insert(new_index[input]);
        }
        new_index[i] = static_cast<int>(result.size());
      }
      // A row that reads many others is drawn as going on from the one above.
      const int above = static_cast<int>(result.size()) - 1;
      stretch.row.inputs.assign(inputs.begin(), inputs.end());
      if (stretch.row.kind == PictureRow::Kind::kFolded && above >= 0) stretch.row.inputs = {above};
      result.push_back(std::move(stretch.row));
      continue;
    }
    PictureRow row = rows[i];
    std::set<int> inputs;
    for (const int input : row.inputs) inputs.insert(new_index[input]);
    row.inputs.assign(inputs.begin(), inputs.end());
    new_index[i] = static_cast<int>(result.size());
    result.push_back(std::move(row));
    ++i;
  }
  return result;
}

}  // namespace

std::vector<PictureRow> FoldRows(const std::vector<PictureRow>& rows, int most) {
  std::vector<std::string> keys;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) keys.push_back(KeyOf(rows[i], i));
  std::vector<Stretch> stretches;
  for (int i = 0; i < static_cast<int>(rows.size());) {
    int best_period = 0, best_saved = 0, best_repeats = 0;
    for (int period = 1; period <= kLongestPeriod; ++period) {
      const int repeats = RepeatsAt(keys, i, period);
      const int saved = (repeats - 1) * period;
      if (repeats >= kLeastRepeats && saved > best_saved) {
        best_period = period, best_saved = saved, best_repeats = repeats;
      }
    }
    if (best_saved == 0) {
      ++i;
      continue;
    }
    Stretch stretch;
    stretch.first = i + best_period;
    stretch.end = i + best_period * best_repeats;
    stretch.row = SumOf(rows, stretch.first, stretch.end, PictureRow::Kind::kFolded);
    stretch.row.title = absl::StrCat(best_repeats - 1, " times more the ",
                                     best_period == 1 ? "row" : absl::StrCat(best_period, " rows"), " above");
    stretch.row.what = NamesText(rows, stretch.first, stretch.end);
    i = stretch.end;
    stretches.push_back(std::move(stretch));
  }
  std::vector<PictureRow> folded = Replaced(rows, std::move(stretches));
  if (static_cast<int>(folded.size()) <= most) return folded;
  Stretch left_out;
  left_out.first = most * 3 / 4;
  left_out.end = static_cast<int>(folded.size()) - (most - left_out.first - 1);
  left_out.row = SumOf(folded, left_out.first, left_out.end, PictureRow::Kind::kLeftOut);
  left_out.row.title = absl::StrCat(left_out.end - left_out.first, " rows are not drawn");
  left_out.row.what = NamesText(folded, left_out.first, left_out.end);
  return Replaced(folded, {std::move(left_out)});
}

}  // namespace adjoin
