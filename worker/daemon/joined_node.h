// The certificate of a daemon that joined with a token: got, kept below the state folder, renewed in time.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<JoinedNode> node, JoinedNode::Join(options, stops));
//   MakeChannelCredentials(coordinator, node->files(), /*token_file=*/"");
//
// The folder has node.pem, the private key with its certificate in one file, so that both change in one step, and
// ca.pem, the authorities. What comes is next.pem and next-ca.pem until each is found to be of use with the other, so
// that what works is never replaced by what does not. Each certificate has a new key, which only this machine ever has;
// it is kept until its certificate has come, so that tries whose answers got lost count once. gRPC reads the files
// again when they change; a stream that an older certificate opened ends with it, and the daemon connects again.
//
// A token that the file has anew is joined with, also while the node has a certificate; it is looked for with each
// start and twice a minute.
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
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/monotonic_condition.h"
#include "base/security/certificate.h"
#include "base/security/certificate_request.h"
#include "base/security/tls.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct JoinToken {
  std::string text, id, pin;
};

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
  // `stops` returns true, which is asked ten times a second and breaks off a call that is under way. Errors: the
  // coordinator's; kUnauthenticated (it is not the token's); kNotFound, kInvalidArgument, kPermissionDenied (the
  // token's file); kFailedPrecondition (what was revoked cannot be read); kUnavailable (the folder); kCancelled.
  static absl::StatusOr<std::unique_ptr<JoinedNode>> Join(Options options, const std::function<bool()>& stops);
  // Ends the renewals, also a call that is under way.
  ~JoinedNode();

  const TlsFiles& files() const { return files_; }

 private:
  explicit JoinedNode(Options options);
  // There is no certificate of this node, or it has expired: only a token gets another one. One that the authorities'
  // file does not vouch for is none of these, as that file may be damaged.
  bool NeedsToken() const;
  // The file of the join token has another one than the last that this node joined with, or was refused with of late.
  // Logs why a file that is there has none that counts, once for each change of the file.
  bool HasNewToken();
  // Checks that the file `pair` has a key and a certificate of this node that the authorities in a file vouch for.
  absl::Status CheckPair(const std::string& pair, const std::string& authorities_file) const;
  std::string File(const std::string& name) const { return options_.folder + "/" + name; }
  // Returns the key in a file, and its request; a new one where the file has none.
  absl::StatusOr<KeyAndRequest> KeptKey(const std::string& file);
  // Joins where that is needed; else sees to it that the authorities can be read.
  absl::Status Prepare();
  absl::Status JoinOnce();
  absl::Status JoinWith(const JoinToken& token);
  absl::Status Renew();
  // Returns the file with the authority that the token names, which any coordinator may claim to have.
  absl::StatusOr<std::string> FetchAuthority(const std::string& pin);
  // Fetches the authorities anew where their file is damaged and the token tells which are right.
  absl::Status RepairAuthorities();
  // `trusted`: the file with the authorities by which the coordinator was trusted that issued it.
  absl::Status Install(const std::string& key_pem, const NodeCertificate& issued, const std::string& trusted);
  // Finishes an Install that was cut off between its two renames.
  void FinishInstall();
  void RenewUntilStopped();
  absl::Duration UntilDue() const;

  const Options options_;
  std::function<bool()> stops_;  // ends calls; used by Join, and then by the thread
  // The last token that was, and when it is tried again; used by Join, and then by the thread.
  std::string refused_;
  Deadline refused_until_ = Deadline::After(absl::ZeroDuration());
  FileStamp unusable_;  // of the token's file when the log told why it is of no use; likewise
  const TlsFiles files_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread renewer_;
};

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_JOINED_NODE_H_
