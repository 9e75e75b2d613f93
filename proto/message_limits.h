// How large the messages between users, coordinator and daemons may be, and their parts. Who makes a message keeps to
// these limits; who receives one allows kMaxMessageBytes.
#ifndef ADJOIN_PROTO_MESSAGE_LIMITS_H_
#define ADJOIN_PROTO_MESSAGE_LIMITS_H_

#include <cstddef>

namespace adjoin {

// Received by the coordinator (coordinator/command.cc), by daemons from ranks, and by `adjoin`.
inline constexpr size_t kMaxMessageBytes = size_t{16} << 20;
// Senders stay below by as much as a receiver of another release may count differently.
inline constexpr size_t kMaxSentBytes = kMaxMessageBytes - (size_t{64} << 10);
// A serialized plan. The orders that carry one, from the coordinator to daemons and from there to ranks, are the only
// messages with a limit of their own.
inline constexpr size_t kMaxPlanBytes = size_t{256} << 20;
inline constexpr size_t kMaxOrderBytes = kMaxPlanBytes + kMaxMessageBytes;

inline constexpr size_t kMaxErrorBytes = 4096;   // of text for people: an error, a reason, a condition
inline constexpr size_t kMaxStatusBytes = 2048;  // of an error that ends a call: it travels in HTTP/2 headers
inline constexpr int kMaxShownLayers = 10;       // whose times a rank reports (LayerTimes)
inline constexpr size_t kMaxNameBytes = 256;     // of a job, a worker, a file of the spec, an idempotency key
inline constexpr size_t kMaxPathBytes = 4096;    // of a path, as PATH_MAX
inline constexpr size_t kMaxArtifacts = 10000;   // names listed of one job's results
inline constexpr size_t kMaxArtifactBytes = size_t{1} << 20;  // of these names together
inline constexpr size_t kMaxReportBytes = size_t{64} << 10;   // of a rank's pulse, progress or transport
inline constexpr size_t kMaxAddressBytes = size_t{16} << 10;  // of a rank's transport
inline constexpr size_t kMaxLogLineBytes = size_t{32} << 10;  // of what a rank wrote
inline constexpr size_t kMaxLogBatchBytes = size_t{1} << 20;  // of the lines in one message
inline constexpr size_t kMaxOutboxBytes = size_t{64}
                                          << 20;          // of what a daemon keeps for a coordinator that reads slowly
inline constexpr int kMostFileSums = 1024;                // chunks of a file that are compared
inline constexpr int kMaxLabels = 64;                     // of a worker
inline constexpr int kMaxBuilders = 1000;                 // layer kinds of a worker
inline constexpr int kMaxGpus = 256;                      // of a worker
inline constexpr size_t kMaxPageJobs = 1000;              // in one answer of ListJobs
inline constexpr size_t kMaxPageBytes = size_t{4} << 20;  // likewise

}  // namespace adjoin

#endif  // ADJOIN_PROTO_MESSAGE_LIMITS_H_
