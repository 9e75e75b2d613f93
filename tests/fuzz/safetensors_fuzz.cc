// safetensors files: what a job's weights and its checkpoints are read from.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input_file.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

constexpr int64_t kBuffers = 1 << 20;
// A JSON value of two characters, such as "0,", takes 16 bytes, twice while a list grows; an object more.
constexpr int64_t kPerByte = 128;

void Check(const uint8_t* data, size_t size) {
  const InputFile input(data, size);
  const AllocationPeak peak;
  const absl::StatusOr<std::unique_ptr<SafetensorsReader>> reader = SafetensorsReader::Open(input.path());
  FuzzCheck(peak.bytes() <= kPerByte * static_cast<int64_t>(size) + kBuffers,
            absl::StrCat("what a header claims is not allocated: ", peak.bytes(), " bytes for ", size));
  if (!reader.ok()) {
    FuzzCheck(absl::IsDataLoss(reader.status()), "it is the file's fault: " + reader.status().ToString());
    FuzzCheck(absl::StrContains(std::string(reader.status().message()), input.path()), "a refusal names the file");
    return;
  }
  int64_t bytes = 0;
  for (const SafetensorsEntry& entry : (*reader)->entries()) {
    FuzzCheck((*reader)->Find(entry.name) == &entry, "what is there is found by its name");
    FuzzCheck(entry.begin == bytes, "tensors follow each other");
    bytes += entry.Bytes();
    FuzzCheck(bytes <= static_cast<int64_t>(size), "tensors lie in the file");
    std::vector<char> cells(static_cast<size_t>(entry.Bytes()));
    FuzzCheck((*reader)->ReadBox(entry, Box::Whole(entry.shape), cells.data()).ok(), "what was opened can be read");
  }
}

}  // namespace
}  // namespace adjoin

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  adjoin::Check(data, size);
  return 0;
}
