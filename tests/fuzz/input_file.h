// A fuzzer's bytes as a file without a name on any disk.
//
//   const InputFile file(data, size);
//   ByteSource::Open(file.path());
#ifndef ADJOIN_TESTS_FUZZ_INPUT_FILE_H_
#define ADJOIN_TESTS_FUZZ_INPUT_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/check.h"

namespace adjoin {

class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size) : fd_(memfd_create("input", MFD_CLOEXEC)) {
    FuzzCheck(fd_ >= 0 && write(fd_, data, size) == static_cast<ssize_t>(size), "a file in memory is written");
  }
  ~InputFile() { close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_INPUT_FILE_H_
