#include "primitives/comm/collective_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace adjoin {

CollectiveRun::CollectiveRun(Channel* channel, LocalMemory* memory, DType dtype, const CollectiveGroup* group,
                             std::vector<CollectiveStep> steps, int position, const Buffer& source,
                             const Buffer& destination)
    : channel_(channel),
      memory_(memory),
      dtype_(dtype),
      element_bytes_(SizeOf(dtype)),
      group_(group),
      steps_(std::move(steps)),
      position_(position),
      source_(source),
      destination_(destination) {}

Buffer CollectiveRun::Elements(const Buffer& buffer, Interval elements) const {
  return PartOf(buffer, elements.lo * element_bytes_, elements.size() * element_bytes_);
}

absl::Status CollectiveRun::PrepareWork() {
  const int64_t bytes = group_->elements * element_bytes_;
  const bool root = position_ == 0;
  const bool adds = std::any_of(steps_.begin(), steps_.end(), [](const CollectiveStep& s) { return s.add; });
  auto copy_source = [&](const Buffer& to) {
    if (bytes > 0) std::memcpy(to.data, source_.data, static_cast<std::size_t>(bytes));
  };
  switch (group_->kind) {
    case CollectiveGroup::Kind::kBroadcast:
      if (root && group_->root_takes_part) copy_source(destination_);
      work_ = root ? source_ : destination_;
      break;
    case CollectiveGroup::Kind::kSumReduce:
      if (root) {
        work_ = destination_;
        if (group_->root_takes_part) copy_source(work_);
        else if (bytes > 0) std::memset(work_.data, 0, static_cast<std::size_t>(bytes));
      } else if (adds) {
        ADJOIN_ASSIGN_OR_RETURN(work_, memory_->Allocate(bytes));
        copy_source(work_);
      } else {
        work_ = source_;
      }
      break;
    case CollectiveGroup::Kind::kAllSumReduce:
      work_ = destination_;
      copy_source(work_);
      break;
  }
  int64_t largest = 0;
  for (const CollectiveStep& step : steps_) {
    if (step.add) largest = std::max(largest, step.recv.size());
  }
  ADJOIN_ASSIGN_OR_RETURN(staging_, memory_->Allocate(largest * element_bytes_));
  return absl::OkStatus();
}

absl::Status CollectiveRun::WaitForSendsOf(Interval elements, Deadline deadline) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    if (sends_[i].elements.Intersect(elements).empty()) {
      sends_[kept++] = sends_[i];
    } else {
      ADJOIN_RETURN_IF_ERROR(channel_->Wait(sends_[i].posted, deadline));
    }
  }
  sends_.resize(kept);
  return absl::OkStatus();
}

absl::Status CollectiveRun::Post(const CollectiveStep& step, Deadline deadline) {
  const int slot = Channel::CollectiveSlot(step.slot);
  if (step.recv_from >= 0) {
    if (!step.add) ADJOIN_RETURN_IF_ERROR(WaitForSendsOf(step.recv, deadline));
    const Buffer into = step.add ? PartOf(staging_, 0, step.recv.size() * element_bytes_) : Elements(work_, step.recv);
    ADJOIN_ASSIGN_OR_RETURN(receive_, channel_->Recv(group_->ranks[step.recv_from], slot, into));
  }
  if (step.send_to >= 0) {
    ADJOIN_ASSIGN_OR_RETURN(const Channel::Posted posted,
                            channel_->Send(group_->ranks[step.send_to], slot, Elements(work_, step.send)));
    sends_.push_back({posted, step.send});
  }
  return absl::OkStatus();
}

absl::Status CollectiveRun::Complete(const CollectiveStep& step, Deadline deadline) {
  ADJOIN_RETURN_IF_ERROR(channel_->Wait(*receive_, deadline));
  receive_.reset();
  if (!step.add || step.recv.empty()) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(WaitForSendsOf(step.recv, deadline));
  return memory_->Combine(ReduceOp::kSum, dtype_, staging_.data, Elements(work_, step.recv).data, {1, step.recv.size(), 0, 0});
}

absl::Status CollectiveRun::PostUntilReceive(Deadline deadline) {
  for (; next_ < steps_.size(); ++next_) {
    ADJOIN_RETURN_IF_ERROR(Post(steps_[next_], deadline));
    if (receive_.has_value()) break;
  }
  return absl::OkStatus();
}

absl::Status CollectiveRun::Begin(Deadline deadline) {
  ADJOIN_RETURN_IF_ERROR(PrepareWork());
  return PostUntilReceive(deadline);
}

absl::Status CollectiveRun::Finish(Deadline deadline) {
  while (next_ < steps_.size()) {
    ADJOIN_RETURN_IF_ERROR(Complete(steps_[next_], deadline));
    ++next_;
    ADJOIN_RETURN_IF_ERROR(PostUntilReceive(deadline));
  }
  return WaitForSendsOf({0, group_->elements}, deadline);
}

}  // namespace adjoin
