// A job from its file: the files that it includes stand before it, and options of the command line change it.
//
//   ADJOIN_ASSIGN_OR_RETURN(LoadedSpec loaded, LoadSpec("job.textproto", {.unset = {}, .set = {"train.batch=32"}}));
//   Planner::Build(loaded.parsed.spec, sizes, rules, &loaded.parsed.locations);   // here
//   Submit(loaded.source);                                                        // or in the coordinator
//
// An included file is a part of a job, in text format or JSON. Lists are joined, the included file's elements first;
// groups are merged; of a single field the including file's value counts, where it has one. Names are relative to the
// including file's folder.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_INCLUDE_H_
#define ADJOIN_PLANNER_SPEC_SPEC_INCLUDE_H_

#include <string>

#include "absl/status/statusor.h"
#include "planner/spec/spec_parser.h"
#include "planner/spec/spec_setter.h"

namespace adjoin {

inline constexpr int kMaxIncludeDepth = 8;
inline constexpr int kMaxIncludedFiles = 100;

struct LoadedSpec {
  // The locations are those in the files where the fields are written, but after changes those in `source`.
  ParsedSpec parsed;
  // The same job as one text. As it was read, where nothing is included and nothing changed.
  SpecSource source;
};

// "-" reads standard input; its includes are relative to the working directory. Relative names and absolute ones may
// lead anywhere: it is the caller who can read the files. All files together have at most kMaxSpecBytes.
// Errors: kNotFound; those of ReadSpecFile, ParseSpec and ChangeSpec; kInvalidArgument, at the include: a file that
// includes itself, also by way of others; more than kMaxIncludeDepth files within each other; too many or too large.
absl::StatusOr<LoadedSpec> LoadSpec(const std::string& path, const SpecChanges& changes);

// Returns the error with a location in `loaded.source` replaced by that in the file where the field is written. Other
// errors stay as they are.
absl::Status AtIncludedFile(const absl::Status& status, const LoadedSpec& loaded);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_INCLUDE_H_
