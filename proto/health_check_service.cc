#include "proto/health_check_service.h"

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

// One call of Watch. The status does not change while the server lives, so it is sent once. It deletes itself when gRPC
// needs it no more.
class Watcher final : public grpc::ServerWriteReactor<HealthCheckService::Response> {
 public:
  Watcher(std::atomic<int>& watchers, HealthCheckService::Response status)
      : watchers_(watchers), status_(std::move(status)) {
    if (watchers_.fetch_add(1) >= HealthCheckService::kMostWatchers) {
      finished_ = true;
      Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                          absl::StrCat("the server has ", HealthCheckService::kMostWatchers,
                                       " calls of Watch open, which is the limit: call Check")));
      return;
    }
    StartWrite(&status_);
  }

  void OnCancel() override {
    if (!finished_.exchange(true)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    --watchers_;
    delete this;
  }

 private:
  std::atomic<int>& watchers_;
  const HealthCheckService::Response status_;
  std::atomic<bool> finished_{false};
};

}  // namespace

grpc::ServerUnaryReactor* HealthCheckService::Check(grpc::CallbackServerContext* context, const Request* request,
                                                    Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (Knows(*request)) {
    response->set_status(Response::SERVING);
    reactor->Finish(grpc::Status::OK);
  } else {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "the server has no service of this name"));
  }
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckService::Response>* HealthCheckService::Watch(grpc::CallbackServerContext*,
                                                                                  const Request* request) {
  Response status;
  status.set_status(Knows(*request) ? Response::SERVING : Response::SERVICE_UNKNOWN);
  return new Watcher(watchers_, std::move(status));
}

}  // namespace adjoin
