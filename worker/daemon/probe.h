// Checks the data files of a job before it is accepted, on a node that has them.
//
//   ProbeResult result = Probe("/srv/data", request);
//   result.error();   // "data set 'train', field 'image': 'a.gz': no such file below ..."; empty when all is well
//   result.field();   // "dataset[0].field[0].idx.path[0]": where in the spec that stands
//
// Every file's header is compared with its size. gzip files are also read to their end and against their checksum, and
// HDF5's chunks, as far as the limits go; what is broken beyond that is found when it is read. Where a job evaluates or
// predicts whole volumes of different extents, its network is planned for each of them. Any thread.
#ifndef ADJOIN_WORKER_DAEMON_PROBE_H_
#define ADJOIN_WORKER_DAEMON_PROBE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct ProbeLimits {
  int64_t bytes = int64_t{512} << 20;  // inflated ones, of all files together
  // Only headers are read after this, and no plan is begun. The coordinator waits for half a minute.
  Deadline deadline = Deadline::After(absl::Seconds(15));
  const std::atomic<bool>* stop = nullptr;  // true: the probe ends, with an error; may be null
  // Called before each file is touched, which may take for ever, with what is said of it and where it is: "'a.gz' (data
  // set 'train', field 'image')", "/srv/data/a.gz"; and before each plan, with "": "planning the job for the extents of
  // 'a.gz' (data set 'train', field 'image')". May be empty.
  std::function<void(const std::string& what, const std::string& path)> at = nullptr;
};

// The samples of each data set are those in the files; Dataset.limit is the planner's business.
ProbeResult Probe(const std::string& data_root, const ProbeData& request, const ProbeLimits& limits = {});

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_PROBE_H_
