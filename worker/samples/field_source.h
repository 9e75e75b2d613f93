// The source of one field's values: its files, or the seed. Gives boxes of samples as they are stored.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto source, OpenFieldSource(dataset, field, {1, 28, 28}, seed, data));
//   std::vector<double> cells(2 * 14 * 28);
//   // the upper halves of samples 17 and 18
//   ADJOIN_RETURN_IF_ERROR(source->Read(17, 2, Box({{0, 1}, {0, 14}, {0, 28}}), cells.data()));
//
// One thread.
#ifndef ADJOIN_WORKER_SAMPLES_FIELD_SOURCE_H_
#define ADJOIN_WORKER_SAMPLES_FIELD_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "proto/job.pb.h"

namespace adjoin {

// The folder in which a rank finds data, its cache, and its function for warnings.
struct DataFolder {
  DataFolder(std::string root) : root(std::move(root)) {}  // also implicitly: a folder and nothing else
  DataFolder(const char* root) : root(root) {}

  std::string root;         // the spec's paths are below it
  std::string cache_dir;    // for inflated copies, one for all ranks of a node; empty: each rank has copies of its own
  int64_t cache_bytes = 0;  // most bytes of the copies; 0: 80 % of their disk
  // Gets warnings, each one line without its end, on the thread that reads a batch. May be empty.
  std::function<void(const std::string&)> warn;
};

// A box in two: its cells before `at` in `dim`, and those from there on.
struct BoxCut {
  int dim;
  int64_t at;

  // Cuts in the middle of the first dim that is longer than 1; nothing where there is none.
  static std::optional<BoxCut> FirstDim(const Box& box) {
    for (int dim = 0; dim < box.dims(); ++dim) {
      if (box[dim].size() > 1) return BoxCut{dim, box[dim].lo + box[dim].size() / 2};
    }
    return std::nullopt;
  }
};

class FieldSource {
 public:
  virtual ~FieldSource() = default;

  virtual int64_t samples() const = 0;
  // Returns a sample's own shape, which differs from file to file where Field.shape has -1. There is such a sample.
  virtual const std::vector<int64_t>& ShapeOf(int64_t sample) const = 0;
  // Returns what messages call a sample: "ct/a.nii.gz", "set.npy, sample 3 from 0".
  virtual std::string NameOf(int64_t sample) const = 0;
  // Reads `box`, which is within a sample, of each of `count` samples from `sample` on. `out` has room for
  // count * box.Volume() values, row-major.
  // Errors: kOutOfRange (no such samples); as ArrayFile::Open and ArrayFile::Read.
  virtual absl::Status Read(int64_t sample, int64_t count, const Box& box, double* out) = 0;
  // From any thread. Ends a Read that inflates a file soon, which may else take minutes; later ones inflate nothing.
  virtual void Stop() {}
  // The sum of ArrayFile::bytes_read over all files so far.
  virtual int64_t bytes_read() const = 0;
  // Returns where to cut `box` of a sample so that reading the two boxes takes as much of the file as reading `box`, in
  // few runs; nothing where there is no such cut, as within a chunk.
  virtual std::optional<BoxCut> CutOf(int64_t /*sample*/, const Box& box) const { return BoxCut::FirstDim(box); }
};

// `sample_shape`: a whole sample's, also where the data set has blocks; with -1 where Field.shape has.
// Errors: kInvalidArgument (no path; other cells than a sample has); as HoldBelow, ReadArrayHeader.
absl::StatusOr<std::unique_ptr<FieldSource>> OpenFieldSource(const Dataset& dataset, const Field& field,
                                                             const std::vector<int64_t>& sample_shape, uint64_t seed,
                                                             const DataFolder& data);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_FIELD_SOURCE_H_
