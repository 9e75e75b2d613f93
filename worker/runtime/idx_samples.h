// One box of every sample of one or several IDX files: what one rank needs of a field of the data set.
//
//   // the upper left quarter of each image
//   ADJOIN_ASSIGN_OR_RETURN(auto samples, IdxSamples::Open({"train-images.idx.gz"}, {1, 28, 28},
//                                                          Box({{0, 1}, {0, 14}, {0, 14}})));
//   std::vector<double> cells(samples->elements());
//   ADJOIN_RETURN_IF_ERROR(samples->Read(17, cells.data()));
//
// A plain file is read when asked, only the box. A gzip file has no middle to seek to: it is inflated once, in
// `Open`, and only the box is kept, in the file's own type. Of an empty box only the header is read. One thread.
#ifndef ADJOIN_WORKER_RUNTIME_IDX_SAMPLES_H_
#define ADJOIN_WORKER_RUNTIME_IDX_SAMPLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/box.h"
#include "worker/data/box_runs.h"
#include "worker/data/byte_source.h"
#include "worker/data/idx_file.h"

namespace adjoin {

class IdxSamples {
 public:
  // `paths` continue each other; `names`, as many or none, are what messages call them. `sample_shape` is how a sample is seen (any shape with as many elements as the
  // file's); `box` lies within it, and may be empty.
  // Errors: as ReadIdxHeader; kInvalidArgument (no paths, another number of elements, files of different samples);
  // kDataLoss (truncated, trailing bytes, corrupt).
  static absl::StatusOr<std::unique_ptr<IdxSamples>> Open(const std::vector<std::string>& paths,
                                                          const std::vector<int64_t>& sample_shape, const Box& box,
                                                          const std::vector<std::string>& names = {});
  ~IdxSamples();

  int64_t samples() const { return samples_; }
  int64_t elements() const { return elements_; }  // of the box

  // The box of one sample, row-major. Every type of IDX is exact as a double.
  // Errors: kOutOfRange (no such sample); kDataLoss and kUnavailable where a plain file has changed.
  absl::Status Read(int64_t sample, double* out);

 private:
  struct File;

  IdxSamples() = default;
  static absl::Status Keep(ByteSource& source, const std::vector<CellRun>& runs, File& file);

  std::vector<std::unique_ptr<File>> files_;
  std::vector<CellRun> runs_;
  std::vector<unsigned char> raw_;  // one sample's box, as in the file
  int64_t samples_ = 0;
  int64_t elements_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RUNTIME_IDX_SAMPLES_H_
