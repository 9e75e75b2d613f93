// gRPC refuses a request that it cannot parse with code INTERNAL and an empty message. This gives the refusal its code
// and its reason.
//
//   interceptors.push_back(std::make_unique<MalformedRequestFactory>());
//   builder.experimental().SetInterceptorCreators(std::move(interceptors));
#ifndef ADJOIN_BASE_SECURITY_MALFORMED_REQUESTS_H_
#define ADJOIN_BASE_SECURITY_MALFORMED_REQUESTS_H_

#include <grpcpp/support/server_interceptor.h>
#include <grpcpp/support/status.h>

namespace adjoin {

class MalformedRequestInterceptor final : public grpc::experimental::Interceptor {
 public:
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::INTERNAL && status.error_message().empty()) {
        methods->ModifySendStatus(
            grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                         "the request is no message of this protocol, or one nested in more than 100 others"));
      }
    }
    methods->Proceed();
  }
};

class MalformedRequestFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo*) override {
    return new MalformedRequestInterceptor;  // gRPC deletes it
  }
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_MALFORMED_REQUESTS_H_
