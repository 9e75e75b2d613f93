#include "worker/daemon/joined_node.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/logging.h"
#include "base/new_file.h"
#include "base/security/authority_pin.h"
#include "base/security/certificate.h"
#include "base/security/certificate_issuer.h"
#include "base/security/certificate_request.h"
#include "base/security/first_contact.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_status.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr std::chrono::seconds kCallTimeout{20};
constexpr std::chrono::milliseconds kLookForStop{100};
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(60);
constexpr absl::Duration kLook = absl::Seconds(30);          // clocks may be set
constexpr absl::Duration kAfterRefusal = absl::Minutes(10);  // what was wrong may have been mended
constexpr size_t kMostPemBytes = size_t{1} << 20;

std::string ReadText(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

// Its owner alone may read the file; it is in a folder that only they may enter. What was written is there also after a
// loss of power.
absl::Status WriteDurably(const std::string& path, const std::string& text) {
  ADJOIN_ASSIGN_OR_RETURN(NewFile file, NewFile::Begin(path, NewFile::Over::kRegularFile));
  if (chmod(file.partial().c_str(), 0600) != 0) {
    return absl::UnavailableError(absl::StrCat(path, " cannot be kept from other users"));
  }
  ADJOIN_RETURN_IF_ERROR(file.Write(text));
  return file.Finish();
}

absl::StatusOr<JoinToken> ReadToken(const std::string& file) {
  JoinToken token;
  std::ifstream stream(file);
  if (!std::getline(stream, token.text)) {
    return absl::NotFoundError(absl::StrCat("--join ", file, ": no token can be read from it"));
  }
  token.text = std::string(absl::StripAsciiWhitespace(token.text));
  const std::vector<std::string> parts = absl::StrSplit(token.text, '_');
  bool right = parts.size() == 4 && parts[0] == "adjjoin" && parts[3].size() == 64 && token.text.size() <= 256;
  for (size_t i = 1; right && i < parts.size(); ++i) {
    right = std::all_of(parts[i].begin(), parts[i].end(), absl::ascii_isxdigit);
  }
  if (!right) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--join ", file,
        ": its first line is no token to join with: one begins with adjjoin_, and `adjoin token join` ", "makes it"));
  }
  struct stat info;
  if (stat(file.c_str(), &info) == 0 && (info.st_mode & 007) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("every user of this machine may read ", file, ": chmod 600 it"));
  }
  token.id = parts[1];
  token.pin = parts[3];
  return token;
}

template <typename Request, typename Response>
using AsyncMethod = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (WorkerLink::Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// A call of its own connection, broken off soon after `stops` returns true. Errors: the coordinator's; kUnauthenticated
// where it is not trusted; kCancelled.
template <typename Request, typename Response>
absl::Status Call(const Endpoint& coordinator, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                  AsyncMethod<Request, Response> method, Request request, const std::function<bool()>& stops,
                  Response* response) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto stub = WorkerLink::NewStub(grpc::CreateCustomChannel(coordinator.ToString(), credentials, arguments));
  *request.mutable_header() = MakeHeader();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  grpc::CompletionQueue queue;
  const auto call = ((*stub).*method)(&context, request, &queue);
  grpc::Status status;
  call->Finish(response, &status, nullptr);
  bool stopped = false, done = false;
  for (void* tag = nullptr; queue.AsyncNext(&tag, &done, std::chrono::system_clock::now() + kLookForStop) ==
                            grpc::CompletionQueue::TIMEOUT;) {
    if (stopped || !stops()) continue;
    stopped = true;
    context.TryCancel();
  }
  if (stopped && !status.ok()) return absl::CancelledError("told to stop");
  if (const std::string why = WhyRefused(status.error_message()); !status.ok() && !IsAnswer(status) && !why.empty()) {
    return absl::UnauthenticatedError(why);
  }
  ADJOIN_RETURN_IF_ERROR(FromGrpc(status));
  return CheckProtocol(response->header(), "the coordinator", "this worker");
}

bool IsOf(const Certificate& certificate, const std::string& worker) {
  const absl::StatusOr<PeerName> name = NameOf(certificate);
  return name.ok() && name->role == "worker" && name->name == worker;
}

// True where the same try may succeed later.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         absl::IsCancelled(status);
}

TlsFiles FilesOf(const JoinedNode::Options& options) {
  TlsFiles files;
  files.ca = options.authorities_file.empty() ? options.folder + "/ca.pem" : options.authorities_file;
  files.cert = files.key = options.folder + "/node.pem";
  return files;
}

}  // namespace

