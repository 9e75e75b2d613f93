// What somebody who wrote a name wrongly may have meant.
//
//   NearestName("epoch", {"batch", "epochs"});   // "epochs"
#ifndef ADJOIN_PLANNER_SPEC_NEAREST_NAME_H_
#define ADJOIN_PLANNER_SPEC_NEAREST_NAME_H_

#include <string>
#include <vector>

namespace adjoin {

// Returns the one of `names` with the fewest changes of letters to `name`; "" where all are far.
std::string NearestName(const std::string& name, const std::vector<std::string>& names);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_NEAREST_NAME_H_
