// Checks the data files of a job before it is accepted, where they are.
//
//   ProbeResult result = Probe("/srv/data", request);
//   result.error();   // "data set 'train', field 'image': 'a.gz': no such file below ..."; empty when all is well
//   result.field();   // "dataset[0].field[0].idx.path[0]": where in the spec that stands
//
// Reads every file to its end. Any thread.
#ifndef ADJOIN_WORKER_PROBE_H_
#define ADJOIN_WORKER_PROBE_H_

#include <string>

#include "proto/coordinator.pb.h"

namespace adjoin {

// The samples of each data set are those in the files; Dataset.limit is the planner's business.
ProbeResult Probe(const std::string& data_root, const ProbeData& request);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_PROBE_H_
