// Layouts and what is read of them, each numbered once, and how long it takes to move a tensor from one to the other.
//
//   MovementCosts costs(model);
//   const int x = costs.Layouts().Add(layout);
//   const int read = costs.AddRead({.to = y_layout, .readings = windows, .read = x_layout});
//   costs.Seconds(x, read).forward;
//
// The busiest rank's seconds. Every pair is counted once (primitives/geometry/traffic.h).
#ifndef ADJOIN_PLANNER_AUTO_MOVEMENT_COSTS_H_
#define ADJOIN_PLANNER_AUTO_MOVEMENT_COSTS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/time/cost_model.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"

namespace adjoin {

// Equal layouts have one number.
class LayoutTable {
 public:
  int Add(const Layout& layout);
  const Layout& operator[](int index) const { return layouts_[index]; }
  int size() const { return static_cast<int>(layouts_.size()); }

 private:
  std::deque<Layout> layouts_;  // references stay valid
  std::unordered_multimap<uint64_t, int> by_hash_;
};

// What a layer reads of an input: a movement but for where it comes from (OperatorRequest).
struct ReadNeed {
  Layout to;
  std::map<int, Reading> readings = {};
  std::optional<Layout> read = std::nullopt;
  std::map<int, Reading> source = {};
};

class MovementCosts {
 public:
  struct Pair {
    double forward = 0;
    double adjoint = 0;
    bool identity = false;  // no operator is needed
  };

  // `change`: seconds that each change of layout costs beside what it takes, so that plans stay readable.
  MovementCosts(const CostModel& model, double change) : model_(model), change_(change) {}

  LayoutTable& Layouts() { return layouts_; }
  const LayoutTable& Layouts() const { return layouts_; }
  int AddRead(const ReadNeed& need);
  const ReadNeed& Read(int read) const { return reads_[read]; }
  // kImpossible where there is no such movement.
  const Pair& Seconds(int from, int read);

 private:
  const CostModel& model_;
  const double change_;
  LayoutTable layouts_;
  std::deque<ReadNeed> reads_;
  std::map<std::string, int> read_by_key_;
  std::unordered_map<uint64_t, Pair> pairs_;
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_MOVEMENT_COSTS_H_
