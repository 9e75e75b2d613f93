// The id of a request to a daemon. It is not guessable, so no other daemon answers.
//
//   send.set_request_id(NewRequestId());
#ifndef ADJOIN_COORDINATOR_SERVICES_REQUEST_ID_H_
#define ADJOIN_COORDINATOR_SERVICES_REQUEST_ID_H_

#include <random>
#include <string>

#include "absl/strings/str_format.h"

namespace adjoin {

// Any thread.
inline std::string NewRequestId() {
  std::random_device device;
  return absl::StrFormat("%08x%08x%08x%08x", device(), device(), device(), device());
}

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_REQUEST_ID_H_
