// Faults of the network between a gRPC client and its server, put into a channel as interceptors: a request that is
// lost before it is sent, a response that is lost after the server has done its work, a delay, a stream that breaks.
//
//   RpcFaults faults(seed);
//   auto channel = grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, {},
//   faults.MakeFactories());
//   ... every four calls of each method meet each of the four kinds once ...
//   EXPECT_GT(faults.Injected()["/adjoin.Adjoin/Submit"][RpcFault::kLostResponse], 0);
//
// The client sees kUnavailable, as when a connection breaks. Any thread.
#ifndef ADJOIN_TESTS_HARNESS_RPC_FAULTS_H_
#define ADJOIN_TESTS_HARNESS_RPC_FAULTS_H_

#include <grpcpp/support/client_interceptor.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace adjoin {

enum class RpcFault { kNone, kDelay, kLostRequest, kLostResponse };
inline constexpr std::array<RpcFault, 4> kRpcFaults = {RpcFault::kNone, RpcFault::kDelay, RpcFault::kLostRequest,
                                                       RpcFault::kLostResponse};
std::string ToString(RpcFault fault);

class RpcFaults {
 public:
  using Factories = std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;

  explicit RpcFaults(uint64_t seed, absl::Duration delay = absl::Milliseconds(200)) : seed_(seed), delay_(delay) {}

  // For any number of channels. They share the count of calls, and must not outlive this.
  Factories MakeFactories();

  // Returns the fault of call number `call`, from 0, of a method: of each four in a row, each kind to one. A lost
  // response of a stream breaks it after some messages, and a stream in both directions breaks in any case.
  RpcFault Of(const std::string& method, uint64_t call) const;

  // How often each was done, by method ("/adjoin.Adjoin/Submit").
  std::map<std::string, std::map<RpcFault, int>> Injected();

 private:
  class Factory;
  class CallInterceptor;
  RpcFault Next(const std::string& method, uint64_t* call);

  const uint64_t seed_;
  const absl::Duration delay_;
  absl::Mutex mutex_;
  std::map<std::string, uint64_t> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::map<RpcFault, int>> injected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_HARNESS_RPC_FAULTS_H_
