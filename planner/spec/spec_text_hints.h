// What a user has to know beside the parser's message: which field was meant, and that a file is no job at all.
//
//   UnknownFieldHint("Message type \"adjoin.Train\" has no field named \"epoch\".");   // " Did you mean \"epochs\"?"
#ifndef ADJOIN_PLANNER_SPEC_SPEC_TEXT_HINTS_H_
#define ADJOIN_PLANNER_SPEC_SPEC_TEXT_HINTS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

// Returns for a message about a field that a message of a job does not have: the field with the nearest name, or else
// all that there are. "" for any other message.
std::string UnknownFieldHint(absl::string_view message);
// The same of a message of protobuf's JSON parser: "(train) epoch: Cannot find field."
std::string UnknownJsonFieldHint(absl::string_view message);

// Returns why `text` can be no job whatever is written in it: "is UTF-16; ...". "" where it may be one.
std::string WhyNoSpec(absl::string_view text);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_TEXT_HINTS_H_
