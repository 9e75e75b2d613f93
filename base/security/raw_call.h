// Calls any method with any bytes as the request: for tests of what a server or its TLS refuses.
//
//   const grpc::Status status = RawCall(channel, "/adjoin.Adjoin/Submit", "\xff\xff");
#ifndef ADJOIN_BASE_SECURITY_RAW_CALL_H_
#define ADJOIN_BASE_SECURITY_RAW_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

namespace adjoin {

// Waits for the answer, for at most 30 seconds. Any thread.
inline grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                            const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  grpc::Slice slice(bytes);
  grpc::ByteBuffer request(&slice, 1), response;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_RAW_CALL_H_
