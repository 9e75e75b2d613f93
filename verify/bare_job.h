// What the jobs have in common that are made of a user's to compare it.
//
//   JobSpec job = BareJob(spec);              // the user's layers, in float64
//   job.set_kind(PREDICT);                    // what the comparison needs besides
//   *job.mutable_layout() = spec.layout();
#ifndef ADJOIN_VERIFY_BARE_JOB_H_
#define ADJOIN_VERIFY_BARE_JOB_H_

#include "proto/job.pb.h"

namespace adjoin {

// Returns the job's name, ranks with their weights, seed and layers, computed in float64, and its data sets with
// samples as the layers see them: of a block's shape where it has blocks, all of them, not changed at random, not
// normalised or clipped, of no type of their own but int64. Fields keep the names of their files, `scale`, `mean`,
// `std` and `remap`. An extent that differs from file to file stays so. Nothing else of the job is kept.
JobSpec BareJob(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_BARE_JOB_H_
