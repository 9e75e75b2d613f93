// Requests that no client of ours sends, for any method, made from the messages' descriptors: fields that are far too
// large or too many, and bytes that are no text.
//
//   for (const HostileCall& call : OversizedCalls(random, /*fields_per_method=*/20)) Send(channel, call);
//
// The same seed makes the same calls.
#ifndef ADJOIN_TESTS_ATTACK_HOSTILE_CALLS_H_
#define ADJOIN_TESTS_ATTACK_HOSTILE_CALLS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/deadline.h"

namespace adjoin {

struct HostileCall {
  std::string method;  // "/adjoin.Adjoin/Submit"
  std::string bytes;   // the request as it goes over the wire
  std::string what;    // for messages: "Submit: spec.layer.name of 25600 bytes"
};

// A field of each method's request at one of the limits (proto/message_limits.h) minus 1, 0, plus 1, and a hundred
// times it; repeated fields that often. `fields_per_method`: so many of the fields in any depth, chosen at random.
std::vector<HostileCall> OversizedCalls(std::mt19937& random, int fields_per_method);

// A string field of each method's request with bytes that are no UTF-8, or control characters, or a whole request of
// random bytes.
std::vector<HostileCall> IllEncodedCalls(std::mt19937& random, int fields_per_method);

// The methods of both services.
std::vector<const google::protobuf::MethodDescriptor*> AllMethods();
// A request of the method's type with the header of a good one and nothing else.
std::unique_ptr<google::protobuf::Message> NewRequest(const google::protobuf::MethodDescriptor& method);
// The name of the method in a call: "/adjoin.Adjoin/Submit".
std::string PathOf(const google::protobuf::MethodDescriptor& method);

// Makes the call and reads what comes, at most until the deadline.
grpc::Status Send(const std::shared_ptr<grpc::Channel>& channel, const HostileCall& call, Deadline deadline);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_ATTACK_HOSTILE_CALLS_H_
