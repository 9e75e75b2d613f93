#include "primitives/comm/communicator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(absl::Duration* total) : total_(total), start_(Deadline::Clock::now()) {}
  ~Stopwatch() { *total_ += absl::FromChrono(Deadline::Clock::now() - start_); }

 private:
  absl::Duration* total_;
  Deadline::Clock::time_point start_;
};

absl::Status CheckBuffer(const char* name, const Buffer& buffer, const std::vector<int64_t>& shape, DType dtype) {
  if (buffer.kind != MemoryKind::kHost && buffer.kind != MemoryKind::kPinnedHost) {
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " is not in host memory"));
  }
  // The shape of a rank outside a mesh has only zeros; a scalar's has none, and such a rank passes one unused element.
  const int64_t expected = VolumeOf(shape) * SizeOf(dtype);
  if (static_cast<int64_t>(buffer.bytes) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", name, " has ", buffer.bytes, " bytes, expected ", expected,
                                                 " for ", ToString(dtype), " (", absl::StrJoin(shape, ", "), ")"));
}

}  // namespace

Communicator::Communicator(Transport* transport, LocalMemory* memory, Options options)
    : transport_(transport), memory_(memory), options_(options) {}

Communicator::~Communicator() {
  // Handles only: the messages are on their way or will never be read.
  const Deadline now = Deadline::After(absl::ZeroDuration());
  for (Handle send : credit_sends_) transport_->Wait(send, now).IgnoreError();
}

absl::Status Communicator::CheckArguments(const Channel& channel, const MovementPlan& plan, const Buffer& source,
                                          const Buffer& destination) const {
  absl::Status status;
  if (plan.rank() != rank()) {
    status = absl::InvalidArgumentError(absl::StrCat("the plan is that of rank ", plan.rank()));
  }
  if (status.ok()) status = CheckBuffer("source", source, plan.direct().from_shape(), plan.dtype());
  if (status.ok()) status = CheckBuffer("destination", destination, plan.direct().to_shape(), plan.dtype());
  return status.ok() ? status : channel.Annotate(status, absl::StrCat("on rank ", rank()));
}

absl::StatusOr<std::unique_ptr<PendingMovement>> Communicator::StartBy(Deadline deadline, const Execution& execution,
                                                                       const MovementPlan& plan, const Buffer& source,
                                                                       const Buffer& destination) {
  ADJOIN_RETURN_IF_ERROR(status());
  const int64_t generation = generation_[{execution.op, static_cast<int>(execution.direction)}]++;
  const Channel checks(transport_, options_.id, execution, generation);
  if (absl::Status arguments = CheckArguments(checks, plan, source, destination); !arguments.ok()) {
    return Fail(std::move(arguments));
  }
  auto pending = std::make_unique<PendingMovement>(transport_, memory_, options_.id, execution, generation, &plan,
                                                   source, destination);
  if (absl::Status started = pending->Start(deadline); !started.ok()) return Fail(std::move(started));
  return pending;
}

absl::Status Communicator::WaitBy(Deadline deadline, std::unique_ptr<PendingMovement> pending) {
  ADJOIN_RETURN_IF_ERROR(status());
  const absl::Status finished = pending->Finish(deadline);
  ForgetCredits(pending->TakeCreditSends());
  return finished.ok() ? finished : Fail(finished);
}

absl::StatusOr<std::unique_ptr<PendingMovement>> Communicator::Start(const Execution& execution,
                                                                     const MovementPlan& plan, const Buffer& source,
                                                                     const Buffer& destination) {
  Stopwatch stopwatch(&time_moving_);
  return StartBy(Deadline::After(options_.timeout), execution, plan, source, destination);
}

absl::Status Communicator::Wait(std::unique_ptr<PendingMovement> pending) {
  Stopwatch stopwatch(&time_moving_);
  return WaitBy(Deadline::After(options_.timeout), std::move(pending));
}

absl::Status Communicator::Execute(const Execution& execution, const MovementPlan& plan, const Buffer& source,
                                   const Buffer& destination) {
  Stopwatch stopwatch(&time_moving_);
  const Deadline deadline = Deadline::After(options_.timeout);
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<PendingMovement> pending,
                          StartBy(deadline, execution, plan, source, destination));
  return WaitBy(deadline, std::move(pending));
}

void Communicator::ForgetCredits(std::vector<Handle> sends) {
  const Deadline now = Deadline::After(absl::ZeroDuration());
  for (Handle send : credit_sends_) {
    if (transport_->Test(send)) {
      transport_->Wait(send, now).IgnoreError();  // a peer that is gone needs no credit
    } else {
      sends.push_back(send);
    }
  }
  credit_sends_ = std::move(sends);
}

void Communicator::Abort(absl::Status reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = reason;
  }
  transport_->Abort(std::move(reason));
}

absl::Status Communicator::status() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::Status Communicator::Fail(absl::Status status) {
  Abort(status);
  return status;
}

}  // namespace adjoin
