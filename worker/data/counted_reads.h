// For tests of how files are read: arrays in Fortran order, and how often the process has called pread.
//
//   WriteFortranNpy(path, {64, 64, 64}, [](int64_t cell) { return cell % 251; });
//   const int64_t before = ReadsSoFar();
//   ...
//   EXPECT_LE(ReadsSoFar() - before, 32);
#ifndef ADJOIN_WORKER_DATA_COUNTED_READS_H_
#define ADJOIN_WORKER_DATA_COUNTED_READS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adjoin {

// Writes cells of uint8. `value` returns the value of the cell with a number in row-major order.
void WriteFortranNpy(const std::string& path, const std::vector<int64_t>& shape,
                     const std::function<int64_t(int64_t)>& value);

// How often this process has called pread.
int64_t ReadsSoFar();

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_COUNTED_READS_H_
