// Checks the data files of a job before it is accepted, where they are.
//
//   ProbeResult result = Probe("/srv/data", request);
//   result.error();   // "data set 'train', field 'image': 'a.gz': no such file below ..."; empty when all is well
//   result.field();   // "dataset[0].field[0].idx.path[0]": where in the spec that stands
//
// Every file's header is compared with its size. gzip files are also read to their end and against their checksum, as long as
// it takes little time; a broken one beyond that is found when it is inflated. Any thread.
#ifndef ADJOIN_WORKER_PROBE_H_
#define ADJOIN_WORKER_PROBE_H_

#include <cstdint>
#include <string>

#include "proto/coordinator.pb.h"

namespace adjoin {

// The coordinator waits for half a minute.
inline constexpr int64_t kMostProbedBytes = int64_t{512} << 20;

// The samples of each data set are those in the files; Dataset.limit is the planner's business. `most_bytes`: of files, to be
// read to their end.
ProbeResult Probe(const std::string& data_root, const ProbeData& request, int64_t most_bytes = kMostProbedBytes);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_PROBE_H_
