// The certificate of a daemon that joined with a token: got, kept below the state folder, renewed in time.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<JoinedNode> node, JoinedNode::Join(options, stops));
//   MakeChannelCredentials(coordinator, node->files(), /*token_file=*/"");
//
// The folder has node.pem, the private key with its certificate in one file, so that both change in one step, and
// ca.pem, the authorities. Each certificate has a new key, which only this machine ever has. gRPC reads the files again
// when they change; a stream that an older certificate opened ends with it, and the daemon connects again.
#ifndef ADJOIN_WORKER_DAEMON_JOINED_NODE_H_
#define ADJOIN_WORKER_DAEMON_JOINED_NODE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/endpoint.h"
#include "base/monotonic_condition.h"
#include "base/security/tls.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class JoinedNode {
 public:
  struct Options {
    Endpoint coordinator;
    std::string name;              // the daemon's
    std::string token_file;        // absolute; its first line is a token of `adjoin token join`
    std::string authorities_file;  // absolute; empty: the authority that the token names
    std::string folder;            // absolute; made where it is missing
  };
  // Takes the certificate that is there, or joins. While the coordinator does not answer, it is asked again until
  // `stops` returns true. Errors: the coordinator's; kUnauthenticated (it is not the token's); kNotFound,
  // kInvalidArgument, kPermissionDenied (the token's file); kUnavailable (the folder); kCancelled.
  static absl::StatusOr<std::unique_ptr<JoinedNode>> Join(Options options, const std::function<bool()>& stops);
  // Ends the renewals.
  ~JoinedNode();

  const TlsFiles& files() const { return files_; }

 private:
  explicit JoinedNode(Options options);
  bool HasCertificate() const;
  // The file of the join token has another one than the last that this node joined with.
  bool HasNewToken() const;
  // The file `pair` has a key and a certificate of this node that its authorities vouch for.
  bool IsUsable(const std::string& pair) const;
  std::string TokenIdFile() const { return options_.folder + "/token-id"; }
  absl::Status JoinOnce();
  absl::Status Renew();
  // The file with the authorities that the token names, which any coordinator may claim to have.
  absl::Status FetchAuthority(const std::string& pin);
  absl::Status Install(const std::string& key_pem, const NodeCertificate& issued);
  void RenewUntilStopped();
  absl::Duration UntilDue() const;

  const Options options_;
  const TlsFiles files_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread renewer_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_JOINED_NODE_H_
