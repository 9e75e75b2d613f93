#include "primitives/comm/communicator.h"

#include <string>
#include <utility>

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

// The word that says what a rank waits in: that it waits, direction, operator, generation.
constexpr uint64_t kWaits = uint64_t{1} << 63;
constexpr int kDirectionShift = 61;
constexpr int kOperatorShift = 45;
constexpr uint64_t kDirectionMask = 0x3;
constexpr uint64_t kOperatorMask = 0xffff;
constexpr uint64_t kGenerationMask = (uint64_t{1} << kOperatorShift) - 1;

// How often WaitForFailure makes progress.
constexpr absl::Duration kFailurePoll = absl::Milliseconds(5);

absl::Status CheckBuffer(const char* name, const Buffer& buffer, MemoryKind kind, const std::vector<int64_t>& shape,
                         DType dtype) {
  const bool host = kind == MemoryKind::kHost;
  if (buffer.kind != kind && !(host && buffer.kind == MemoryKind::kPinnedHost)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", name, " is not in ", host ? "host memory" : "the communicator's kind of memory"));
  }
  // The shape of a rank outside a mesh has only zeros; a scalar's has none, and such a rank passes one unused element.
  const int64_t expected = VolumeOf(shape) * SizeOf(dtype);
  if (static_cast<int64_t>(buffer.bytes) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", name, " has ", buffer.bytes, " bytes, expected ", expected,
                                                 " for ", ToString(dtype), " (", absl::StrJoin(shape, ", "), ")"));
}

Span SpanOf(SpanKind kind, const Execution& execution, int peer = -1) {
  return {.kind = kind, .direction = execution.direction, .index = static_cast<int32_t>(execution.op), .peer = peer};
}

}  // namespace

Communicator::Communicator(Transport* transport, LocalMemory* memory, Options options)
    : transport_(transport), memory_(memory), options_(options), check_(transport, options.id) {}

Communicator::~Communicator() {
  for (auto& [key, op] : operators_) op.ahead.clear();  // they leave in_flight_
  // Handles only: the messages are on their way or will never be read.
  const Deadline now = Deadline::After(absl::ZeroDuration());
  for (Handle send : credit_sends_) transport_->Wait(send, now).IgnoreError();
}

absl::Status Communicator::CheckArguments(const MovementPlan& plan, const Buffer& source,
                                          const Buffer& destination) const {
  if (plan.rank() != rank()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan is that of rank ", plan.rank()));
  }
  const MemoryKind kind = memory_->kind();
  ADJOIN_RETURN_IF_ERROR(CheckBuffer("source", source, kind, plan.direct().from_shape(), plan.dtype()));
  return CheckBuffer("destination", destination, kind, plan.direct().to_shape(), plan.dtype());
}

absl::StatusOr<Communicator::Operator*> Communicator::FindOperator(const Execution& execution,
                                                                   const MovementPlan& plan) {
  Operator& op = operators_[{execution.op, static_cast<int>(execution.direction)}];
  if (op.movement != nullptr && op.movement->compiled.plan_serial == plan.serial()) return &op;
  auto movement = std::make_shared<RoutedMovement>();
  movement->compiled = CompiledMovement::Compile(plan);
  SharedPeers* const shared = memory_->kind() == MemoryKind::kHost ? transport_->shared_peers() : nullptr;
  movement->routes = SharedRoutes::Find(movement->compiled, shared);
  // Credits count the executions of an operator between two ranks: other peers would wait for words never given.
  if (op.movement != nullptr &&
      (op.movement->compiled.sends_one_way_to != movement->compiled.sends_one_way_to ||
       op.movement->compiled.receives_one_way_from != movement->compiled.receives_one_way_from)) {
    return absl::FailedPreconditionError(absl::StrCat("this id was that of operator \"", op.execution.name,
                                                      "\" before, which has other peers; ids are unique"));
  }
  op.execution = execution;
  op.movement = std::move(movement);
  absl::MutexLock lock(&mutex_);
  names_[execution.op] = execution.name.empty() ? absl::StrCat("operator ", execution.op) : execution.name;
  return &op;
}

Buffer Communicator::OnStream(const Buffer& buffer) const {
  Buffer ordered = buffer;
  if (ordered.stream == nullptr) ordered.stream = memory_->stream();
  return ordered;
}

