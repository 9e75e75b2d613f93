// Single fields of a job's spec, set from the command line.
//
//   ADJOIN_RETURN_IF_ERROR(SetSpecField("train.batch=32", &spec));
//   ADJOIN_RETURN_IF_ERROR(SetSpecField("layer[conv1].conv.out_channels=8", &spec));
//
// Left of '=' are the fields' names, joined by dots. One of a list is chosen by its number from 0 or by its name:
// layer[0], layer[conv1], dataset[train].field[image]. One value of a map by its key: resources.node_label[zone]=a.
//
// Right of it is one value, without quotes; a list of values is [5,3], and one value alone is a list of one. A whole
// group of fields is {...} in text format and replaces what was there: train.optimizer={adam { lr: 0.001 }}.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_SETTER_H_
#define ADJOIN_PLANNER_SPEC_SPEC_SETTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// Where it fails, `*spec` stays as it was.
// Errors: kInvalidArgument, starting with the path: a field, a place of a list or a name that does not exist (says what
// does), a value of the wrong type, a field of one alternative where the job has another (a pool's where there is a conv).
absl::Status SetSpecField(absl::string_view assignment, JobSpec* spec);

// A job's text and what messages call it.
struct SpecSource {
  std::string text;
  std::string name;
};
// The text with the assignments made, in order, as text format; `source` itself where there are none. Lines in messages
// are then those of the new text, so its name says "with --set".
// Errors: those of ParseSpec and of SetSpecField, which begin with "--set ".
absl::StatusOr<SpecSource> WithSettings(const SpecSource& source, const std::vector<std::string>& assignments);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_SETTER_H_
