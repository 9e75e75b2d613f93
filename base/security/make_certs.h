// What messages call the program that makes certificates. A checkout has tools/make-certs, packages have
// /usr/share/adjoin/make-certs.
//
//   absl::StrCat("give --tls-ca (", MakeCertsProgram(), " makes it)")      read on this machine only
//   absl::StrCat("it has expired; ", kMakeCerts, " makes a new one")       a refusal, which others read
#ifndef ADJOIN_BASE_SECURITY_MAKE_CERTS_H_
#define ADJOIN_BASE_SECURITY_MAKE_CERTS_H_

#include <string>

namespace adjoin {

// In what other machines may read, and strangers: it tells nothing of this one.
inline constexpr char kMakeCerts[] = "make-certs";

// Returns its path on this machine as this program's place tells it, found once. Any thread. No errors.
std::string MakeCertsProgram();

// The same for the program in the file `program`, an absolute path. Returns the first of these that is a file:
// make-certs in its folder, ../share/adjoin/make-certs from there (where tools/install and packages put it); otherwise
// "tools/make-certs".
std::string MakeCertsProgramOf(const std::string& program);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_MAKE_CERTS_H_
