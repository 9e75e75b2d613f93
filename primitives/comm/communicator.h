// Executes movements on buffers over a transport: packing, posting, collective steps, deadlines, one sticky failure.
//
//   Communicator comm(&transport, &reducer, {});
//   ADJOIN_RETURN_IF_ERROR(comm.Execute({.op = 7, .name = "conv1.x", .direction = Direction::kForward}, plan, src, dst));
//
// Threads: as Transport (one at a time; Abort from any).
#ifndef ADJOIN_PRIMITIVES_COMM_COMMUNICATOR_H_
#define ADJOIN_PRIMITIVES_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/comm/reducer.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/transport.h"

namespace adjoin {

class PendingMovement;  // pending_movement.h: one execution in flight

class Communicator {
 public:
  struct Options {
    int id = 0;                                     // of the tags, [0, 64)
    absl::Duration timeout = absl::Seconds(300);    // of each wait
  };

  struct Execution {
    int64_t op = 0;
    std::string name;  // for messages
    Direction direction = Direction::kForward;
  };

  Communicator(Transport* transport, Reducer* reducer, Options options);
  ~Communicator();

  int rank() const;
  int size() const;

  // Starts one execution: posts receives, packs and sends. `source` and `destination` are contiguous local tensors of
  // plan.direct().from_shape() and to_shape(); `destination` is initialised by the caller (zeros or fill). Both are kept
  // by their keepalive until Wait.
  // Errors: the sticky failure; the transport's.
  absl::StatusOr<std::unique_ptr<PendingMovement>> Start(const Execution& execution, const MovementPlan& plan,
                                                         const Buffer& source, const Buffer& destination);
  absl::Status Wait(std::unique_ptr<PendingMovement> pending);
  // Start and Wait in a row.
  absl::Status Execute(const Execution& execution, const MovementPlan& plan, const Buffer& source,
                       const Buffer& destination);

  // Ends every wait with `reason`; the first failure stays. From any thread.
  void Abort(absl::Status reason);
  // OK, or the first failure.
  absl::Status status() const;

  // Time spent in Start and Wait since the start, and payload bytes sent.
  absl::Duration time_moving() const { return time_moving_; }
  int64_t BytesSent() const;

 private:
  Transport* transport_;
  Reducer* reducer_;
  Options options_;
  absl::Duration time_moving_;
  absl::flat_hash_map<uint64_t, int64_t> generation_;  // by (operator, direction)
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_COMMUNICATOR_H_
