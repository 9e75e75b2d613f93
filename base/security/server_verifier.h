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
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/security/certificate.h"

namespace adjoin {

// How the message begins of a call that failed since the server was refused.
inline constexpr char kServerRefused[] = "the coordinator is not trusted: ";

// The servers that were let in by the authorities of a file, and whether they still would be. Any thread.
class ServerTrust {
 public:
  ServerTrust(std::unique_ptr<Authorities> authorities, std::string host)
      : authorities_(std::move(authorities)), host_(std::move(host)) {}

  // Judges a server that is connected to; PEM, as Authorities::Check. Errors: kUnauthenticated, with kServerRefused.
  absl::Status LetIn(const std::string& pem, const std::string& chain) {
    Shown shown{chain, absl::Now(), Deadline::Clock::now()};
    absl::Status status = Check(pem, shown);
    if (status.ok()) status = CheckHost(pem, host_);
    if (!status.ok()) return Refused(status);
    absl::MutexLock lock(&mutex_);
    if (let_in_.size() >= kMostRemembered && let_in_.count(pem) == 0) let_in_.erase(let_in_.begin());
    let_in_[pem] = std::move(shown);
    return status;
  }
  // Judges those that were let in since then, by the authorities and their revocations as they are now. One whose
  // certificate has only expired meanwhile is not refused: connections that are open go on. Errors: as LetIn.
  absl::Status CheckAgain(Deadline::Clock::time_point since) {
    absl::MutexLock lock(&mutex_);
    for (const auto& [pem, shown] : let_in_) {
      if (shown.let_in < since) continue;
      const absl::Status status = Check(pem, shown);
      if (!status.ok()) return Refused(status);
    }
    return absl::OkStatus();
  }

 private:
  // One server has one certificate at a time, and seldom another.
  static constexpr size_t kMostRemembered = 16;
  struct Shown {
    std::string chain;
    absl::Time when;  // the same moment by two clocks: certificates tell their times by the wall's, which may be set
    Deadline::Clock::time_point let_in;
  };
  absl::Status Check(const std::string& pem, const Shown& shown) {
    return authorities_->Check(pem, shown.chain, CertificatePurpose::kServer, shown.when).status();
  }
  static absl::Status Refused(const absl::Status& why) {
    return absl::UnauthenticatedError(absl::StrCat(kServerRefused, std::string(why.message())));
  }

  const std::unique_ptr<Authorities> authorities_;
  const std::string host_;
  absl::Mutex mutex_;
  std::map<std::string, Shown> let_in_ ABSL_GUARDED_BY(mutex_);  // by certificate
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
