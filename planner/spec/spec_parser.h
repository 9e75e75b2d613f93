// A job as a user writes it: text format or JSON.
//
//   ADJOIN_ASSIGN_OR_RETURN(ParsedSpec parsed, ParseSpec(text, "job.textproto"));
//   ADJOIN_ASSIGN_OR_RETURN(Plan plan, Planner::Build(parsed.spec, sizes, BuiltinLayerRules(), &parsed.locations));
//
// The coordinator gets the text with the request (SubmitRequest.spec_source and spec_file) and parses it again, so its
// errors name the same lines.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_PARSER_H_
#define ADJOIN_PLANNER_SPEC_SPEC_PARSER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/spec/spec_locations.h"
#include "proto/job.pb.h"

namespace adjoin {

// The deepest nesting of messages in a text. JobSpec itself nests five deep.
inline constexpr int kMaxNesting = 32;

inline constexpr size_t kMaxSpecBytes = 1 << 20;

struct ParsedSpec {
  JobSpec spec;
  SpecLocations locations;
};

// JSON where the first character that is not white space is '{', else text format. `file_name` is for messages.
// Errors: kInvalidArgument, with file:line:column for text format and the path of the field for JSON: more than
// kMaxSpecBytes, an unknown field, a value of the wrong type, messages nested too deeply, text that is not UTF-8.
absl::StatusOr<ParsedSpec> ParseSpec(absl::string_view text, const std::string& file_name);

// True for what ParseSpec reads as JSON.
bool IsJsonSpec(absl::string_view text);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_PARSER_H_
