// What the jobs have in common that are made of a user's to compare it.
#ifndef ADJOIN_VERIFY_BARE_JOB_H_
#define ADJOIN_VERIFY_BARE_JOB_H_

#include "proto/job.pb.h"

namespace adjoin {

// The job's name, ranks, seed and layers, in float64, and its data sets without files: samples are as the layers see
// them. Nothing else of it. An extent that differs from file to file stays so.
JobSpec BareJob(const JobSpec& spec);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_BARE_JOB_H_
