// What one rank does in every execution of a movement, computed once: its messages in order, and the steps of its
// collectives with what each of them must wait for.
//
//   const CompiledMovement compiled = CompiledMovement::Compile(plan);
//
// A pure function of the plan. Offsets are in elements.
#ifndef ADJOIN_PRIMITIVES_COMM_COMPILED_MOVEMENT_H_
#define ADJOIN_PRIMITIVES_COMM_COMPILED_MOVEMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/movement_plan.h"

namespace adjoin {

// A message of the plain list is cut where it would be longer than this, so that its ends need little memory beside
// the tensors, and packing goes on while other parts travel.
inline constexpr int64_t kSegmentBytes = 256 << 10;

// One message of the plain list.
struct ListedMessage {
  int peer = 0;
  int64_t elements = 0;
  std::vector<Region> regions;
  // Where its cells are one run of the tensor: the run's offset. It then travels without packing.
  std::optional<int64_t> run;
};

// Cells of its own source that a rank keeps; a part of them where they are cut like the messages.
struct KeptCells {
  std::vector<Region> from;
  std::vector<Region> to;
  // Where contributions are combined: its turn comes before this one of `receives`.
  std::size_t before_receive = 0;
};

// A step of a collective as CollectiveStep, with ranks for positions, and with its dependencies in this rank's list of
// steps: something may be posted once that many steps are complete.
struct CompiledStep {
  // How a received message is used.
  enum class Take {
    kReplace,        // it is received in place
    kCombineSource,  // work = source (op) received: the first contribution to these cells
    kCombineWork,    // work = work (op) received
  };
  int send_to = -1;  // -1: nothing
  Interval send;
  bool send_from_source = false;  // else from the work buffer
  std::size_t send_after = 0;
  int recv_from = -1;  // -1: nothing
  Interval recv;
  Take take = Take::kReplace;
  // What is received is the left operand, so that two ranks that combine the same two contributions do so in one order:
  // that of zeros of different signs and of NaNs shows in the result's bits.
  bool received_first = false;
  std::size_t recv_after = 0;  // of a receive in place
  int slot = 0;
};

struct CompiledCollective {
  // How many steps ahead of the first incomplete one messages are posted.
  static constexpr std::size_t kAhead = 4;

  std::vector<CompiledStep> steps;
  int64_t elements = 0;
  // A broadcast's root that is a destination as well: it copies its source.
  bool copies_source = false;
  // The work buffer is the destination; else segments of so many elements, kSegments of them in turn (an inner rank of
  // a sum-reduce, which has no destination).
  bool works_in_destination = true;
  int64_t segment = 0;
  static constexpr int64_t kSegments = 4;
  int64_t longest_combined = 0;  // elements of a message that is combined
  std::vector<int> sends_to;     // peers
  std::vector<int> receives_from;
  bool mutual = false;  // the data itself keeps the ranks together: every one of them waits for all

  // The position of cells of the whole tensor in the work buffer.
  Interval InWork(Interval cells) const {
    if (works_in_destination) return cells;
    const int64_t offset = cells.lo / segment % kSegments * segment - cells.lo / segment * segment;
    return {cells.lo + offset, cells.hi + offset};
  }
};

struct CompiledMovement {
  static CompiledMovement Compile(const MovementPlan& plan);

  uint64_t plan_serial = 0;
  int rank = 0;
  DType dtype = DType::kFloat32;
  ReduceOp reduce = ReduceOp::kSum;
  std::vector<int64_t> from_shape;
  std::vector<int64_t> to_shape;
  // In the order in which they are posted.
  std::vector<ListedMessage> sends;
  // In the order in which they are taken in. Where contributions are combined it is that of their segments, and within
  // those that of the source's mesh: the same on every rank that gets the same cells, whatever the ranks are called.
  std::vector<ListedMessage> receives;
  std::vector<KeptCells> kept;
  bool combines = false;  // whether a destination cell gets more than one contribution
  std::vector<CompiledCollective> collectives;
  // All ranks that this one exchanges data with, ascending.
  std::vector<int> peers;
  // Peers that get data in each execution and give none, and the other way round: credits go between these.
  std::vector<int> sends_one_way_to;
  std::vector<int> receives_one_way_from;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_COMPILED_MOVEMENT_H_
