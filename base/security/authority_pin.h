// How one who has no certificate yet knows the right authority: by a hash of its public key, from a text that an
// operator hands over.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::string pin, PinOfAuthority(server_pem, authorities_pem));      // the coordinator
//   ADJOIN_ASSIGN_OR_RETURN(std::string authority, FindPinned(received_pem, pin, absl::Now()));  // who joins it
#ifndef ADJOIN_BASE_SECURITY_AUTHORITY_PIN_H_
#define ADJOIN_BASE_SECURITY_AUTHORITY_PIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adjoin {

// Returns 64 hexadecimal digits: the SHA-256 of the public key (SubjectPublicKeyInfo, DER) of the one of `authorities`
// by which the first certificate of `chain` is trusted. Errors: kUnauthenticated (none of them).
absl::StatusOr<std::string> PinOfAuthority(const std::string& chain, const std::string& authorities);

// Returns that one of `authorities` which has the pin, has signed itself, and is valid at `now`, PEM. A public key is
// no secret: anybody may put it into a certificate, but cannot sign that with it. Errors: kUnauthenticated.
absl::StatusOr<std::string> FindPinned(const std::string& authorities, const std::string& pin, absl::Time now);

// Returns true where a certificate of one authority, by its name and key, is in both PEM texts.
bool SharesAuthority(const std::string& some, const std::string& others);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_AUTHORITY_PIN_H_
