// What differs in two jobs, field by field. A field that one job leaves out equals its default in the other one.
//
//   for (const SpecDifference& each : DifferencesOf(a, b)) ...   // {"layer[conv1].conv.out_channels", "6", "8"}
//
// Paths and values are those that --set takes (spec_setter.h): elements of lists go by their names where they have
// some, texts are without quotes, lists are [5,3], a whole group of fields is {...} in text format.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_DIFF_H_
#define ADJOIN_PLANNER_SPEC_SPEC_DIFF_H_

#include <optional>
#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace adjoin {

struct SpecDifference {
  std::string path;
  std::optional<std::string> a, b;            // absent: the job has none, and there is no default
  bool a_written = false, b_written = false;  // in the job; else the value is the default
};

// In the order of job.proto. Only fields that at least one of the jobs has: defaults that follow from them are left
// out. Layers that both have in another order are a difference of the list, "layer", whose values are then the names.
std::vector<SpecDifference> DifferencesOf(const JobSpec& a, const JobSpec& b);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_DIFF_H_
