#include "tests/attack/hostile_client.h"

#include <chrono>

#include "absl/time/time.h"

namespace adjoin {
namespace {

// Together below what one connection may have.
constexpr size_t kMostAtOnce = 16;
constexpr size_t kMostLeft = 20;
constexpr int64_t kCallsPerConnection = 200;

}  // namespace

HostileClient::~HostileClient() {
  End();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void HostileClient::Begin(RandomCall call) {
  while (calls_.size() - left_.size() >= kMostAtOnce) Handle();
  if (begun_++ % kCallsPerConnection == 0) channel_ = connect_();
  auto owned = std::make_unique<Call>();
  Call& begun = *owned;
  calls_[&begun] = std::move(owned);
  begun.what = std::move(call);
  begun.context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(begun.what.limit));
  for (const auto& [key, value] : begun.what.metadata) begun.context.AddMetadata(key, value);
  begun.stub = std::make_unique<grpc::GenericStub>(channel_);
  begun.stream = begun.stub->PrepareCall(&begun.context, begun.what.method, &queue_);
  begun.stream->StartCall(&begun);
}

void HostileClient::End() {
  while (!calls_.empty()) {
    while (!left_.empty()) {
      Call& call = *left_.front();
      left_.pop_front();
      BreakOff(call);
    }
    Handle();
  }
}

void HostileClient::Handle() {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.Next(&tag, &ok)) GoOn(*static_cast<Call*>(tag), ok);
}

void HostileClient::GoOn(Call& call, bool ok) {
  if (call.finishes) {
    ++ends_[call.status.error_code()];
    calls_.erase(&call);
    return;
  }
  const bool in_the_middle = call.happened++ >= call.what.middle;
  if (!ok && call.reads) {
    Finish(call);
  } else if (!ok || (in_the_middle && call.what.manner == Manner::kCancelled)) {
    BreakOff(call);
  } else if (in_the_middle && call.what.manner == Manner::kLeft) {
    Leave(call);
  } else if (call.sent < call.what.messages.size()) {
    Send(call);
  } else if (!call.half_closed && call.what.manner != Manner::kOpen) {
    call.half_closed = true;
    call.stream->WritesDone(&call);
  } else {
    call.reads = true;
    call.stream->Read(&call.answer, &call);
  }
}

void HostileClient::Send(Call& call) {
  const grpc::Slice slice(call.what.messages[call.sent++]);
  const grpc::ByteBuffer message(&slice, 1);
  call.stream->Write(message, &call);
}

void HostileClient::Leave(Call& call) {
  left_.push_back(&call);
  if (left_.size() <= kMostLeft) return;
  Call& first = *left_.front();
  left_.pop_front();
  BreakOff(first);
}

void HostileClient::BreakOff(Call& call) {
  call.context.TryCancel();
  Finish(call);
}

void HostileClient::Finish(Call& call) {
  call.finishes = true;
  call.stream->Finish(&call.status, &call);
}

}  // namespace adjoin
