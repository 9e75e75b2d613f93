#include "base/security/first_contact.h"

#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "base/security/certificate.h"
#include "base/security/server_verifier.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

std::shared_ptr<grpc::ChannelCredentials> With(std::shared_ptr<grpc::experimental::CertificateVerifier> verifier) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);  // the verifier does, or nobody
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::move(verifier));
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> CredentialsForAnyServer() {
  return With(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsWithoutCertificate(
    const Endpoint& coordinator, const std::string& authorities_file) {
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Authorities> authorities, Authorities::Open(authorities_file));
  return With(grpc::experimental::ExternalCertificateVerifier::Create<ServerVerifier>(
      std::make_shared<ServerTrust>(std::move(authorities), coordinator.host)));
}

}  // namespace adjoin
