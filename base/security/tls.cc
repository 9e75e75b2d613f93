#include "base/security/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/security/certificate.h"
#include "base/security/make_certs.h"
#include "base/security/server_verifier.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned kPollSeconds = 1;

// The token goes only over a channel that encrypts: gRPC refuses such credentials on any other.
class TokenFromFile : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenFromFile(std::string file) : file_(std::move(file)) {}
  const char* GetType() const override { return "adjoin-token"; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    std::string token;
    std::ifstream stream(file_);
    if (!std::getline(stream, token)) {
      return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, absl::StrCat("--token-file ", file_, " cannot be read"));
    }
    metadata->emplace("authorization", absl::StrCat("Bearer ", absl::StripAsciiWhitespace(token)));
    return grpc::Status::OK;
  }

 private:
  const std::string file_;
};

absl::Status CheckTokenFile(const std::string& file) {
  std::ifstream stream(file);
  std::string token;
  if (!std::getline(stream, token) || absl::StripAsciiWhitespace(token).empty()) {
    return absl::NotFoundError(absl::StrCat("--token-file ", file, ": no token can be read from it"));
  }
  for (char c : absl::StripAsciiWhitespace(token)) {
    if (!absl::ascii_isgraph(c)) {
      return absl::InvalidArgumentError(absl::StrCat("--token-file ", file, ": its first line is no token"));
    }
  }
  struct stat info;
  if (stat(file.c_str(), &info) == 0 && (info.st_mode & 007) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("every user of this machine may read ", file, ": chmod 600 it"));
  }
  return absl::OkStatus();
}

absl::Status NeedsTls(const std::string& flag, const Endpoint& endpoint, const std::string& kind) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", endpoint.ToString(),
                   " is not on loopback, so it needs mutual TLS: give --tls-ca, --tls-cert and --tls-key; ",
                   MakeCertsProgram(), " DIR ", kind, " makes the files (docs/security.md)"));
}

// All three, or for a client with a token the first alone; and each of them what it should be.
absl::StatusOr<std::unique_ptr<Authorities>> OpenFiles(const TlsFiles& files, CertificatePurpose purpose, bool token) {
  const bool pair = !files.cert.empty() && !files.key.empty();
  if (files.ca.empty() || files.cert.empty() != files.key.empty() || (!pair && !token)) {
    return absl::InvalidArgumentError(
        purpose == CertificatePurpose::kServer
            ? "TLS needs all of --tls-ca, --tls-cert and --tls-key"
            : "TLS needs --tls-ca, and --tls-cert with --tls-key, or --token-file in their place");
  }
  absl::StatusOr<std::unique_ptr<Authorities>> authorities = Authorities::Open(files.ca);
  if (!authorities.ok()) {
    return absl::Status(authorities.status().code(),
                        absl::StrCat("--tls-ca: ", std::string(authorities.status().message())));
  }
  if (!pair) return authorities;
  absl::Status key = CheckKey(files.cert, files.key);
  if (!key.ok())
    return absl::Status(key.code(), absl::StrCat("--tls-cert and --tls-key: ", std::string(key.message())));
  std::ifstream stream(files.cert, std::ios::binary);
  const std::string pem((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  absl::Status own = (*authorities)->Check(pem, pem, purpose, absl::Now()).status();
  if (!own.ok()) {
    return absl::Status(own.code(), absl::StrCat("--tls-cert ", files.cert, ": ", std::string(own.message())));
  }
  return authorities;
}

}  // namespace

void AddTlsOptions(CLI::App& app, TlsFiles& files) {
  app.add_option("--tls-ca", files.ca, "PEM file with the authorities that the other side's certificate may be from")
      ->type_name("FILE");
  app.add_option("--tls-cert", files.cert, "PEM file with one's own certificate")->type_name("FILE");
  app.add_option("--tls-key", files.key, "PEM file with its private key")->type_name("FILE");
}

void AddTokenOption(CLI::App& app, std::string& token_file) {
  app.add_option("--token-file", token_file, "File with a token in its first line, in place of a certificate")
      ->type_name("FILE");
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const Endpoint& listen,
                                                                               const TlsFiles& files,
                                                                               const std::string& flag) {
  if (!files.Given()) {
    if (!listen.IsLoopback()) return NeedsTls(flag, listen, "--server HOST");
    return grpc::InsecureServerCredentials();
  }
  ADJOIN_RETURN_IF_ERROR(OpenFiles(files, CertificatePurpose::kServer, /*token=*/false).status());
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, kPollSeconds));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const Endpoint& coordinator,
                                                                                 const TlsFiles& files,
                                                                                 const std::string& token_file,
                                                                                 ServerCheck* check) {
  if (check != nullptr) *check = nullptr;
  if (!files.Given()) {
    if (!coordinator.IsLoopback()) return NeedsTls("--coordinator", coordinator, "--client ROLE NAME");
    if (token_file.empty()) return grpc::InsecureChannelCredentials();
    return absl::InvalidArgumentError("--token-file is sent over TLS only: give --tls-ca");
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Authorities> authorities,
                          OpenFiles(files, CertificatePurpose::kClient, !token_file.empty()));
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (files.cert.empty()) {
    options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(files.ca, kPollSeconds));
  } else {
    options.set_certificate_provider(
        std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, files.ca, kPollSeconds));
    options.watch_identity_key_cert_pairs();
  }
  options.watch_root_certs();
  options.set_verify_server_certs(false);  // ServerVerifier does
  options.set_check_call_host(false);
  const auto trust = std::make_shared<ServerTrust>(std::move(authorities), coordinator.host);
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<ServerVerifier>(trust));
  if (!token_file.empty()) ADJOIN_RETURN_IF_ERROR(CheckTokenFile(token_file));
  if (check != nullptr) *check = [trust](Deadline::Clock::time_point since) { return trust->CheckAgain(since); };
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::experimental::TlsCredentials(options);
  if (token_file.empty()) return channel;
  return grpc::CompositeChannelCredentials(
      channel, grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenFromFile>(token_file)));
}

std::string WhyRefused(const std::string& message) {
  if (const size_t at = message.find(kServerRefused); at != std::string::npos) return message.substr(at);
  // OpenSSL's errors for an answer in plain text.
  if (absl::StrContains(message, "wrong version number")) {
    return "the coordinator does not speak TLS: where it is on loopback and speaks plain text, leave out the --tls "
           "flags";
  }
  return "";
}

}  // namespace adjoin
