// Judges the coordinator's certificate for gRPC, whose own check gives hardly any reason.
//
//   options.set_verify_server_certs(false);
//   options.set_certificate_verifier(
//       grpc::experimental::ExternalCertificateVerifier::Create<ServerVerifier>(trust));
//   absl::Status still = trust->CheckAgain(since);
#ifndef ADJOIN_BASE_SECURITY_SERVER_VERIFIER_H_
#define ADJOIN_BASE_SECURITY_SERVER_VERIFIER_H_

#include <grpcpp/security/tls_certificate_verifier.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/security/certificate.h"

namespace adjoin {

// How the message begins of a call that failed since the server was refused.
inline constexpr char kServerRefused[] = "the coordinator is not trusted: ";

// The server that was let in last by the authorities of a file, and whether it still would be. Any thread.
//
// A name stands for one server, which has one certificate at a time: one that shows another has taken the place of the
// one before, whose revocation then concerns nobody. So make one for each set of credentials, and use these for one
// channel after another: where several channels are open to several servers, only the last one is judged.
class ServerTrust {
 public:
  ServerTrust(std::unique_ptr<Authorities> authorities, std::string host)
      : authorities_(std::move(authorities)), host_(std::move(host)) {}

  // Judges a server that is connected to; PEM, as Authorities::Check. Errors: kUnauthenticated, with kServerRefused.
  absl::Status LetIn(const std::string& pem, const std::string& chain) {
    const Deadline::Clock::time_point now = Deadline::Clock::now();
    absl::Status status = authorities_->Check(pem, chain, CertificatePurpose::kServer, absl::Now()).status();
    if (status.ok()) status = CheckHost(pem, host_);
    if (!status.ok()) return Refused(status);
    absl::MutexLock lock(&mutex_);
    last_ = Shown{pem, chain, now};
    return status;
  }
  // Judges the server again where it was let in since then, by the authorities and their revocations as they are now.
  // Times do not count, as they did when it was let in: neither a certificate that has expired meanwhile nor that of an
  // authority which was renewed, and counts from a later time, ends what is open. Errors: as LetIn.
  absl::Status CheckAgain(Deadline::Clock::time_point since) {
    absl::MutexLock lock(&mutex_);
    if (!last_.has_value() || last_->let_in < since) return absl::OkStatus();
    const absl::Status status =
        authorities_->Check(last_->pem, last_->chain, CertificatePurpose::kServer, std::nullopt).status();
    return status.ok() ? status : Refused(status);
  }

 private:
  struct Shown {
    std::string pem, chain;
    Deadline::Clock::time_point let_in;
  };
  static absl::Status Refused(const absl::Status& why) {
    return absl::UnauthenticatedError(absl::StrCat(kServerRefused, std::string(why.message())));
  }

  const std::unique_ptr<Authorities> authorities_;
  const std::string host_;
  absl::Mutex mutex_;
  std::optional<Shown> last_ ABSL_GUARDED_BY(mutex_);
};

class ServerVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ServerVerifier(std::shared_ptr<ServerTrust> trust) : trust_(std::move(trust)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const std::string pem(request->peer_cert().data(), request->peer_cert().size());
    const std::string chain(request->peer_cert_full_chain().data(), request->peer_cert_full_chain().size());
    const absl::Status status = trust_->LetIn(pem, chain);
    if (!status.ok()) {
      *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(status.message()));
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<ServerTrust> trust_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_SERVER_VERIFIER_H_