JoinedNode::JoinedNode(Options options) : options_(std::move(options)), files_(FilesOf(options_)) {}

JoinedNode::~JoinedNode() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (renewer_.joinable()) renewer_.join();
}

absl::StatusOr<std::unique_ptr<JoinedNode>> JoinedNode::Join(Options options, const std::function<bool()>& stops) {
  ADJOIN_RETURN_IF_ERROR(MakeFolders(options.folder));
  if (chmod(options.folder.c_str(), 0700) != 0) {
    return absl::UnavailableError(absl::StrCat(options.folder, " cannot be kept from other users"));
  }
  std::unique_ptr<JoinedNode> node(new JoinedNode(std::move(options)));
  node->stops_ = stops;
  node->FinishInstall();
  absl::Duration pause = kFirstPause;
  while (true) {
    const absl::Status status = node->Prepare();
    if (status.ok()) break;
    if (node->CheckPair(node->files_.cert, node->files_.ca).ok()) {
      LogWarning(absl::StrCat("keeps its certificate, since it cannot join with the new token: ",
                              std::string(status.message())));
      break;
    }
    if (!MayPass(status)) return status;
    if (!stops()) LogWarning(absl::StrCat("cannot join yet: ", std::string(status.message())));
    for (const Deadline next = Deadline::After(pause); !next.Expired();
         absl::SleepFor(absl::FromChrono(kLookForStop))) {
      if (stops()) return absl::CancelledError("told to stop before it had joined");
    }
    pause = std::min(2 * pause, kLongestPause);
  }
  node->stops_ = [joined = node.get()] {
    absl::MutexLock lock(&joined->mutex_);
    return joined->stopping_;
  };
  node->renewer_ = std::thread([joined = node.get()] { joined->RenewUntilStopped(); });
  return node;
}

absl::Status JoinedNode::Prepare() {
  if (NeedsToken() || HasNewToken()) return JoinOnce();
  absl::Status usable = RepairAuthorities();
  if (usable.ok()) usable = CheckPair(files_.cert, files_.ca);
  if (usable.ok()) return usable;
  // The authorities are others than those that it was issued by.
  const absl::Status joined = JoinOnce();
  if (joined.ok()) return joined;
  return absl::Status(joined.code(),
                      absl::StrCat("the certificate in ", files_.cert, " is of no use: ", std::string(usable.message()),
                                   "; and it cannot join anew: ", std::string(joined.message())));
}

// A pair that is damaged, or whose name was another one's, is as none.
bool JoinedNode::NeedsToken() const {
  if (!CheckKey(files_.cert, files_.cert).ok()) return true;
  const absl::StatusOr<Certificate> own = ReadCertificate(ReadText(files_.cert));
  return !own.ok() || absl::Now() >= own->not_after || !IsOf(*own, options_.name);
}

// A node that was revoked joins with a token that is made for it afterwards.
bool JoinedNode::HasNewToken() {
  const FileStamp stamp = FileStamp::Of(options_.token_file);
  const absl::StatusOr<JoinToken> token = ReadToken(options_.token_file);
  if (token.ok() || stamp == FileStamp()) {
    unusable_ = FileStamp();
  } else if (!(stamp == unusable_)) {
    unusable_ = stamp;
    LogWarning(absl::StrCat("a token to join with is not looked at: ", std::string(token.status().message())));
  }
  return token.ok() && token->id != ReadText(File("token-id")) && (token->text != refused_ || refused_until_.Expired());
}

absl::Status JoinedNode::CheckPair(const std::string& pair, const std::string& authorities_file) const {
  ADJOIN_RETURN_IF_ERROR(CheckKey(pair, pair));
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<Authorities> authorities, Authorities::Open(authorities_file));
  const std::string pem = ReadText(pair);
  ADJOIN_ASSIGN_OR_RETURN(const Certificate own,
                          authorities->Check(pem, pem, CertificatePurpose::kClient, absl::Now()));
  if (IsOf(own, options_.name)) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("certificate \"", own.subject, "\" is not one of the worker ", options_.name));
}

absl::StatusOr<KeyAndRequest> JoinedNode::KeptKey(const std::string& file) {
  absl::StatusOr<KeyAndRequest> own = MakeRequest(ReadText(file));
  if (own.ok()) return own;
  ADJOIN_ASSIGN_OR_RETURN(own, MakeKeyAndRequest());
  ADJOIN_RETURN_IF_ERROR(WriteDurably(file, own->key_pem));
  return own;
}

