// What files of data sets held when workers last looked at them, so that a job on the same files can be planned before
// they are looked at again.
//
//   SeenSizes seen;
//   seen.Add(spec.dataset(), sizes);                                  // a worker has found these
//   std::optional<std::vector<DatasetSize>> sizes = seen.Of(other.dataset());
//
// They are a guess: the files may be others now. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_PLANNING_SEEN_SIZES_H_
#define ADJOIN_COORDINATOR_PLANNING_SEEN_SIZES_H_

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <google/protobuf/repeated_field.h>

#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

class SeenSizes {
 public:
  using Datasets = google::protobuf::RepeatedPtrField<Dataset>;
  using Sizes = google::protobuf::RepeatedPtrField<DatasetSize>;

  // `most`: data sets that are remembered, at least 1. Beyond that the one goes whose size was told longest ago.
  explicit SeenSizes(size_t most = 4096) : most_(most) {}

  // Does nothing where these are not the sizes of these data sets, one of each in their order, or where so many of them
  // have files that they would take the place of many others: more than a sixteenth of `most`.
  void Add(const Datasets& datasets, const Sizes& sizes);
  // Returns the size of each data set, as it was seen last, or as the data set itself tells where it has no files.
  // Absent where any other was not seen: two data sets are the same where no field of them differs.
  std::optional<std::vector<DatasetSize>> Of(const Datasets& datasets) const;

 private:
  struct Seen {
    std::string hash;  // of the data set
    DatasetSize size;
  };
  void Remember(std::string hash, const DatasetSize& size);

  const size_t most_;
  std::list<Seen> seen_;  // oldest first
  std::unordered_map<std::string, std::list<Seen>::iterator> by_hash_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_SEEN_SIZES_H_
