#include "primitives/transport/operation.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {

std::string Operation::ToString() const {
  return absl::StrCat(send ? "send" : "receive", " of ", bytes, " bytes at rank ", rank, send ? " to" : " from",
                      " rank ", peer, " (", tag.ToString(), ")");
}

absl::Status CheckOperation(const Operation& operation, int size, const Buffer& buffer) {
  if (operation.peer < 0 || operation.peer >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation.ToString(), ": there is no such peer, ranks are 0 to ", size - 1));
  }
  const int sender = operation.send ? operation.rank : operation.peer;
  if (operation.tag.fields().source != sender) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation.ToString(), ": the tag's source must be the sender, rank ", sender));
  }
  if (buffer.data == nullptr && buffer.bytes > 0) {
    return absl::InvalidArgumentError(absl::StrCat(operation.ToString(), ": the buffer's memory is null"));
  }
  return absl::OkStatus();
}

absl::Status LengthMismatch(const Operation& receive, std::size_t sent_bytes) {
  return absl::DataLossError(absl::StrCat("rank ", receive.peer, " sent ", sent_bytes, " bytes to rank ", receive.rank,
                                          ", which expected ", receive.bytes, " (", receive.tag.ToString(), ")"));
}

absl::Status WaitedTooLong(const Operation& operation) {
  return absl::DeadlineExceededError(absl::StrCat("waited too long for the ", operation.ToString()));
}

}  // namespace adjoin
