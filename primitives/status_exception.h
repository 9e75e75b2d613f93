// Carries an absl::Status through LibTorch's autograd, which knows only exceptions.
//
//   try {
//     tape.Backward(loss);
//   } catch (...) {
//     return StatusFromCurrentException();
//   }
#ifndef ADJOIN_PRIMITIVES_STATUS_EXCEPTION_H_
#define ADJOIN_PRIMITIVES_STATUS_EXCEPTION_H_

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace adjoin {

class StatusException : public std::runtime_error {
 public:
  // `status` is not OK.
  explicit StatusException(absl::Status status)
      : std::runtime_error(std::string(status.message())), status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

inline void ThrowIfError(absl::Status status) {
  if (!status.ok()) throw StatusException(std::move(status));
}

// What the exception being handled says: a StatusException's status; kResourceExhausted for std::bad_alloc; kInternal
// with the message, without LibTorch's backtrace, for any other. Call it only inside a catch block.
absl::Status StatusFromCurrentException();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_STATUS_EXCEPTION_H_
