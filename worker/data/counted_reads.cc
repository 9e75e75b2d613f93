#include "worker/data/counted_reads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "worker/data/cell_type.h"
#include "worker/data/idx_test_files.h"
#include "worker/data/npy_file.h"

namespace {

std::atomic<int64_t> reads{0};

}  // namespace

// In the place of libc's.
extern "C" ssize_t pread(int fd, void* out, size_t bytes, off_t offset) {
  ++reads;
  return syscall(SYS_pread64, fd, out, bytes, offset);
}

namespace adjoin {

void WriteFortranNpy(const std::string& path, const std::vector<int64_t>& shape,
                     const std::function<int64_t(int64_t)>& value) {
  std::string bytes = NpyHeaderBytes(CellType::kUInt8, shape);
  const std::string row_major = "False";
  bytes.replace(bytes.find(row_major), row_major.size(), "True ");
  std::vector<int64_t> at(shape.size());
  for (bool more = true; more;) {
    int64_t cell = 0;
    for (size_t dim = 0; dim < shape.size(); ++dim) cell = cell * shape[dim] + at[dim];
    bytes += static_cast<char>(value(cell));
    size_t dim = 0;
    for (; dim < shape.size(); ++dim) {
      if (++at[dim] < shape[dim]) break;
      at[dim] = 0;
    }
    more = dim < shape.size();
  }
  WriteFile(path, bytes);
}

int64_t ReadsSoFar() { return reads; }

}  // namespace adjoin
