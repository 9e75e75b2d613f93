// A job's text from its file.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::string text, ReadSpecFile("job.textproto"));
//   ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(text, "job.textproto"));
#ifndef ADJOIN_PLANNER_SPEC_SPEC_FILE_H_
#define ADJOIN_PLANNER_SPEC_SPEC_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

// "-" reads standard input. Errors: kNotFound; kInvalidArgument (a folder, or larger than kMaxSpecBytes).
absl::StatusOr<std::string> ReadSpecFile(const std::string& path);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_FILE_H_
