#include "worker/data/cell_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/box_runs.h"

namespace adjoin {
namespace {

constexpr int64_t kBufferBytes = 1 << 20;

// The positions, in a row-major box, of cells that come with the first dim fastest.
class FortranPositions {
 public:
  explicit FortranPositions(const Box& box) : shape_(box.Shape()), at_(shape_.size()), strides_(shape_.size()) {
    int64_t stride = 1;
    for (size_t dim = shape_.size(); dim-- > 0; stride *= shape_[dim]) strides_[dim] = stride;
  }
  int64_t Next() {
    const int64_t position = position_;
    for (size_t dim = 0; dim < shape_.size(); ++dim) {
      position_ += strides_[dim];
      if (++at_[dim] < shape_[dim]) break;
      position_ -= strides_[dim] * shape_[dim];
      at_[dim] = 0;
    }
    return position;
  }

 private:
  const std::vector<int64_t> shape_;
  std::vector<int64_t> at_;
  std::vector<int64_t> strides_;
  int64_t position_ = 0;
};

std::vector<int64_t> Backwards(std::vector<int64_t> shape) {
  std::reverse(shape.begin(), shape.end());
  return shape;
}

Box Backwards(const Box& box) {
  std::vector<Interval> dims;
  for (int dim = box.dims() - 1; dim >= 0; --dim) dims.push_back(box[dim]);
  return Box(std::move(dims));
}

}  // namespace

absl::Status CellFile::Read(const Box& box, double* out) {
  const ArrayHeader& header = array_.header;
  ADJOIN_RETURN_IF_ERROR(CheckBox(file_.name(), header, box));
  const int64_t size = SizeOf(header.type);
  const bool turn = header.fortran && box.dims() > 1;
  FortranPositions positions(turn ? box : Box());
  double* at = out;
  const int64_t cells = box.Volume();
  raw_.resize(static_cast<size_t>(std::min(kBufferBytes, cells * size)));
  if (turn) values_.resize(raw_.size() / size);
  const auto read_run = [&](const CellRun& run) -> absl::Status {
    for (int64_t done = 0; done < run.count;) {
      const int64_t count = std::min<int64_t>(run.count - done, static_cast<int64_t>(raw_.size()) / size);
      ADJOIN_RETURN_IF_ERROR(file_.ReadAt(array_.offset + (run.first + done) * size, raw_.data(), count * size));
      bytes_read_ += count * size;
      done += count;
      DecodeCells(header.type, array_.big_endian, raw_.data(), count, turn ? values_.data() : at);
      at += count;
      for (int64_t i = 0; turn && i < count; ++i) out[positions.Next()] = values_[i];
    }
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(turn ? ForEachRun(Backwards(header.shape), Backwards(box), read_run)
                              : ForEachRun(header.shape, box, read_run));
  if (header.slope == 1 && header.intercept == 0) return absl::OkStatus();
  for (int64_t i = 0; i < cells; ++i) out[i] = header.slope * out[i] + header.intercept;
  return absl::OkStatus();
}

}  // namespace adjoin
