// Checks what must hold for any content of an array file of one format.
//
//   CheckArrayReading("npy", data, size);
#ifndef ADJOIN_TESTS_FUZZ_ARRAY_READING_H_
#define ADJOIN_TESTS_FUZZ_ARRAY_READING_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace adjoin {

// The whole check, opening and reading agree on whether the file is sound; what is read of its whole and of a part of
// it is the same; refusals name the file; and no more memory is used than buffers and a small multiple of the file.
void CheckArrayReading(const std::string& format, const uint8_t* data, size_t size);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_ARRAY_READING_H_
