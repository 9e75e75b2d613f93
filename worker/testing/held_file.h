// A file whose opening does not return, as on a file server that is gone: the test holds a lease on it, and the kernel
// makes everybody else wait for the lease (for lease-break-time, 45 s).
//
//   HeldFile hangs(data_root + "/w.safetensors");
//   ASSERT_TRUE(hangs.ok());
//   hangs.Release();                   // who waits goes on
#ifndef ADJOIN_WORKER_TESTING_HELD_FILE_H_
#define ADJOIN_WORKER_TESTING_HELD_FILE_H_

#include <fcntl.h>
#include <signal.h>

#include <string>

#include "base/unique_fd.h"

namespace adjoin {

class HeldFile {
 public:
  // Makes the file where it is missing. It must not be open anywhere.
  explicit HeldFile(const std::string& path) {
    signal(SIGIO, SIG_IGN);  // tells that somebody waits
    fd_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    held_ = fd_.get() >= 0 && fcntl(fd_.get(), F_SETLEASE, F_WRLCK) == 0;
  }
  bool ok() const { return held_; }
  // True once somebody stands in open(2) for it.
  bool IsWaitedFor() const { return fcntl(fd_.get(), F_GETLEASE) != F_WRLCK; }
  void Release() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool held_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TESTING_HELD_FILE_H_
