// A key of one's own, and the request with which its certificate is asked for.
//
//   ADJOIN_ASSIGN_OR_RETURN(KeyAndRequest own, MakeKeyAndRequest());      // the key never leaves the machine
//   request.set_certificate_request(own.request_der);
#ifndef ADJOIN_BASE_SECURITY_CERTIFICATE_REQUEST_H_
#define ADJOIN_BASE_SECURITY_CERTIFICATE_REQUEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adjoin {

struct KeyAndRequest {
  std::string key_pem;      // PKCS #8, without a passphrase
  std::string request_der;  // PKCS #10, signed with the key; it names nobody
};
// An elliptic key on P-256. Errors: kInternal (OpenSSL).
absl::StatusOr<KeyAndRequest> MakeKeyAndRequest();
// The same for a key that is there. Errors: kInvalidArgument (no key in it), kInternal.
absl::StatusOr<KeyAndRequest> MakeRequest(const std::string& key_pem);

// When a certificate is valid.
struct Validity {
  absl::Time not_before, not_after;
};
// Errors: kInvalidArgument (no certificate in it).
absl::StatusOr<Validity> ValidityOf(const std::string& pem);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_CERTIFICATE_REQUEST_H_
