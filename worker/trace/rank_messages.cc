#include "worker/trace/rank_messages.h"

#include <cstring>
#include <memory>

#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/reserved_ids.h"
#include "primitives/transport/tag.h"

namespace adjoin {
namespace {

Tag TagFrom(int source) {
  return *Tag::Make({.communicator = kTransportCommunicator,
                     .op = kRankMessagesOperator,
                     .direction = Direction::kControl,
                     .source = source});
}

// Memory that lives for as long as the transport needs it, also where a wait is given up.
Buffer OwnMemory(std::size_t bytes) {
  auto memory = std::make_shared<std::string>(bytes, '\0');
  Buffer buffer;
  buffer.data = memory->data();
  buffer.bytes = bytes;
  buffer.keepalive = std::move(memory);
  return buffer;
}

}  // namespace

absl::Status RankMessages::Send(int to, const void* data, std::size_t bytes) {
  const Buffer buffer = OwnMemory(bytes);
  std::memcpy(buffer.data, data, bytes);
  ADJOIN_ASSIGN_OR_RETURN(const Handle handle, transport_->StartSend(to, TagFrom(rank()), buffer));
  return transport_->Wait(handle, Deadline::After(timeout_));
}

absl::Status RankMessages::Recv(int from, void* data, std::size_t bytes) {
  const Buffer buffer = OwnMemory(bytes);
  ADJOIN_ASSIGN_OR_RETURN(const Handle handle, transport_->StartRecv(from, TagFrom(from), buffer));
  ADJOIN_RETURN_IF_ERROR(transport_->Wait(handle, Deadline::After(timeout_)));
  std::memcpy(data, buffer.data, bytes);
  return absl::OkStatus();
}

}  // namespace adjoin
