// An array whose cells follow each other in an open file: any box, read by the runs of the box.
//
//   auto file = std::make_unique<CellFile>(std::move(open_file), stored_array);
//   ADJOIN_RETURN_IF_ERROR(file->Read(Box({{0, 1}, {0, 28}, {0, 28}}), cells));
//
// Memory: a fixed buffer. One thread.
#ifndef ADJOIN_WORKER_DATA_CELL_FILE_H_
#define ADJOIN_WORKER_DATA_CELL_FILE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "primitives/geometry/box.h"
#include "worker/data/array_file.h"
#include "worker/data/array_header.h"
#include "worker/data/open_file.h"

namespace adjoin {

class CellFile : public ArrayFile {
 public:
  // The file is at least array.EndOfData() long.
  CellFile(OpenFile file, StoredArray array) : file_(std::move(file)), array_(std::move(array)) {}

  const ArrayHeader& header() const override { return array_.header; }
  absl::Status Read(const Box& box, double* out) override;
  int64_t bytes_read() const override { return bytes_read_; }

 private:
  const OpenFile file_;
  const StoredArray array_;
  std::vector<unsigned char> raw_;
  std::vector<double> values_;  // a piece of an array in Fortran order, before its cells go to their positions
  int64_t bytes_read_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_CELL_FILE_H_
