// The program that makes certificates, by the path at which this machine has it: a checkout has tools/make-certs,
// packages have /usr/share/adjoin/make-certs. For messages.
//
//   absl::StrCat("give --tls-cert and --tls-key (", MakeCertsProgram(), " --client ROLE NAME)")
#ifndef ADJOIN_BASE_SECURITY_MAKE_CERTS_H_
#define ADJOIN_BASE_SECURITY_MAKE_CERTS_H_

#include <string>

namespace adjoin {

// Returns that path as this program's place tells it, found once. Any thread. No errors.
std::string MakeCertsProgram();

// The same for the program in the file `program`, an absolute path. Returns the first of these that is a file:
// make-certs in its folder, ../share/adjoin/make-certs from there (where tools/install and packages put it); otherwise
// "tools/make-certs".
std::string MakeCertsProgramOf(const std::string& program);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_MAKE_CERTS_H_
