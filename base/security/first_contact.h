// Credentials of one who has no certificate yet.
//
//   Credentials read = CredentialsForAnyServer();                       // to ask for the authorities, and nothing else
//   ADJOIN_ASSIGN_OR_RETURN(Credentials join, CredentialsWithoutCertificate(coordinator, "ca.pem"));
#ifndef ADJOIN_BASE_SECURITY_FIRST_CONTACT_H_
#define ADJOIN_BASE_SECURITY_FIRST_CONTACT_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/endpoint.h"

namespace adjoin {

// TLS to whatever server answers. It can read all that is sent, and what it says is worth nothing by itself.
std::shared_ptr<grpc::ChannelCredentials> CredentialsForAnyServer();

// TLS to a server that is `coordinator`'s host by the authorities in the file, as MakeChannelCredentials checks it.
// Errors: those of Authorities::Open.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsWithoutCertificate(
    const Endpoint& coordinator, const std::string& authorities_file);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_FIRST_CONTACT_H_
