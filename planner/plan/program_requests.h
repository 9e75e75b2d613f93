// The programs that a job needs, and the number of samples that each goes through.
//
//   ADJOIN_ASSIGN_OR_RETURN(const std::vector<ProgramRequest> programs, ProgramRequests(spec, {{"train", 10000}}));
//   programs[0].name;    // "train"
#ifndef ADJOIN_PLANNER_PLAN_PROGRAM_REQUESTS_H_
#define ADJOIN_PLANNER_PLAN_PROGRAM_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan/planner.h"
#include "planner/plan/program_builder.h"
#include "proto/job.pb.h"

namespace adjoin {

// Returns the number of samples that an epoch of a data set uses; absent where the size of the data set is not known.
// Errors: kInvalidArgument, where its files hold none.
absl::StatusOr<std::optional<int64_t>> SamplesOf(const JobSpec& spec, const std::string& name,
                                                 const DatasetSizes& sizes);

// Returns the programs in the order of the plan (planner.h); their data sets are the spec's, which must outlive them.
// Errors: as SamplesOf; kInvalidArgument, at the field (a batch that fits no part of the training).
absl::StatusOr<std::vector<ProgramRequest>> ProgramRequests(const JobSpec& spec, const DatasetSizes& sizes);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PROGRAM_REQUESTS_H_
