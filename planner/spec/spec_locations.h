// The location of each field in the text of a job, for messages: "job.textproto:14:3".
//
//   locations.At("layer[3].conv.window.kernel[0]");   // "job.textproto:14:38"
//   locations.At("layer[3].init");                    // not written: the location of the nearest field around it
#ifndef ADJOIN_PLANNER_SPEC_SPEC_LOCATIONS_H_
#define ADJOIN_PLANNER_SPEC_SPEC_LOCATIONS_H_

#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// Immutable; any thread may use it.
class SpecLocations {
 public:
  // No file and no lines: At returns "".
  SpecLocations() = default;
  // A file without lines (JSON): At returns its name.
  explicit SpecLocations(std::string file) : file_(std::move(file)) {}
  // `tree` is that of a JobSpec.
  SpecLocations(std::string file, std::shared_ptr<const google::protobuf::TextFormat::ParseInfoTree> tree)
      : file_(std::move(file)), tree_(std::move(tree)) {}

  // A job that was put together from parts of jobs, in this order: lists joined, later single fields over earlier ones.
  // Within a list of a single group (train.schedule) the location is that of the group's last part that has the list.
  struct Part;
  explicit SpecLocations(std::vector<Part> parts);

  // `path`: field names of JobSpec and its messages with indices counted from 0. Lines and columns count from 1. A
  // field that was not written, or does not exist, has the location of the nearest field around it.
  std::string At(absl::string_view path) const;

 private:
  struct Found {
    int depth = 0;  // steps of the path that are written; 0: the file only
    std::string location;
  };
  Found Find(absl::string_view path) const;
  std::string AtPart(absl::string_view path) const;

  std::string file_;
  std::shared_ptr<const google::protobuf::TextFormat::ParseInfoTree> tree_;
  std::shared_ptr<const std::vector<Part>> parts_;  // null: one file
};

struct SpecLocations::Part {
  SpecLocations locations;
  JobSpec spec;
};

// Writes the location of an error that knows its field (AtField, layers/rules/spec_error.h) into its message:
// "job.textproto:14:3: layer 3 \"conv2\": kernel ...". `locations` may be null.
absl::Status Located(const absl::Status& status, const JobSpec& spec, const SpecLocations* locations);

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_LOCATIONS_H_
