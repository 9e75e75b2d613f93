// Judges the coordinator's certificate for gRPC, whose own check gives hardly any reason.
//
//   options.set_verify_server_certs(false);
//   options.set_certificate_verifier(
//       grpc::experimental::ExternalCertificateVerifier::Create<ServerVerifier>(std::move(authorities), host));
#ifndef ADJOIN_BASE_SECURITY_SERVER_VERIFIER_H_
#define ADJOIN_BASE_SECURITY_SERVER_VERIFIER_H_

#include <grpcpp/security/tls_certificate_verifier.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/security/certificate.h"

namespace adjoin {

// How the message begins of a call that failed since the server was refused.
inline constexpr char kServerRefused[] = "the coordinator is not trusted: ";

class ServerVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  ServerVerifier(std::unique_ptr<Authorities> authorities, std::string host)
      : authorities_(std::move(authorities)), host_(std::move(host)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const std::string pem(request->peer_cert().data(), request->peer_cert().size());
    const std::string chain(request->peer_cert_full_chain().data(), request->peer_cert_full_chain().size());
    absl::Status status = authorities_->Check(pem, chain, CertificatePurpose::kServer, absl::Now()).status();
    if (status.ok()) status = CheckHost(pem, host_);
    if (!status.ok()) {
      *sync_status =
          grpc::Status(grpc::StatusCode::UNAUTHENTICATED, absl::StrCat(kServerRefused, std::string(status.message())));
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::unique_ptr<Authorities> authorities_;
  const std::string host_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_SERVER_VERIFIER_H_
