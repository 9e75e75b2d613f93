// What ranks tell each other beside their movements, between two steps: one message after another, each waited for.
//
//   RankMessages messages(communicator.transport(), absl::Minutes(5));
//   ADJOIN_RETURN_IF_ERROR(messages.Send(/*to=*/0, &number, sizeof(number)));      // on rank 3
//   ADJOIN_RETURN_IF_ERROR(messages.Recv(/*from=*/3, &number, sizeof(number)));    // on rank 0
//
// Both ends know how long a message is. Errors: the transport's. One thread, as Transport.
#ifndef ADJOIN_WORKER_TRACE_RANK_MESSAGES_H_
#define ADJOIN_WORKER_TRACE_RANK_MESSAGES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/transport/transport.h"

namespace adjoin {

class RankMessages {
 public:
  // `transport` outlives it. `timeout`: of each message.
  RankMessages(Transport* transport, absl::Duration timeout) : transport_(transport), timeout_(timeout) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  absl::Status Send(int to, const void* data, std::size_t bytes);
  absl::Status Recv(int from, void* data, std::size_t bytes);

 private:
  Transport* const transport_;
  const absl::Duration timeout_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_RANK_MESSAGES_H_
