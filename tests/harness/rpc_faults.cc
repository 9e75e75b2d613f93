#include "tests/harness/rpc_faults.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <functional>
#include <random>

#include "absl/time/clock.h"

namespace adjoin {
namespace {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// A stream whose response is lost breaks after fewer messages than this.
constexpr int kBrokenStream = 8;
// A stream in both directions breaks after so many messages; otherwise it would never end and meet no other fault.
constexpr int kLongestStream = 32;

}  // namespace

std::string ToString(RpcFault fault) {
  switch (fault) {
    case RpcFault::kNone: return "none";
    case RpcFault::kDelay: return "delay";
    case RpcFault::kLostRequest: return "lost request";
    case RpcFault::kLostResponse: return "lost response";
  }
  return "";
}

// Belongs to one call; gRPC calls it once for each batch of operations on its way out, and once on its way back.
class RpcFaults::CallInterceptor : public Interceptor {
 public:
  CallInterceptor(ClientRpcInfo* info, RpcFault fault, int messages, absl::Duration delay)
      : info_(info), fault_(fault), messages_left_(messages), delay_(delay) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    const auto at = [methods](InterceptionHookPoints point) { return methods->QueryInterceptionHookPoint(point); };
    const bool begins = at(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA);
    if (begins && fault_ == RpcFault::kDelay) absl::SleepFor(delay_);
    if (fault_ == RpcFault::kLostRequest) {
      // From here on nothing reaches the channel: reads fail, and the call ends with the status given here.
      if (at(InterceptionHookPoints::PRE_SEND_MESSAGE) && !begins) methods->FailHijackedSendMessage();
      if (at(InterceptionHookPoints::PRE_RECV_MESSAGE)) methods->FailHijackedRecvMessage();
      if (at(InterceptionHookPoints::PRE_RECV_STATUS)) *methods->GetRecvStatus() = Lost("request");
      return begins ? methods->Hijack() : methods->Proceed();
    }
    const bool both_ways = info_->type() == ClientRpcInfo::Type::BIDI_STREAMING;
    const bool streams = both_ways || info_->type() == ClientRpcInfo::Type::SERVER_STREAMING;
    const bool lost = fault_ == RpcFault::kLostResponse;
    if (at(InterceptionHookPoints::POST_RECV_MESSAGE) && streams && (lost || both_ways) && messages_left_-- == 0) {
      info_->client_context()->TryCancel();
    }
    if (at(InterceptionHookPoints::POST_RECV_STATUS) && (lost || (both_ways && messages_left_ < 0))) {
      *methods->GetRecvStatus() = Lost("response");
    }
    methods->Proceed();
  }

 private:
  static grpc::Status Lost(const std::string& what) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the " + what + " was lost by the test");
  }

  ClientRpcInfo* const info_;
  const RpcFault fault_;
  int messages_left_;
  const absl::Duration delay_;
};

class RpcFaults::Factory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit Factory(RpcFaults* faults) : faults_(faults) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    uint64_t call = 0;
    const RpcFault fault = faults_->Next(info->method(), &call);
    const int messages =
        fault == RpcFault::kLostResponse ? static_cast<int>((faults_->seed_ + call) % kBrokenStream) : kLongestStream;
    return new CallInterceptor(info, fault, messages, faults_->delay_);
  }

 private:
  RpcFaults* const faults_;
};

RpcFaults::Factories RpcFaults::MakeFactories() {
  Factories factories;
  factories.push_back(std::make_unique<Factory>(this));
  return factories;
}

RpcFault RpcFaults::Of(const std::string& method, uint64_t call) const {
  std::array<RpcFault, 4> order = kRpcFaults;
  std::seed_seq seeds{seed_, static_cast<uint64_t>(std::hash<std::string>()(method)), call / order.size()};
  std::mt19937 random(seeds);
  std::shuffle(order.begin(), order.end(), random);
  return order[call % order.size()];
}

RpcFault RpcFaults::Next(const std::string& method, uint64_t* call) {
  absl::MutexLock lock(&mutex_);
  *call = calls_[method]++;
  const RpcFault fault = Of(method, *call);
  ++injected_[method][fault];
  return fault;
}

std::map<std::string, std::map<RpcFault, int>> RpcFaults::Injected() {
  absl::MutexLock lock(&mutex_);
  return injected_;
}

}  // namespace adjoin
