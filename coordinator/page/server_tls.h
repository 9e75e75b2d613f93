// TLS of the page: the coordinator's certificate, read again when its files change, as base/security/tls.h has it for
// gRPC. A client's certificate is asked for and not judged: coordinator/services/access.h does that.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ServerTls> tls, ServerTls::Open(files));
//   MHD_start_daemon(..., MHD_OPTION_HTTPS_CERT_CALLBACK, &ServerTls::Current, ...)
#ifndef ADJOIN_COORDINATOR_PAGE_SERVER_TLS_H_
#define ADJOIN_COORDINATOR_PAGE_SERVER_TLS_H_

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"
#include "base/security/tls.h"

namespace adjoin {

// One at a time in a process: libmicrohttpd's callback has no argument of its own. Any thread.
class ServerTls {
 public:
  // Errors: kNotFound, kInvalidArgument, kPermissionDenied (a file), kAlreadyExists (there is another one).
  static absl::StatusOr<std::unique_ptr<ServerTls>> Open(const TlsFiles& files);
  ~ServerTls();

  // The authorities' certificates, PEM: browsers offer only certificates of these.
  const std::string& authorities() const { return authorities_; }

  // A gnutls_certificate_retrieve_function2.
  static int Current(gnutls_session_t session, const gnutls_datum_t* authorities, int authority_count,
                     const gnutls_pk_algorithm_t* algorithms, int algorithm_count, gnutls_pcert_st** certificates,
                     unsigned int* count, gnutls_privkey_t* key);

  // What the client of a session has shown: its certificate and the others that came with it, PEM; "" where none.
  static void ShownIn(gnutls_session_t session, std::string* pem, std::string* chain);

 private:
  // A certificate with its key, as GnuTLS has them. They stay until the end, since handshakes may use them.
  struct Pair;
  explicit ServerTls(const TlsFiles& files);
  absl::StatusOr<std::unique_ptr<Pair>> Read() const;
  const Pair* Newest();

  const TlsFiles files_;
  std::string authorities_;
  absl::Mutex mutex_;
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  FileStamp cert_stamp_ ABSL_GUARDED_BY(mutex_), key_stamp_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Pair>> pairs_ ABSL_GUARDED_BY(mutex_);  // the last one counts
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_SERVER_TLS_H_
