// IDX files for tests.
//
//   WriteFile(path, Gzip(IdxBytes(IdxType::kUInt8, {2, 3}, {1, 2, 3, 4, 5, 6})));
#ifndef ADJOIN_WORKER_DATA_IDX_TEST_FILES_H_
#define ADJOIN_WORKER_DATA_IDX_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/idx_file.h"

namespace adjoin {

// Returns the bytes of a sound file; `cells` are cast to the type.
std::string IdxBytes(IdxType type, const std::vector<int64_t>& shape, const std::vector<double>& cells);
// Returns the bytes of a header, which need not be sound.
std::string IdxHeaderBytes(int type, const std::vector<int64_t>& shape);
std::string Gzip(const std::string& bytes);
void WriteFile(const std::string& path, const std::string& bytes);
std::string ReadFile(const std::string& path);
// Returns a path in the test's temporary folder, with the test's name in it.
std::string TestPath(const std::string& name);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DATA_IDX_TEST_FILES_H_
