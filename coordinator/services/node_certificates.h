// Nodes that join: the tokens with which they do, the certificates that they get, and the nodes that are let in no
// more.
//
//   NodeCertificates nodes(*store, std::move(issuer), {.authorities_file = tls.ca, .certificate_file = tls.cert});
//   ADJOIN_RETURN_IF_ERROR(nodes.Load());
//   ADJOIN_ASSIGN_OR_RETURN(CreateJoinTokenResponse token, nodes.CreateToken("node-1", /*uses=*/1, /*hours=*/1));
//   ADJOIN_ASSIGN_OR_RETURN(NodeCertificate first, nodes.Join(request));          // from a daemon that shows the token
//   ADJOIN_ASSIGN_OR_RETURN(NodeCertificate next, nodes.Renew("node-1", csr, shown));  // that shows such a certificate
//
// A token is "adjjoin_ID_SECRET_PIN": the coordinator keeps a hash of the secret, and the pin tells the daemon which
// authority is the coordinator's (base/security/authority_pin.h). A join whose answer got lost may be repeated with the
// same key: it counts once.
//
// Any thread. A change is in the store when its method returns, and counts from then on.
#ifndef ADJOIN_COORDINATOR_SERVICES_NODE_CERTIFICATES_H_
#define ADJOIN_COORDINATOR_SERVICES_NODE_CERTIFICATES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"
#include "base/security/certificate_issuer.h"
#include "coordinator/services/long_expired.h"
#include "coordinator/store/store.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class NodeCertificates {
 public:
  static constexpr double kLongestHours = 31 * 24;  // of a token
  static constexpr uint32_t kMostUses = 100000;
  static constexpr size_t kMostTokens = 10000;
  static constexpr size_t kMostCertificates = 100000;
  static constexpr size_t kMostOfOneNode = 20;  // certificates that are valid at a time
  static constexpr size_t kMostRevokedNodes = 100000;

  struct Options {
    absl::Duration lifetime = absl::Hours(24);               // of a certificate
    std::string authorities_file;                            // that the coordinator trusts, PEM
    std::string certificate_file;                            // the coordinator's own, PEM
    std::function<absl::Time()> clock;                       // empty: absl::Now
    std::function<absl::Duration()> steady_clock = nullptr;  // as LongExpired's
  };
  // `issuer` is null where the coordinator issues none. `store` outlives the object.
  NodeCertificates(Store& store, std::unique_ptr<CertificateIssuer> issuer, Options options);
  // Takes the store's rows, and opens the authorities where certificates are issued. Errors: the store's; as
  // Authorities::Open.
  absl::Status Load();

  // `node`: the one that may join with it; empty: any. Errors: kFailedPrecondition (no certificates are issued here;
  // the coordinator's own is trusted by none of its authorities), kInvalidArgument, kResourceExhausted, the store's.
  absl::StatusOr<CreateJoinTokenResponse> CreateToken(const std::string& node, uint32_t uses, double valid_hours);
  // Oldest first.
  std::vector<TokenSummary> Tokens();
  // Errors: kNotFound, the store's.
  absl::Status RevokeToken(const std::string& id);

  // Errors: kFailedPrecondition (no certificates are issued here), kUnauthenticated (the token), kPermissionDenied (the
  // name is another's, or is not the token's), kInvalidArgument (name, request), kResourceExhausted, the store's.
  absl::StatusOr<NodeCertificate> Join(const JoinNodeRequest& request);
  // For a caller who has shown a certificate of this node. `shown` is called once no Revoke can come between: it
  // returns that certificate's serial where it still counts. One that was not issued here is not renewed: it would
  // outlive its own end, and what its authority revokes. Errors: likewise (kPermissionDenied: not issued here), and its
  // own.
  absl::StatusOr<NodeCertificate> Renew(const std::string& node, const std::string& certificate_request,
                                        const std::function<absl::StatusOr<std::string>()>& shown);
  // The authorities that the coordinator trusts, with their revocation lists, PEM. Errors: kFailedPrecondition.
  absl::StatusOr<std::string> ReadAuthorities() const;

  // Certificates of the node that were made until now count no more, whoever made them, nor do tokens for it alone; a
  // token for any node does not let it in again. Errors: kInvalidArgument, kResourceExhausted, the store's.
  absl::StatusOr<RevokeNodeResponse> Revoke(const std::string& node);
  // Checks that a node's certificate is not revoked. Never waits for the store. Errors: kUnauthenticated.
  absl::Status CheckNotRevoked(const std::string& node, const Certificate& certificate) const;

 private:
  absl::StatusOr<StoredJoinToken> FindToken(const std::string& text, absl::Time now);
  // True where the token has let this very key in before.
  bool HasJoined(const std::string& node, const std::string& key, const std::string& token);
  absl::Status MayJoin(const StoredJoinToken& token, const std::string& node, const std::string& key, absl::Time now);
  // Checks that the certificate is one that the node was issued here, and has not been revoked.
  absl::Status CheckIssuedHere(const std::string& node, const std::string& serial) const;
  struct Asked {
    std::string node, token;  // `token`: the id of the one that was shown
    std::string serial;       // of the certificate that was shown
    const RequestedKey& key;
  };
  // Issues and stores a certificate, with `changes`. Others of the same key, whose answers got lost, are forgotten.
  absl::StatusOr<NodeCertificate> Issue(const Asked& asked, absl::Time now, NodeChanges changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_);
  // By serial.
  std::vector<std::string> Expired(absl::Time now) const;
  // Adds the certificates that `changes` replaces, those that have long expired, and checks that there is room for one
  // more: where there is none in all, those that expired first go at once.
  absl::Status MakeRoom(const Asked& asked, absl::Time now, NodeChanges& changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_);
  // The authorities, where the coordinator's own certificate is trusted by them. Errors: kFailedPrecondition,
  // kUnavailable.
  absl::StatusOr<std::string> TrustedAuthorities() const;
  // The pin of the one by which the coordinator's own certificate is trusted. Errors: likewise.
  absl::StatusOr<std::string> OwnPin(const std::string& authorities) const;
  // Writes the changes, and then lets them count.
  absl::Status Apply(const NodeChanges& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_);
  void Keep(const NodeChanges& changes);
  void Drop(const std::string& serial) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store& store_;
  const std::unique_ptr<CertificateIssuer> issuer_;
  Options options_;
  std::unique_ptr<Authorities> authorities_;  // null: none are issued; set by Load
  absl::Mutex change_;                        // held while the store is written; taken before mutex_
  LongExpired expired_tokens_ ABSL_GUARDED_BY(change_);
  LongExpired expired_certificates_ ABSL_GUARDED_BY(change_);
  mutable absl::Mutex mutex_;
  std::map<std::string, StoredJoinToken> tokens_ ABSL_GUARDED_BY(mutex_);          // by id
  std::map<std::string, StoredCertificate> certificates_ ABSL_GUARDED_BY(mutex_);  // by serial
  std::map<std::string, std::set<std::string>> of_node_ ABSL_GUARDED_BY(mutex_);   // serials
  std::set<std::pair<int64_t, std::string>> by_expiry_ ABSL_GUARDED_BY(mutex_);    // serials
  std::map<std::string, int64_t> revoked_ ABSL_GUARDED_BY(mutex_);                 // node: when
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_NODE_CERTIFICATES_H_
