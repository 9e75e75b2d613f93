// Single fields of a job's spec, set and removed from the command line.
//
//   ADJOIN_RETURN_IF_ERROR(SetSpecField("train.batch=32", &spec));
//   ADJOIN_RETURN_IF_ERROR(SetSpecField("layer[conv1].conv.out_channels=8", &spec));
//   ADJOIN_RETURN_IF_ERROR(RemoveSpecField("train", &spec));
//   ADJOIN_RETURN_IF_ERROR(RemoveSpecField("dataset[test]", &spec));
//
// Left of '=' are the fields' names, joined by dots. One of a list is chosen by its number from 0 or by its name:
// layer[0], layer[conv1], dataset[train].field[image]. One value of a map by its key: resources.node_label[zone]=a.
//
// Right of '=' is one value, without quotes; a list of values is [5,3] or ["a","b"], and one value alone is a list of
// one. A whole group of fields is {...} in text format and replaces the group: train.optimizer={adam { lr: 0.001 }}.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_SETTER_H_
#define ADJOIN_PLANNER_SPEC_SPEC_SETTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// On an error, `*spec` does not change.
// Errors: kInvalidArgument, starting with the path: a field, an index or a name that does not exist (the message lists
// those that do), a value of the wrong type, a field of one alternative where the job has another (a pool's of a conv).
absl::Status SetSpecField(absl::string_view assignment, JobSpec* spec);

// Removes a field, a whole group or list, one element of a list or one value of a map. On an error, `*spec` does not
// change. Errors: kInvalidArgument, starting with the path: as SetSpecField; the job has nothing there.
absl::Status RemoveSpecField(absl::string_view path, JobSpec* spec);

// The options --unset and --set of a command.
struct SpecChanges {
  std::vector<std::string> unset;  // PATH; first, so that another alternative can be set instead of what is removed
  std::vector<std::string> set;    // PATH=VALUE

  bool empty() const { return unset.empty() && set.empty(); }
};
// Makes the changes in order. Errors: those of SetSpecField and RemoveSpecField, which begin with the option.
absl::Status ChangeSpec(const SpecChanges& changes, JobSpec* spec);

// A job's text and its name in messages.
struct SpecSource {
  std::string text;
  std::string name;
};
// Returns the text with the changes made, in text format; `source` itself where there are none. Messages then name
// lines of the new text, so its name ends in "with --set" or the like. Errors: those of ParseSpec and of ChangeSpec.
absl::StatusOr<SpecSource> WithChanges(const SpecSource& source, const SpecChanges& changes);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_SETTER_H_
