// The RPCs of grpc.health.v1.Health, which everyone who can connect may call.
//
//   HealthCheckService health({"adjoin.Adjoin", "adjoin.WorkerLink"});
//   builder.RegisterService(&health);
//
// No call of it holds a thread. Check is answered at once; Watch, whose calls stay, is for kMostWatchers together, and
// refuses more (kResourceExhausted). A server that can be asked serves: the coordinator's self check ends one that does
// not (coordinator/services/self_check.h). gRPC's own health service is not used: its Watch has no bound, and it has no
// thread that polls unless some other service of the server is synchronous.
#ifndef ADJOIN_PROTO_HEALTH_CHECK_SERVICE_H_
#define ADJOIN_PROTO_HEALTH_CHECK_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <set>
#include <string>
#include <utility>

#include "proto/health.grpc.pb.h"

namespace adjoin {

class HealthCheckService final : public grpc::health::v1::Health::CallbackService {
 public:
  static constexpr int kMostWatchers = 64;

  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;

  // `services`: the names that the server has.
  explicit HealthCheckService(std::set<std::string> services) : services_(std::move(services)) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const Request* request,
                                  Response* response) override;
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context, const Request* request) override;

 private:
  bool Knows(const Request& request) const {
    return request.service().empty() || services_.count(request.service()) > 0;
  }

  const std::set<std::string> services_;
  std::atomic<int> watchers_{0};
};

}  // namespace adjoin

#endif  // ADJOIN_PROTO_HEALTH_CHECK_SERVICE_H_