absl::StatusOr<std::unique_ptr<MovementExecution>> Communicator::StartNow(const Execution& execution,
                                                                          const MovementPlan& plan,
                                                                          const Buffer& source,
                                                                          const Buffer& destination) {
  ADJOIN_RETURN_IF_ERROR(status());
  absl::Status arguments = CheckArguments(plan, source, destination);
  absl::StatusOr<Operator*> op = nullptr;
  if (arguments.ok()) op = FindOperator(execution, plan);
  if (!op.ok()) arguments = op.status();
  if (!arguments.ok()) {
    const Channel channel(transport_, options_.id, &execution, 0);
    return Fail(channel.Annotate(arguments, absl::StrCat("on rank ", rank())));
  }
  if (execution.sends_ahead) {
    ADJOIN_RETURN_IF_ERROR(WaitForAhead(**op, kMostAhead - 1, Deadline::After(options_.timeout)));
  }
  if (options_.compare_executions) {
    BeginWaiting(execution, (*op)->generation);
    const absl::Status same = check_.Compare(execution, (*op)->generation, (*op)->movement->compiled.peers,
                                             Deadline::After(options_.timeout));
    StopWaiting();
    if (!same.ok()) return Fail(same);
  }
  Buffer from = OnStream(source), onto = OnStream(destination);
  auto pending =
      std::make_unique<MovementExecution>(transport_, memory_, options_.id, &(*op)->execution, (*op)->generation++,
                                          &(*op)->kept, (*op)->movement, std::move(from), std::move(onto));
  pending->Record(recorder_);
  pending->Join(&in_flight_);
  if (absl::Status started = pending->Start(); !started.ok()) return Fail(std::move(started));
  // Executions that travel while the rank computes have few occasions to go on; this is one.
  if (absl::StatusOr<bool> advanced = AdvanceOthers(*pending); !advanced.ok()) return Fail(advanced.status());
  return pending;
}

absl::StatusOr<bool> Communicator::AdvanceOthers(const MovementExecution& pending) {
  bool moved = false;
  for (std::size_t i = 0; i < in_flight_.size();) {
    MovementExecution* other = in_flight_[i];
    if (other != &pending) {
      ADJOIN_ASSIGN_OR_RETURN(const bool advanced, other->Advance());
      moved = moved || advanced;
    }
    if (i < in_flight_.size() && in_flight_[i] == other) ++i;  // else it is done and has left
  }
  return moved;
}

absl::Status Communicator::WaitForBlockers(Deadline deadline) {
  handles_.clear();
  words_.clear();
  for (const Channel::Posted& blocker : blockers_) {
    if (blocker.shared()) {
      words_.push_back(blocker.word);
    } else {
      handles_.push_back(blocker.handle);
    }
  }
  if (words_.empty()) return transport_->WaitAny(handles_, deadline);
  return transport_->WaitAnyWord(handles_, words_, deadline);
}

absl::Status Communicator::Finish(MovementExecution& pending, Deadline deadline) {
  bool woken = false;  // by a wait after which nothing could be done so far
  while (true) {
    ADJOIN_ASSIGN_OR_RETURN(bool moved, pending.Advance());
    if (pending.done()) return absl::OkStatus();
    if (in_flight_.size() > 1) {
      ADJOIN_ASSIGN_OR_RETURN(const bool advanced, AdvanceOthers(pending));
      moved = moved || advanced;
    }
    if (moved) {
      woken = false;
      continue;
    }
    blockers_.clear();
    pending.AppendBlockers(blockers_);
    if (blockers_.empty()) return absl::InternalError("an execution that is not done waits for nothing");
    const Channel::Posted first = blockers_.front();
    for (MovementExecution* other : in_flight_) {
      if (other != &pending) other->AppendBlockers(blockers_);
    }
    BeginWaiting(pending.execution(), pending.generation());
    const SpanScope span(recorder_, SpanOf(SpanKind::kWait, pending.execution(), first.peer));
    Stopwatch stopwatch(&time_waiting_);
    if (woken && deadline.Expired()) return pending.GivenUp(first);
    if (!WaitForBlockers(deadline).ok()) return pending.GivenUp(first);
    woken = true;
  }
}

absl::Status Communicator::WaitForAhead(Operator& op, std::size_t most, Deadline deadline) {
  while (op.ahead.size() > most) {
    const std::unique_ptr<MovementExecution> first = std::move(op.ahead.front());
    op.ahead.pop_front();
    const SpanScope span(recorder_, SpanOf(SpanKind::kMovement, first->execution()));
    const absl::Status finished = Finish(*first, deadline);
    StopWaiting();
    ForgetCredits(first->TakeCreditSends());
    if (!finished.ok()) return Fail(finished);
  }
  return absl::OkStatus();
}

