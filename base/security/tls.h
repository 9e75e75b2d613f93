// TLS of the control plane: the flags of a program, its credentials for gRPC, and where plain text is allowed.
//
//   TlsFiles tls;
//   AddTlsOptions(app, tls);                              // --tls-ca, --tls-cert, --tls-key
//   ADJOIN_ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(listen, tls));
//   builder.AddListeningPort(listen.ToString(), credentials, &port);
//
//   ADJOIN_ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials(coordinator, tls, /*token_file=*/""));
//   grpc::CreateCustomChannel(coordinator.ToString(), credentials, arguments);
//
// All files are read again, at most once a second, when they change: a renewed certificate needs no restart.
// Connections that are open go on with what they began with; ServerWatch ends calls on one whose server was revoked.
#ifndef ADJOIN_BASE_SECURITY_TLS_H_
#define ADJOIN_BASE_SECURITY_TLS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/security/server_watch.h"

namespace adjoin {

// PEM files; all empty: no TLS.
struct TlsFiles {
  std::string ca;    // certificates of the authorities that signed the other side's
  std::string cert;  // one's own certificate, followed by intermediate ones
  std::string key;   // its private key, without a passphrase

  bool Given() const { return !ca.empty() || !cert.empty() || !key.empty(); }
};

void AddTlsOptions(CLI::App& app, TlsFiles& files);
// --token-file, of a user's program.
void AddTokenOption(CLI::App& app, std::string& token_file);

// Encrypts and asks for the client's certificate, but leaves judging it to the service (coordinator/services/access.h),
// which can say what is wrong with it. Without `files`: plain text, where `listen` is loopback. `flag` is how messages
// call it. Errors: kInvalidArgument (plain text elsewhere; files missing among the flags), kNotFound,
// kPermissionDenied, kUnauthenticated (a certificate that every client would refuse).
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const Endpoint& listen,
                                                                               const TlsFiles& files,
                                                                               const std::string& flag = "--listen");

// Checks that the other side is `coordinator`'s host, by our authorities. `files` may be without certificate and key
// where there is a `token_file`: its first line goes with every RPC, over TLS only. Errors: as above; a coordinator
// whose certificate is refused makes RPCs fail with kUnavailable, and WhyRefused finds the reason in the message.
// Sets `check`, where given, to what judges the server again that these credentials have let in last: whether it is
// revoked since, or its authority is trusted no more (server_watch.h); empty for plain text.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const Endpoint& coordinator,
                                                                                 const TlsFiles& files,
                                                                                 const std::string& token_file,
                                                                                 ServerCheck* check = nullptr);

// Returns why the server was refused here (its certificate, plain text), from the message of a failed RPC; "" where it
// was not.
std::string WhyRefused(const std::string& message);

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_TLS_H_
