// A message as JSON, as protobuf's own printer writes it: with the names of the .proto file, every field present and
// 64-bit numbers as texts. What programs read of the command is the same as what they read of the coordinator's pages.
//
//   JsonText(response, /*lines=*/false);     // {"job": {"job_id": "job-1", ...}}
#ifndef ADJOIN_PROTO_MESSAGE_JSON_H_
#define ADJOIN_PROTO_MESSAGE_JSON_H_

#include <string>

#include <google/protobuf/message.h>

namespace adjoin {

// The message's own `header` is left out. With `lines` there is a line for each field, else all is one line. Ends with
// a line end. What cannot be printed is an object with the one text "error".
std::string JsonText(const google::protobuf::Message& message, bool lines);

}  // namespace adjoin

#endif  // ADJOIN_PROTO_MESSAGE_JSON_H_