absl::Status Communicator::SendAll() {
  Stopwatch stopwatch(&time_moving_);
  const Deadline deadline = Deadline::After(options_.timeout);
  for (auto& [key, op] : operators_) {
    if (op.ahead.empty()) continue;
    ADJOIN_RETURN_IF_ERROR(status());
    ADJOIN_RETURN_IF_ERROR(WaitForAhead(op, 0, deadline));
  }
  return absl::OkStatus();
}

absl::Status Communicator::WaitBy(Deadline deadline, std::unique_ptr<MovementExecution> pending) {
  ADJOIN_RETURN_IF_ERROR(status());
  if (pending->execution().sends_ahead) {
    const Execution& execution = pending->execution();
    operators_[{execution.op, static_cast<int>(execution.direction)}].ahead.push_back(std::move(pending));
    return absl::OkStatus();
  }
  const absl::Status finished = Finish(*pending, deadline);
  StopWaiting();
  ForgetCredits(pending->TakeCreditSends());
  return finished.ok() ? finished : Fail(finished);
}

absl::StatusOr<std::unique_ptr<MovementExecution>> Communicator::Start(const Execution& execution,
                                                                       const MovementPlan& plan, const Buffer& source,
                                                                       const Buffer& destination) {
  Stopwatch stopwatch(&time_moving_);
  const SpanScope span(recorder_, SpanOf(SpanKind::kMovement, execution));
  return StartNow(execution, plan, source, destination);
}

absl::Status Communicator::Wait(std::unique_ptr<MovementExecution> pending) {
  Stopwatch stopwatch(&time_moving_);
  const SpanScope span(recorder_, SpanOf(SpanKind::kMovement, pending->execution()));
  return WaitBy(Deadline::After(options_.timeout), std::move(pending));
}

absl::Status Communicator::Execute(const Execution& execution, const MovementPlan& plan, const Buffer& source,
                                   const Buffer& destination) {
  Stopwatch stopwatch(&time_moving_);
  const SpanScope span(recorder_, SpanOf(SpanKind::kMovement, execution));
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<MovementExecution> pending, StartNow(execution, plan, source, destination));
  return WaitBy(Deadline::After(options_.timeout), std::move(pending));
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

absl::Status Communicator::WaitForFailure(absl::Duration limit) {
  const Deadline deadline = Deadline::After(limit);
  while (true) {
    // Progress, by which the transport learns what happened to other ranks.
    absl::Status progress = transport_->Flush(Deadline::After(kFailurePoll));
    for (int peer = 0; peer < size() && progress.ok(); ++peer) {
      if (peer != rank()) progress = transport_->Check(peer);
    }
    if (!progress.ok() && !absl::IsDeadlineExceeded(progress)) Abort(std::move(progress));
    absl::MutexLock lock(&mutex_);
    const auto failed = [](absl::Status* failure) { return !failure->ok(); };
    mutex_.AwaitWithTimeout(absl::Condition(+failed, &failure_), kFailurePoll);
    if (!failure_.ok() || deadline.Expired()) return failure_;
  }
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

void Communicator::BeginWaiting(const Execution& execution, int64_t generation) {
  const uint64_t word = kWaits | (static_cast<uint64_t>(execution.direction) & kDirectionMask) << kDirectionShift |
                        (static_cast<uint64_t>(execution.op) & kOperatorMask) << kOperatorShift |
                        (static_cast<uint64_t>(generation) & kGenerationMask);
  waiting_.store(word, std::memory_order_release);
}

std::optional<Communicator::Waiting> Communicator::waiting() const {
  const uint64_t word = waiting_.load(std::memory_order_acquire);
  if ((word & kWaits) == 0) return std::nullopt;
  Waiting waiting;
  waiting.direction = static_cast<Direction>(word >> kDirectionShift & kDirectionMask);
  waiting.execution = static_cast<int64_t>(word & kGenerationMask) + 1;
  absl::MutexLock lock(&mutex_);
  const auto name = names_.find(static_cast<int64_t>(word >> kOperatorShift & kOperatorMask));
  if (name != names_.end()) waiting.name = name->second;
  return waiting;
}

std::string Communicator::OperatorName(int64_t op) const {
  absl::MutexLock lock(&mutex_);
  const auto name = names_.find(op);
  return name == names_.end() ? "" : name->second;
}

absl::Status Communicator::Fail(absl::Status status) {
  Abort(status);
  return status;
}

}  // namespace adjoin
