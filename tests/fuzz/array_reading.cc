#include "tests/fuzz/array_reading.h"

#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input_file.h"
#include "worker/data/array_file.h"

namespace adjoin {
namespace {

constexpr int64_t kBuffers = 4 << 20;
// A gzip file holds up to a thousand times its size, which is not interesting.
constexpr int64_t kMostCells = 1 << 20;

void CheckRefusal(const absl::Status& status) {
  if (status.ok()) return;
  FuzzCheck(absl::StrContains(std::string(status.message()), "fuzzed"),
            "a refusal names the file: " + status.ToString());
  FuzzCheck(absl::IsInvalidArgument(status) || absl::IsDataLoss(status),
            "it is the file's fault: " + status.ToString());
}

// The middle of each dim, against the same cells of the whole.
void CheckPart(ArrayFile& file, const std::vector<double>& whole) {
  const std::vector<int64_t>& shape = file.header().shape;
  Box box = Box::Whole(shape);
  for (int dim = 0; dim < box.dims(); ++dim) box[dim] = {shape[dim] / 3, shape[dim] - shape[dim] / 4};
  std::vector<double> part(static_cast<size_t>(box.Volume()));
  FuzzCheck(file.Read(box, part.data()).ok(), "a part of what was read can be read");
  size_t at = 0;
  for (size_t cell = 0; cell < whole.size(); ++cell) {
    auto rest = static_cast<int64_t>(cell);
    bool inside = true;
    for (int dim = box.dims() - 1; dim >= 0; rest /= shape[dim--]) inside &= box[dim].Contains(rest % shape[dim]);
    // Compared by their bits, so that a NaN equals itself.
    if (inside) FuzzCheck(std::memcmp(&part[at++], &whole[cell], sizeof(double)) == 0, "a part is the whole's");
  }
  FuzzCheck(at == part.size(), "a part has as many cells as its box");
}

}  // namespace

void CheckArrayReading(const std::string& format, const uint8_t* data, size_t size) {
  const InputFile input(data, size);
  ArrayFileOptions options;
  options.format = format;
  options.name = "fuzzed";
  const AllocationPeak peak;
  const absl::StatusOr<ArrayHeader> checked = CheckArrayFile(input.path(), options);
  CheckRefusal(checked.status());
  const absl::StatusOr<std::unique_ptr<ArrayFile>> file = ArrayFile::Open(input.path(), options);
  CheckRefusal(file.status());
  options.format.clear();
  const absl::StatusOr<ArrayHeader> found = ReadArrayHeader(input.path(), options);
  CheckRefusal(found.status());
  FuzzCheck(peak.bytes() <= 8 * static_cast<int64_t>(size) + kBuffers,
            absl::StrCat("what a header claims is not allocated: ", peak.bytes(), " bytes for ", size));
  FuzzCheck(peak.bytes() > 0, "allocations are counted");
  FuzzCheck(checked.ok() == file.ok(), "checking and opening agree");
  if (!file.ok()) return;
  const ArrayHeader& header = (*file)->header();
  FuzzCheck(header.ToString() == checked->ToString() && !header.ToString().empty(), "headers agree");
  if (header.Cells() > kMostCells) return;
  std::vector<double> whole(static_cast<size_t>(header.Cells()));
  FuzzCheck((*file)->Read(Box::Whole(header.shape), whole.data()).ok(), "what was opened can be read");
  FuzzCheck((*file)->bytes_read() == header.Cells() * SizeOf(header.type), "each cell is read once");
  CheckPart(**file, whole);
}

}  // namespace adjoin
