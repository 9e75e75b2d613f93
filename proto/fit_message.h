// Makes messages fit for their way: text valid UTF-8, printable and bounded, lists bounded, the whole below the limit
// of its receiver. A message that is not fit breaks the stream that it is written to, and with it everything else on
// that stream.
//
//   if (const std::string left_out = Fit(&message); !left_out.empty()) LogWarning(...);
//   stream.Write(message);
//
// Who sends a message fits it, and who keeps one that came fits it again: the sender may be of another release. What
// does not fit is left out, and the message counts it where it has a field for that.
#ifndef ADJOIN_PROTO_FIT_MESSAGE_H_
#define ADJOIN_PROTO_FIT_MESSAGE_H_

#include <cstddef>
#include <string>

#include <google/protobuf/message.h>

#include "proto/coordinator.pb.h"
#include "proto/message_limits.h"
#include "proto/worker.pb.h"

namespace adjoin {

// Bounds every text and every list of metrics, files and log lines in `message`, of any kind. Text of a job's spec
// stays as it is where `spec_too` is false: there it says which files to open.
void FitParts(google::protobuf::Message* message, bool spec_too = true);

// FitParts, and the whole: what a message can do without is left out, the least important first, until it has at most
// `limit` bytes. Each returns what that was, for the log: "the ranks' lanes, metrics"; empty: nothing.
std::string Fit(WorkerMessage* message, size_t limit = kMaxSentBytes);
std::string Fit(RankMessage* message, size_t limit = kMaxSentBytes);
std::string Fit(DescribeJobResponse* message, size_t limit = kMaxSentBytes);
// Orders are left whole: the plan in one is bounded where it is made.
void Fit(CoordinatorMessage* message);

}  // namespace adjoin

#endif  // ADJOIN_PROTO_FIT_MESSAGE_H_
