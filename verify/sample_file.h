// The arrays of an .npz file of NumPy, stored or deflated: what a model got and what PyTorch computed of it.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<SampleArray> arrays, ReadSampleFile("sample.npz"));
//   arrays[0].name;                         // "input.image"
//
// The file is data from outside: sizes are compared with the file's before anything is allocated by them, no more than
// kMaxSampleBytes of arrays are read, and every checksum has to be right.
#ifndef ADJOIN_VERIFY_SAMPLE_FILE_H_
#define ADJOIN_VERIFY_SAMPLE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/cell_type.h"

namespace adjoin {

inline constexpr int64_t kMaxSampleBytes = int64_t{4} << 30;

inline constexpr char kSampleInput[] = "input.";  // before a field's name

struct SampleArray {
  std::string name;                    // "output", of the entry output.npy
  CellType type = CellType::kFloat32;  // in the file
  at::Tensor values;                   // float64
};

// In the order of their data in the file. Errors: as ArchiveFile::Open; kDataLoss (no zip archive, damaged, larger than
// kMaxSampleBytes); kInvalidArgument (an entry that is no array of numbers, a NaN: which and where).
absl::StatusOr<std::vector<SampleArray>> ReadSampleFile(const std::string& path);

// kInvalidArgument: "FILE: ARRAY is ...".
absl::Status BadSampleArray(const std::string& file, const std::string& array, const std::string& what);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_SAMPLE_FILE_H_
