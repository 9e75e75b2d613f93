// A trace file as tests look at it: slices by track, messages by flow.
//
//   ADJOIN_ASSIGN_OR_RETURN(ReadTrace trace, ReadTrace::Of(bytes));
//   for (const ReadTrace::Slice& slice : trace.slices) ...
//
// Errors (kDataLoss) where it is no trace: unknown fields, slices that do not nest, names without a definition, a flow
// without both ends.
#ifndef ADJOIN_WORKER_TRACE_READ_TRACE_H_
#define ADJOIN_WORKER_TRACE_READ_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adjoin {

struct ReadTrace {
  struct Slice {
    std::string process, track;  // "rank 0", "steps"
    std::string name, category;
    int64_t begin = 0, end = 0;
    int depth = 0;                        // below how many others of its track
    std::map<std::string, int64_t> args;  // the annotations
    uint64_t flow_from = 0, flow_to = 0;  // that begins at its begin; that ends at its end
  };
  struct Instant {
    std::string process, name;
    std::map<std::string, int64_t> args;
  };
  struct Message {
    Slice send, receive;
  };
  std::vector<Slice> slices;  // in the order of their ends
  std::vector<Instant> instants;
  std::vector<Message> messages;

  static absl::StatusOr<ReadTrace> Of(const std::string& bytes);
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TRACE_READ_TRACE_H_
