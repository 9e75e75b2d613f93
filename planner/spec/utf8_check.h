// Finds text of a job that is not UTF-8. Text format accepts any bytes in a string, but a message with such a string
// can be written and not read again.
//
//   std::string field = FieldThatIsNotUtf8(spec);   // "dataset[0].field[1].idx.path[0]"
#ifndef ADJOIN_PLANNER_SPEC_UTF8_CHECK_H_
#define ADJOIN_PLANNER_SPEC_UTF8_CHECK_H_

#include <string>

#include <google/protobuf/message.h>

namespace adjoin {

// Returns the path of the first string that is not UTF-8; empty where all are.
std::string FieldThatIsNotUtf8(const google::protobuf::Message& message);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_UTF8_CHECK_H_
