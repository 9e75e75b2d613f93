// Checks of names, paths and references, which every part of a spec has.
#ifndef ADJOIN_PLANNER_CHECKS_NAME_CHECK_H_
#define ADJOIN_PLANNER_CHECKS_NAME_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// Errors of all checks: kInvalidArgument, at the field (spec_error.h).

// `what`: the named thing, for messages: "a job", "a layer".
absl::Status CheckName(absl::string_view what, const std::string& name);
// Checks that the path is relative to the worker's `root` ("--data-root") and stays below it.
absl::Status CheckPath(absl::string_view field, absl::string_view root, const std::string& path);
absl::Status CheckFinite(absl::string_view field, double value);
// Checks that there is a data set called `name`, which the spec's `field` names.
absl::Status CheckReference(const JobSpec& spec, absl::string_view field, const std::string& name);

// Both return null where there is none of this name.
const Dataset* FindDataset(const JobSpec& spec, const std::string& name);
const Field* FindField(const Dataset& dataset, const std::string& name);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_CHECKS_NAME_CHECK_H_
