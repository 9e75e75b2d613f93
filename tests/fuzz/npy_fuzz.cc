// NumPy's .npy files, plain and gzip.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/array_reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  adjoin::CheckArrayReading("npy", data, size);
  return 0;
}
