// What the files of a job's data sets hold, where they are here.
//
//   ADJOIN_ASSIGN_OR_RETURN(const FoundData data, FindData(spec, "/data"));
//   data.sizes;                       // of the data sets whose files are below the folder
//   LargestVolumes(spec, data);       // {{"ct", {{98, 140, 512}, "what needs volumes of data set ..."}}}
#ifndef ADJOIN_CLI_FOUND_DATA_H_
#define ADJOIN_CLI_FOUND_DATA_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/auto/auto_plan.h"
#include "planner/plan/planner.h"
#include "proto/job.pb.h"
#include "worker/samples/sample_extents.h"

namespace adjoin {

struct FoundData {
  DatasetSizes sizes;
  std::vector<std::string> unknown;              // the data sets whose files are not here
  std::map<std::string, SampleExtents> extents;  // by Dataset.name; empty where they do not differ
};

// Errors: those of ReadArrayHeader and SampleExtents; kInvalidArgument, with the file: samples of another shape.
absl::StatusOr<FoundData> FindData(const JobSpec& spec, const std::string& data_root);

// A data set's volume with most cells: what is predicted for it is the most that the job needs.
struct LargestVolume {
  std::vector<int64_t> extents;
  std::string note;  // a line that says which one it is, and that others are planned for their own
};
// By name, of the data sets whose whole volumes the job evaluates or predicts and whose files were found.
std::map<std::string, LargestVolume> LargestVolumes(const JobSpec& spec, const FoundData& data);

// The extents that layouts are chosen for: none of a job that trains, whose layouts are chosen for its steps.
VolumeExtents ExtentsToChooseFor(const JobSpec& spec, const std::map<std::string, LargestVolume>& largest);

}  // namespace adjoin

#endif  // ADJOIN_CLI_FOUND_DATA_H_
