// gRPC refuses a request that it cannot parse with code INTERNAL and an empty message, or UNIMPLEMENTED where the
// method is a callback's. This gives the refusal its code and its reason.
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
  // Methods that there are not count as streams.
  explicit MalformedRequestInterceptor(grpc::experimental::ServerRpcInfo* call)
      : unary_(call->type() == grpc::experimental::ServerRpcInfo::Type::UNARY) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      const bool unparsed = status.error_code() == grpc::StatusCode::INTERNAL ||
                            (unary_ && status.error_code() == grpc::StatusCode::UNIMPLEMENTED);
      if (unparsed && status.error_message().empty()) {
        methods->ModifySendStatus(
            grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                         "the request is no message of this protocol, or one nested in more than 100 others"));
      }
    }
    methods->Proceed();
  }

 private:
  const bool unary_;
};

class MalformedRequestFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override {
    return new MalformedRequestInterceptor(call);  // gRPC deletes it
  }
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_MALFORMED_REQUESTS_H_
