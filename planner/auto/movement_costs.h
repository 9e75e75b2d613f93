// Layouts and what is read of them, each numbered once, and how long it takes to move a tensor from one to the other.
//
//   MovementCosts costs(model);
//   const int x = costs.Layouts().Add(layout);
//   const int read = costs.AddRead({.to = &y_layout, .readings = &windows, .read = &x_layout});
//   costs.Seconds(x, read).forward;
//
// The busiest rank's seconds. Every pair is counted once (primitives/geometry/traffic.h). Of pairs that differ only in
// the extents of dims which both cut evenly, one is counted, and stands for the others: so the layers of a network,
// most of which are cut in the same ways, share most of their counts.
#ifndef ADJOIN_PLANNER_AUTO_MOVEMENT_COSTS_H_
#define ADJOIN_PLANNER_AUTO_MOVEMENT_COSTS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "planner/time/cost_model.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/reading.h"
#include "primitives/geometry/traffic.h"

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

// What a layer reads of an input: a movement but for where it comes from (OperatorRequest), of parts that somebody else
// holds. Null: absent.
struct ReadNeed {
  const Layout* to = nullptr;
  const std::map<int, Reading>* readings = nullptr;
  const Layout* read = nullptr;
  const std::map<int, Reading>* source = nullptr;
};

class MovementCosts {
 public:
  // A ReadNeed whose layouts are in the table.
  struct KnownRead {
    const Layout* to = nullptr;
    const Layout* read = nullptr;  // null: absent
    std::map<int, Reading> readings = {}, source = {};
    int layout = -1;  // LayoutTable: as which the input is read

    const Layout& Lies() const { return read != nullptr ? *read : *to; }
  };

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
  // The same of a whole layout, by its number.
  int AddRead(int layout);
  const KnownRead& Read(int read) const { return reads_[read]; }
  // kImpossible where there is no such movement.
  Pair Seconds(int from, int read);

 private:
  // What a layout, or what is read of one, has in common with those of other extents in some dims.
  using Class = int;
  // Some dims, a bit each.
  using Dims = uint32_t;
  struct LayoutClasses {
    Dims even = 0;  // parts of one extent
    std::map<Dims, Class> number;
  };
  struct ReadClasses {
    Dims scalable = 0;  // that have no reading; none where the pair has to be counted by itself
    std::map<Dims, Class> number;
  };
  // What a pair moves where its extents are the least that its cuts divide.
  struct Unit {
    BusiestTraffic traffic;
    bool scales = false;  // bytes grow with the extents, and nothing else changes
  };
  LayoutClasses& ClassesOf(int layout);
  ReadClasses& ClassesOfRead(int read);
  // Layouts of one class have the same mesh, placements and numbers of parts, the parts in a dim of `scaled` have one
  // extent there, and the other dims are cut at the same places.
  Class ClassOf(int layout, Dims scaled);
  Class ClassOfRead(int read, Dims scaled);
  Class NumberOf(std::string key);
  // Null where the pair has to be counted by itself. `scale`: by how many times the pair's tensor is larger.
  const Unit* UnitOf(int from, int read, int64_t* scale);
  Unit CountUnit(int from, int read, Dims scaled);
  Pair PairOf(int from, int read, const BusiestTraffic& traffic, int64_t scale) const;
  Pair Count(int from, int read);

  const CostModel& model_;
  const double change_;
  LayoutTable layouts_;
  std::deque<KnownRead> reads_;
  std::unordered_map<std::string, int> read_by_key_;
  std::vector<int> read_by_layout_;  // -1: none yet
  absl::flat_hash_map<uint64_t, Pair> pairs_;
  std::deque<std::optional<LayoutClasses>> classes_;      // by layout
  std::deque<std::optional<ReadClasses>> read_classes_;   // by read
  std::unordered_map<std::string, Class> class_numbers_;  // by what layouts and reads of a class have in common
  std::unordered_map<uint64_t, Unit> units_;              // by the classes of both ends
};

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_AUTO_MOVEMENT_COSTS_H_
