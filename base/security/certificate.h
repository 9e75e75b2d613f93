// X.509 certificates of peers: whether a trusted authority signed them, whom they name, and why one is refused.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto authorities, Authorities::Open("/etc/adjoin/ca.pem"));
//   ADJOIN_ASSIGN_OR_RETURN(Certificate peer,
//                           authorities->Check(pem, /*chain=*/"", CertificatePurpose::kClient, absl::Now()));
//   ADJOIN_ASSIGN_OR_RETURN(PeerName name, NameOf(peer));          // "adjoin://user/alice": {"user", "alice"}
#ifndef ADJOIN_BASE_SECURITY_CERTIFICATE_H_
#define ADJOIN_BASE_SECURITY_CERTIFICATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace adjoin {

enum class CertificatePurpose { kClient, kServer };

struct Certificate {
  std::string subject;            // "CN=alice", fit for a message
  std::vector<std::string> uris;  // in its subjectAltName
  std::string serial;             // hexadecimal, in small letters
  absl::Time not_before, not_after;
};

// Differs where a file was changed or replaced since it was read.
struct FileStamp {
  int64_t mtime_ns = -1, size = -1, inode = -1;
  static FileStamp Of(const std::string& path);  // all -1 where there is none
  friend bool operator==(const FileStamp& a, const FileStamp& b) {
    return a.mtime_ns == b.mtime_ns && a.size == b.size && a.inode == b.inode;
  }
};

// The certificates of the authorities that are trusted, in a PEM file that is read again, at most once a second, when
// it has changed; one that cannot be read then changes nothing. What the authorities have revoked is refused: their
// revocation lists (X509 CRL) stand in the same file. A list counts for as long as it is there, also after its next
// update. Any thread.
class Authorities {
 public:
  // Errors: kNotFound, kInvalidArgument (no certificate in it; a certificate or a list that cannot be read; a list that
  // none of them has signed).
  static absl::StatusOr<std::unique_ptr<Authorities>> Open(const std::string& file);
  ~Authorities();

  // `pem`: the peer's certificate; `chain`: what else it showed, PEM, may be empty. Absent `now`: the times from which
  // and until which certificates count are not looked at. Errors: kUnauthenticated, which names the certificate, what
  // is wrong with it and what would be right.
  absl::StatusOr<Certificate> Check(const std::string& pem, const std::string& chain, CertificatePurpose purpose,
                                    std::optional<absl::Time> now);
  // Returns the certificates and lists that count now, PEM, and nothing else that the file may have.
  std::string Pem();
  // Grows whenever other authorities are trusted: what was found before may not hold then.
  uint64_t generation();

 private:
  struct Store;
  explicit Authorities(std::string file) : file_(std::move(file)) {}
  static absl::StatusOr<std::shared_ptr<const Store>> Read(const std::string& file);
  std::shared_ptr<const Store> Current();

  const std::string file_;
  absl::Mutex mutex_;
  FileStamp stamp_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::shared_ptr<const Store> store_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 1;
};

// Reads a certificate without judging who has signed it, or when it counts. Errors: kUnauthenticated (there is none).
absl::StatusOr<Certificate> ReadCertificate(const std::string& pem);

// Returns the revocation lists in a file that the authority has signed; all PEM. Other things that are damaged there
// hide none. Empty: there are none, or no file. Errors: kNotFound (the file is there and cannot be read),
// kInvalidArgument (a list that is damaged, or that neither the authority nor a certificate in the file has signed, so
// that it may be one of the authority's): what it revokes is not known then, and must not count as nothing.
absl::StatusOr<std::string> ListsOf(const std::string& authority, const std::string& file);

// Checks that the certificate names `host`, a name or an IP address. Errors: kUnauthenticated.
absl::Status CheckHost(const std::string& pem, const std::string& host);

// Checks that a file that others may be sent has no private key in PEM format. Errors: kNotFound, kInvalidArgument.
absl::Status CheckHasNoPrivateKey(const std::string& file);

// Checks that `key_file` is the private key of the first certificate of `certificate_file`, and that only its owner may
// read it.
// Errors: kNotFound, kInvalidArgument, kPermissionDenied.
absl::Status CheckKey(const std::string& certificate_file, const std::string& key_file);

// Returns true where a peer may have this name: 1 to 200 letters, digits, '-', '_', '.' and '@'.
bool IsPeerName(absl::string_view name);

struct PeerName {
  std::string role, name;
};
// Reads the one URI adjoin://ROLE/NAME of the certificate. Errors: kUnauthenticated.
absl::StatusOr<PeerName> NameOf(const Certificate& certificate);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_CERTIFICATE_H_