absl::StatusOr<std::string> JoinedNode::FetchAuthority(const std::string& pin) {
  ReadAuthoritiesResponse response;
  ADJOIN_RETURN_IF_ERROR(Call(options_.coordinator, CredentialsForAnyServer(), &WorkerLink::Stub::AsyncReadAuthorities,
                              ReadAuthoritiesRequest(), stops_, &response));
  const absl::StatusOr<std::string> pinned =
      response.authorities().size() > kMostPemBytes
          ? absl::UnauthenticatedError("it sends too many authorities")
          : FindPinned(response.authorities(), absl::AsciiStrToLower(pin), absl::Now());
  if (!pinned.ok()) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the coordinator at ", options_.coordinator.ToString(),
        " is not the one that made the token: ", std::string(pinned.status().message()), "; the token was not sent"));
  }
  // What it has revoked, as it was known here, still counts. Other authorities do not: the token names this one.
  const absl::StatusOr<std::string> revoked = ListsOf(*pinned, files_.ca);
  if (!revoked.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(revoked.status().message()),
        "; put the coordinator's file of --tls-ca in its place, or remove it, where nothing has been revoked"));
  }
  const std::string file = File("joining-ca.pem");
  ADJOIN_RETURN_IF_ERROR(WriteDurably(file, *pinned + *revoked));
  return file;
}

absl::Status JoinedNode::RepairAuthorities() {
  const absl::Status broken = Authorities::Open(files_.ca).status();
  if (broken.ok() || !options_.authorities_file.empty()) return broken;
  const absl::StatusOr<JoinToken> token = ReadToken(options_.token_file);
  if (!token.ok()) return broken;
  ADJOIN_ASSIGN_OR_RETURN(const std::string fetched, FetchAuthority(token->pin));
  ADJOIN_RETURN_IF_ERROR(CheckPair(files_.cert, fetched));
  LogWarning(absl::StrCat("the authorities are fetched anew: ", std::string(broken.message())));
  return ReplaceFile(fetched, files_.ca);
}

absl::Status JoinedNode::JoinOnce() {
  ADJOIN_ASSIGN_OR_RETURN(const JoinToken token, ReadToken(options_.token_file));
  const absl::Status status = JoinWith(token);
  if (!status.ok() && !MayPass(status)) {
    refused_ = token.text;
    refused_until_ = Deadline::After(kAfterRefusal);
  }
  return status;
}

absl::Status JoinedNode::JoinWith(const JoinToken& token) {
  std::string trusted = files_.ca;
  if (options_.authorities_file.empty()) {
    ADJOIN_ASSIGN_OR_RETURN(trusted, FetchAuthority(token.pin));
  }
  // The key of a join whose answer got lost is used again: the token then counts once. One whose certificate has come
  // is that of an earlier token.
  const std::string key_file = File("joining.key");
  if (ReadText(File("token-id")) != token.id && CheckKey(files_.cert, key_file).ok()) remove(key_file.c_str());
  ADJOIN_ASSIGN_OR_RETURN(const KeyAndRequest own, KeptKey(key_file));
  ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                          CredentialsWithoutCertificate(options_.coordinator, trusted));
  JoinNodeRequest request;
  request.set_token(token.text);
  request.set_name(options_.name);
  request.set_certificate_request(own.request_der);
  JoinNodeResponse response;
  ADJOIN_RETURN_IF_ERROR(
      Call(options_.coordinator, credentials, &WorkerLink::Stub::AsyncJoinNode, std::move(request), stops_, &response));
  ADJOIN_RETURN_IF_ERROR(Install(own.key_pem, response.issued(), trusted));
  // A start that finds no id takes the token for a new one, and joins again with the key that is still there.
  ADJOIN_RETURN_IF_ERROR(WriteFileAtomically(File("token-id"), token.id));
  remove(key_file.c_str());
  LogInfo(absl::StrCat("joined the coordinator at ", options_.coordinator.ToString(), " as ", options_.name));
  return absl::OkStatus();
}

