#include "primitives/comm/late_transport.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace adjoin {

absl::StatusOr<Handle> LateTransport::StartSend(int peer, Tag tag, const Buffer& buffer) {
  late_.push_back({++last_id_, peer, tag, buffer});
  return Handle{last_id_};
}

absl::StatusOr<Handle> LateTransport::StartRecv(int peer, Tag tag, const Buffer& buffer) {
  ADJOIN_ASSIGN_OR_RETURN(const Handle begun, inner().StartRecv(peer, tag, buffer));
  begun_[++last_id_] = begun;
  return Handle{last_id_};
}

bool LateTransport::IsLate(Handle handle) const {
  return std::any_of(late_.begin(), late_.end(), [&](const Late& late) { return late.id == handle.id; });
}

absl::Status LateTransport::SendOne() {
  const Late& any = late_[random_() % late_.size()];
  const auto first = std::find_if(late_.begin(), late_.end(),
                                  [&](const Late& late) { return late.peer == any.peer && late.tag == any.tag; });
  ADJOIN_ASSIGN_OR_RETURN(begun_[first->id], inner().StartSend(first->peer, first->tag, first->buffer));
  late_.erase(first);
  return absl::OkStatus();
}

absl::Status LateTransport::Wait(Handle handle, Deadline deadline) {
  if (never_ && IsLate(handle)) return absl::DeadlineExceededError("never sent");
  while (IsLate(handle)) ADJOIN_RETURN_IF_ERROR(SendOne());
  const auto it = begun_.find(handle.id);
  if (it == begun_.end()) return absl::NotFoundError(absl::StrCat("no operation in flight has handle ", handle.id));
  const Handle begun = it->second;
  begun_.erase(it);
  return inner().Wait(begun, deadline);
}

bool LateTransport::Test(Handle handle) {
  const auto it = begun_.find(handle.id);
  if (it != begun_.end()) return inner().Test(it->second);
  return !IsLate(handle);
}

absl::Status LateTransport::WaitAny(absl::Span<const Handle> handles, Deadline deadline) {
  const auto any_over = [&] {
    return std::any_of(handles.begin(), handles.end(), [&](Handle handle) { return Test(handle); });
  };
  while (true) {
    for (int64_t i = random_() % 16; i >= 0; --i) {  // what comes meanwhile comes before the sends
      if (any_over()) return absl::OkStatus();
      std::this_thread::yield();
    }
    if (never_ && deadline.Expired()) return absl::DeadlineExceededError("none was over in time");
    if (never_) continue;
    if (late_.empty()) break;
    ADJOIN_RETURN_IF_ERROR(SendOne());
  }
  std::vector<Handle> begun;
  for (Handle handle : handles) begun.push_back(begun_.at(handle.id));
  return inner().WaitAny(begun, deadline);
}

}  // namespace adjoin
