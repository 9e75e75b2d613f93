// The checks and error messages of one send or receive, the same for every transport.
//
//   ADJOIN_RETURN_IF_ERROR(CheckOperation({.send = true, .rank = 0, .peer = 1, .tag = tag, .bytes = 8}, size, buffer));
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_OPERATION_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_OPERATION_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/tag.h"

namespace adjoin {

struct Operation {
  bool send = false;
  int rank = 0;  // this end
  int peer = 0;  // the other end
  Tag tag = Tag::FromBits(0);
  std::size_t bytes = 0;

  // "receive of 8 bytes at rank 0 from rank 1 (operator 7 forward, generation 3, from rank 1, slot 0)"
  std::string ToString() const;
};

// Errors: kInvalidArgument: no such peer; a tag whose source is not the sender (messages are told apart by the tag
// alone, so such a message could be taken for another rank's); null memory of more than zero bytes.
absl::Status CheckOperation(const Operation& operation, int size, const Buffer& buffer);

// kDataLoss that names both ends and both lengths.
absl::Status LengthMismatch(const Operation& receive, std::size_t sent_bytes);

// kDeadlineExceeded that names the operation.
absl::Status WaitedTooLong(const Operation& operation);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_OPERATION_H_
