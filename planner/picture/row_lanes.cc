#include "planner/picture/row_lanes.h"

#include <algorithm>
#include <utility>

namespace adjoin {

bool GoesOn(const std::vector<PictureRow>& rows, int row) {
  const std::vector<int>& inputs = rows[row].inputs;
  return row > 0 && std::find(inputs.begin(), inputs.end(), row - 1) != inputs.end();
}

RowLanes LanesOf(const std::vector<PictureRow>& rows) {
  std::vector<RowLanes::Lane> wanted(rows.size());
  for (int row = 0; row < static_cast<int>(rows.size()); ++row) {
    wanted[row].from = row;
    for (const int input : rows[row].inputs) {
      if (input + 1 < row) wanted[input].to.push_back(row);
    }
  }
  wanted.erase(std::remove_if(wanted.begin(), wanted.end(), [](const auto& lane) { return lane.to.empty(); }),
               wanted.end());
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& a, const auto& b) { return a.to.back() - a.from < b.to.back() - b.from; });
  RowLanes result;
  std::vector<std::vector<std::pair<int, int>>> taken(kMostLanes);
  for (RowLanes::Lane& lane : wanted) {
    const auto free = [&](const std::vector<std::pair<int, int>>& others) {
      return std::all_of(others.begin(), others.end(),
                         [&](const auto& other) { return other.second < lane.from || lane.to.back() < other.first; });
    };
    const auto found = std::find_if(taken.begin(), taken.end(), free);
    if (found == taken.end()) {
      ++result.left_out;
      continue;
    }
    found->emplace_back(lane.from, lane.to.back());
    lane.lane = static_cast<int>(found - taken.begin());
    result.lanes = std::max(result.lanes, lane.lane + 1);
    result.lane.push_back(std::move(lane));
  }
  return result;
}

}  // namespace adjoin