absl::Status JoinedNode::Renew() {
  ADJOIN_RETURN_IF_ERROR(RepairAuthorities());
  ADJOIN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                          MakeChannelCredentials(options_.coordinator, files_, /*token_file=*/""));
  const std::string key_file = File("renewing.key");
  if (CheckKey(files_.cert, key_file).ok()) remove(key_file.c_str());  // its certificate has come
  ADJOIN_ASSIGN_OR_RETURN(const KeyAndRequest own, KeptKey(key_file));
  RenewCertificateRequest request;
  request.set_certificate_request(own.request_der);
  RenewCertificateResponse response;
  ADJOIN_RETURN_IF_ERROR(Call(options_.coordinator, credentials, &WorkerLink::Stub::AsyncRenewCertificate,
                              std::move(request), stops_, &response));
  ADJOIN_RETURN_IF_ERROR(Install(own.key_pem, response.issued(), files_.ca));
  remove(key_file.c_str());
  LogInfo("the certificate is renewed");
  return absl::OkStatus();
}

absl::Status JoinedNode::Install(const std::string& key_pem, const NodeCertificate& issued,
                                 const std::string& trusted) {
  const std::string next = File("next.pem"), next_ca = File("next-ca.pem");
  const bool takes_authorities = options_.authorities_file.empty();
  if (issued.certificates().size() > kMostPemBytes || issued.authorities().size() > kMostPemBytes) {
    return absl::InternalError("the coordinator sent a certificate that is too long");
  }
  ADJOIN_RETURN_IF_ERROR(WriteDurably(next, key_pem + issued.certificates()));
  if (const absl::Status fits = CheckKey(next, next); !fits.ok()) {
    return absl::InternalError(
        absl::StrCat("the coordinator sent a certificate that is of no use: ", std::string(fits.message())));
  }
  if (takes_authorities) {
    // Authorities that know none of the ones trusted here may be a mistake, after which nobody could tell us of it.
    const std::string known = ReadText(trusted);
    const bool shares = SharesAuthority(known, issued.authorities());
    if (!shares) {
      LogWarning(absl::StrCat("the authorities that the coordinator sent are not taken: none of them is one in ",
                              trusted, ", which stay; where they are right, let this node join with a new token"));
    }
    ADJOIN_RETURN_IF_ERROR(WriteDurably(next_ca, shares ? issued.authorities() : known));
  }
  if (const absl::Status usable = CheckPair(next, takes_authorities ? next_ca : files_.ca); !usable.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the coordinator issued what cannot be used, and what is there stays: ", std::string(usable.message()),
        takes_authorities ? "" : absl::StrCat("; --tls-ca ", files_.ca, " needs the issuing authority, too")));
  }
  if (takes_authorities) ADJOIN_RETURN_IF_ERROR(ReplaceFile(next_ca, files_.ca));
  return ReplaceFile(next, files_.cert);
}

void JoinedNode::FinishInstall() {
  if (CheckPair(files_.cert, files_.ca).ok() || !CheckPair(File("next.pem"), files_.ca).ok()) return;
  const absl::Status status = ReplaceFile(File("next.pem"), files_.cert);
  if (!status.ok()) LogWarning(std::string(status.message()));
}

absl::Duration JoinedNode::UntilDue() const {
  const absl::StatusOr<Validity> valid = ValidityOf(ReadText(files_.cert));
  if (!valid.ok()) return absl::ZeroDuration();
  const absl::Time issued = valid->not_before + kClockTolerance;
  return issued + (valid->not_after - issued) * 2 / 3 - absl::Now();
}

void JoinedNode::RenewUntilStopped() {
  absl::Duration pause = kFirstPause;
  absl::Duration wait = absl::ZeroDuration();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; };
      if (changed_.Wait(mutex_, Deadline::After(wait), stopping)) return;
    }
    bool joins = NeedsToken() || HasNewToken();
    if (const absl::Duration due = UntilDue(); !joins && due > absl::ZeroDuration()) {
      wait = std::min(due, kLook);
      continue;
    }
    absl::Status status = joins ? JoinOnce() : Renew();
    if (stops_()) return;
    if (!status.ok() && joins && !NeedsToken() && UntilDue() <= absl::ZeroDuration()) {
      // What it has must not end because of a token that cannot be used yet.
      LogWarning(absl::StrCat("it cannot join with its new token yet: ", std::string(status.message())));
      joins = false;
      status = Renew();
    }
    wait = status.ok() ? kFirstPause : pause;
    pause = status.ok() ? kFirstPause : std::min(2 * pause, kLongestPause);
    if (status.ok() || stops_()) continue;  // told to stop while it renewed after a join
    LogWarning(absl::StrCat(joins ? "it cannot join with its token yet: " : "the certificate cannot be renewed yet: ",
                            std::string(status.message())));
  }
}

}  // namespace adjoin
