// Signs certificates of workers, as tools/make-certs --client worker NAME does.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto issuer, CertificateIssuer::Open("/etc/adjoin/issuer.pem", "/etc/adjoin/issuer.key"));
//   ADJOIN_ASSIGN_OR_RETURN(RequestedKey key, RequestedKey::Read(request_der));
//   ADJOIN_ASSIGN_OR_RETURN(IssuedCertificate made, issuer->Issue(key, "node-1", absl::Now(), absl::Hours(24)));
//
// A request counts for its key alone. Name, role, uses and validity are what the caller of Issue gives, so a request
// cannot ask for more.
#ifndef ADJOIN_BASE_SECURITY_CERTIFICATE_ISSUER_H_
#define ADJOIN_BASE_SECURITY_CERTIFICATE_ISSUER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adjoin {

// A certificate counts from so long before it was made, so that clocks may differ.
inline constexpr absl::Duration kClockTolerance = absl::Minutes(5);
inline constexpr size_t kMaxRequestBytes = size_t{16} << 10;

// The public key of a request whose sender has the private one.
class RequestedKey {
 public:
  // Errors: kInvalidArgument (too long, no request, a signature that is wrong, a key other than P-256, P-384 or RSA of
  // 2048 to 8192 bits).
  static absl::StatusOr<RequestedKey> Read(const std::string& request_der);
  RequestedKey(RequestedKey&&) noexcept;
  ~RequestedKey();

  const std::string& sha256() const { return sha256_; }

 private:
  friend class CertificateIssuer;
  struct Key;
  RequestedKey();
  std::unique_ptr<Key> key_;
  std::string sha256_;
};

struct IssuedCertificate {
  std::string pem;     // followed by the issuer's own certificates, up to one that has signed itself
  std::string serial;  // hexadecimal, in small letters
  absl::Time not_after;
};

// Any thread.
class CertificateIssuer {
 public:
  // Errors: kNotFound, kInvalidArgument (no authority's certificate, another key), kPermissionDenied (everybody may
  // read the key).
  static absl::StatusOr<std::unique_ptr<CertificateIssuer>> Open(const std::string& certificate_file,
                                                                 const std::string& key_file);
  ~CertificateIssuer();

  // `node`: an IsPeerName. It never outlives the issuer's own certificate. Errors: kFailedPrecondition (that has
  // expired), kInternal.
  absl::StatusOr<IssuedCertificate> Issue(const RequestedKey& key, const std::string& node, absl::Time now,
                                          absl::Duration lifetime) const;

 private:
  struct Authority;
  CertificateIssuer();
  std::unique_ptr<Authority> authority_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_CERTIFICATE_ISSUER_H_
