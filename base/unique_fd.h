// A file descriptor that is closed with its owner.
#ifndef ADJOIN_BASE_UNIQUE_FD_H_
#define ADJOIN_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace adjoin {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_UNIQUE_FD_H_
