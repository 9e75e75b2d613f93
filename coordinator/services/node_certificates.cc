#include "coordinator/services/node_certificates.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "base/security/authority_pin.h"
#include "base/security/make_certs.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr char kPrefix[] = "adjjoin";
constexpr size_t kIdBytes = 6;
constexpr size_t kSecretBytes = 32;
constexpr size_t kMostAuthoritiesBytes = size_t{1} << 20;

std::string Hash(absl::string_view text) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

absl::Time Expiry(const StoredJoinToken& token) { return absl::FromUnixMillis(token.summary().expires_unix_ms()); }

std::string TimeText(int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

absl::Status IssuesNone() {
  return absl::FailedPreconditionError(absl::StrCat(
      "this coordinator issues no certificates: start it with --issue-cert and --issue-key, or make them with ",
      kMakeCerts));
}

absl::Status CheckName(const std::string& node) {
  if (IsPeerName(node)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", PrintableText(node, kMaxNameBytes),
                                                 "' is no name of a node: up to 200 letters, digits, '-', '_', '.' and "
                                                 "'@'"));
}

absl::StatusOr<std::string> ReadPem(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (!stream || text.empty()) return absl::UnavailableError(absl::StrCat(file, " cannot be read"));
  return text;
}

}  // namespace

NodeCertificates::NodeCertificates(Store& store, std::unique_ptr<CertificateIssuer> issuer, Options options)
    : store_(store),
      issuer_(std::move(issuer)),
      options_(std::move(options)),
      expired_tokens_(options_.steady_clock),
      expired_certificates_(options_.steady_clock) {
  if (options_.clock == nullptr) options_.clock = [] { return absl::Now(); };
}

absl::Status NodeCertificates::Load() {
  if (issuer_ != nullptr) {
    ADJOIN_ASSIGN_OR_RETURN(authorities_, Authorities::Open(options_.authorities_file));
  }
  ADJOIN_ASSIGN_OR_RETURN(StoredNodes rows, store_.Nodes());
  Keep({.tokens = std::move(rows.tokens),
        .certificates = std::move(rows.certificates),
        .revoked = std::move(rows.revoked),
        .erased_tokens = {},
        .erased_certificates = {}});
  return absl::OkStatus();
}

void NodeCertificates::Drop(const std::string& serial) {
  const auto it = certificates_.find(serial);
  if (it == certificates_.end()) return;
  by_expiry_.erase({it->second.expires_unix_ms(), serial});
  const auto node = of_node_.find(it->second.node());
  node->second.erase(serial);
  if (node->second.empty()) of_node_.erase(node);
  certificates_.erase(it);
}

void NodeCertificates::Keep(const NodeChanges& changes) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : changes.erased_tokens) tokens_.erase(id);
  for (const std::string& serial : changes.erased_certificates) Drop(serial);
  for (const StoredJoinToken& token : changes.tokens) tokens_[token.summary().id()] = token;
  for (const StoredCertificate& certificate : changes.certificates) {
    certificates_[certificate.serial()] = certificate;
    of_node_[certificate.node()].insert(certificate.serial());
    by_expiry_.emplace(certificate.expires_unix_ms(), certificate.serial());
  }
  for (const StoredRevokedNode& node : changes.revoked) revoked_[node.node()] = node.revoked_unix_ms();
}

absl::Status NodeCertificates::Apply(const NodeChanges& changes) {
  ADJOIN_RETURN_IF_ERROR(store_.ApplyNodes(changes));
  Keep(changes);
  return absl::OkStatus();
}

absl::StatusOr<std::string> NodeCertificates::ReadAuthorities() const {
  if (authorities_ == nullptr) return IssuesNone();
  std::string pem = authorities_->Pem();
  if (pem.size() <= kMostAuthoritiesBytes) return pem;
  return absl::FailedPreconditionError(absl::StrCat("the authorities and lists in ", options_.authorities_file,
                                                    " have ", pem.size(), " bytes: nodes are sent ",
                                                    kMostAuthoritiesBytes, " at most"));
}

absl::StatusOr<std::string> NodeCertificates::OwnPin(const std::string& authorities) const {
  ADJOIN_ASSIGN_OR_RETURN(const std::string own, ReadPem(options_.certificate_file));
  absl::StatusOr<std::string> pin = PinOfAuthority(own, authorities);
  if (pin.ok()) return pin;
  return absl::FailedPreconditionError(
      "nodes could not trust the coordinator: its --tls-cert is signed by none of the authorities in its --tls-ca, "
      "or has expired");
}

absl::StatusOr<std::string> NodeCertificates::TrustedAuthorities() const {
  ADJOIN_ASSIGN_OR_RETURN(std::string authorities, ReadAuthorities());
  ADJOIN_RETURN_IF_ERROR(OwnPin(authorities).status());
  return authorities;
}

// ---------------------------------------------------------------------------------------------------------------------
// Tokens

absl::StatusOr<CreateJoinTokenResponse> NodeCertificates::CreateToken(const std::string& node, uint32_t uses,
                                                                      double valid_hours) {
  if (issuer_ == nullptr) return IssuesNone();
  if (!node.empty()) ADJOIN_RETURN_IF_ERROR(CheckName(node));
  if (uses < 1 || uses > kMostUses) {
    return absl::InvalidArgumentError(
        absl::StrCat("a join token for ", uses, " uses: it can have from 1 to ", kMostUses));
  }
  if (!(valid_hours > 0 && valid_hours <= kLongestHours)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a join token valid for ", valid_hours, " hours: it must be above 0 and at most ", kLongestHours));
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::string authorities, ReadAuthorities());
  ADJOIN_ASSIGN_OR_RETURN(const std::string pin, OwnPin(authorities));
  unsigned char random[kIdBytes + kSecretBytes];
  if (RAND_bytes(random, sizeof(random)) != 1) return absl::UnavailableError("no random numbers for a token");
  const absl::string_view bytes(reinterpret_cast<const char*>(random), sizeof(random));
  const std::string id = absl::BytesToHexString(bytes.substr(0, kIdBytes));
  const std::string secret = absl::BytesToHexString(bytes.substr(kIdBytes));
  const absl::Time now = options_.clock();
  NodeChanges changes;
  StoredJoinToken& token = changes.tokens.emplace_back();
  token.set_sha256(Hash(secret));
  TokenSummary& summary = *token.mutable_summary();
  summary.set_id(id);
  summary.set_user(node);
  summary.set_role("join");
  summary.set_created_unix_ms(absl::ToUnixMillis(now));
  summary.set_expires_unix_ms(absl::ToUnixMillis(now + absl::Hours(valid_hours)));
  summary.set_uses_left(uses);
  CreateJoinTokenResponse response;
  response.set_token(absl::StrCat(kPrefix, "_", id, "_", secret, "_", pin));
  *response.mutable_summary() = summary;

  absl::MutexLock lock(&change_);
  {
    absl::MutexLock look(&mutex_);
    std::set<std::string> expired;
    for (const auto& [known, row] : tokens_) {
      if (now >= Expiry(row)) expired.insert(known);
    }
    std::set<std::string> erased = expired_tokens_.Of(expired);
    if (tokens_.size() - erased.size() >= kMostTokens) erased = std::move(expired);
    changes.erased_tokens.assign(erased.begin(), erased.end());
    if (tokens_.size() - erased.size() >= kMostTokens) {
      return absl::ResourceExhaustedError(absl::StrCat("there are ", kMostTokens, " join tokens: revoke some first"));
    }
  }
  ADJOIN_RETURN_IF_ERROR(Apply(changes));
  return response;
}

std::vector<TokenSummary> NodeCertificates::Tokens() {
  absl::MutexLock lock(&mutex_);
  std::vector<TokenSummary> tokens;
  for (const auto& [id, token] : tokens_) tokens.push_back(token.summary());
  std::sort(tokens.begin(), tokens.end(), [](const TokenSummary& a, const TokenSummary& b) {
    return std::make_pair(a.created_unix_ms(), a.id()) < std::make_pair(b.created_unix_ms(), b.id());
  });
  return tokens;
}

absl::Status NodeCertificates::RevokeToken(const std::string& id) {
  absl::MutexLock lock(&change_);
  {
    absl::MutexLock look(&mutex_);
    if (tokens_.count(id) == 0) {
      return absl::NotFoundError(
          absl::StrCat("there is no token '", PrintableText(id, kMaxNameBytes), "'; `adjoin token list` shows them"));
    }
  }
  NodeChanges changes;
  changes.erased_tokens.push_back(id);
  return Apply(changes);
}

// The secret is compared in constant time. A guess costs one hash, and tells nothing of which ids there are.
absl::StatusOr<StoredJoinToken> NodeCertificates::FindToken(const std::string& text, absl::Time now) {
  const absl::Status unknown = absl::UnauthenticatedError(
      "the join token is not known here: it was revoked or has expired long ago, or another coordinator made it; an "
      "admin makes a new one with `adjoin token join`");
  if (text.size() > kMaxNameBytes) return unknown;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '_');
  if (parts.size() != 4 || parts[0] != kPrefix) return unknown;
  const std::string hash = Hash(parts[2]);
  absl::MutexLock lock(&mutex_);
  const auto it = tokens_.find(std::string(parts[1]));
  if (it == tokens_.end() || it->second.sha256().size() != hash.size() ||
      CRYPTO_memcmp(it->second.sha256().data(), hash.data(), hash.size()) != 0) {
    return unknown;
  }
  if (now >= Expiry(it->second)) {
    return absl::UnauthenticatedError(absl::StrCat("join token ", it->first, " expired on ",
                                                   TimeText(it->second.summary().expires_unix_ms()),
                                                   "; an admin makes a new one with `adjoin token join`"));
  }
  return it->second;
}

// ---------------------------------------------------------------------------------------------------------------------
// Certificates

bool NodeCertificates::HasJoined(const std::string& node, const std::string& key, const std::string& token) {
  const int64_t now = absl::ToUnixMillis(options_.clock());
  absl::MutexLock lock(&mutex_);
  const auto own = of_node_.find(node);
  if (own == of_node_.end()) return false;
  for (const std::string& serial : own->second) {
    const StoredCertificate& row = certificates_.at(serial);
    if (row.expires_unix_ms() <= now) continue;
    if (row.key_sha256() == key && row.join_token() == token) return true;
  }
  return false;
}

absl::Status NodeCertificates::MayJoin(const StoredJoinToken& token, const std::string& node, const std::string& key,
                                       absl::Time now) {
  const TokenSummary& summary = token.summary();
  if (!summary.user().empty() && summary.user() != node) {
    return absl::PermissionDeniedError(
        absl::StrCat("join token ", summary.id(), " is for node ", summary.user(), ", and not for ", node));
  }
  if (HasJoined(node, key, summary.id())) return absl::OkStatus();
  if (summary.uses_left() == 0) {
    return absl::UnauthenticatedError(
        absl::StrCat("join token ", summary.id(), " is used up; an admin makes a new one with `adjoin token join`"));
  }
  if (!summary.user().empty()) return absl::OkStatus();
  // A token that any node may use gives nobody the name of another.
  absl::MutexLock lock(&mutex_);
  if (revoked_.count(node) > 0) {
    return absl::PermissionDeniedError(absl::StrCat("node ", node,
                                                    " was revoked: it can join only with a token for it, ",
                                                    "which `adjoin token join --for ", node, "` makes"));
  }
  const auto own = of_node_.find(node);
  if (own == of_node_.end()) return absl::OkStatus();
  for (const std::string& serial : own->second) {
    const StoredCertificate& row = certificates_.at(serial);
    if (absl::ToUnixMillis(now) >= row.expires_unix_ms()) continue;
    return absl::PermissionDeniedError(absl::StrCat(
        "node ", node, " has a certificate until ", TimeText(row.expires_unix_ms()),
        ": join under another name, or with a token for it, which `adjoin token join --for ", node, "` makes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeCertificate> NodeCertificates::Join(const JoinNodeRequest& request) {
  if (issuer_ == nullptr) return IssuesNone();
  const absl::Time now = options_.clock();
  // First the token: who has none gets no further work done.
  ADJOIN_RETURN_IF_ERROR(FindToken(request.token(), now).status());
  ADJOIN_RETURN_IF_ERROR(CheckName(request.name()));
  ADJOIN_ASSIGN_OR_RETURN(const RequestedKey key, RequestedKey::Read(request.certificate_request()));
  absl::MutexLock lock(&change_);
  ADJOIN_ASSIGN_OR_RETURN(StoredJoinToken token, FindToken(request.token(), now));
  ADJOIN_RETURN_IF_ERROR(MayJoin(token, request.name(), key.sha256(), now));
  NodeChanges changes;
  const std::string id = token.summary().id();
  if (!HasJoined(request.name(), key.sha256(), id)) {
    token.mutable_summary()->set_uses_left(token.summary().uses_left() - 1);
    changes.tokens.push_back(std::move(token));
  }
  ADJOIN_ASSIGN_OR_RETURN(NodeCertificate issued, Issue({.node = request.name(), .token = id, .serial = "", .key = key},
                                                        now, std::move(changes)));
  LogInfo(absl::StrCat("node ", request.name(), " has joined with token ", id));
  return issued;
}

absl::Status NodeCertificates::CheckIssuedHere(const std::string& node, const std::string& serial) const {
  absl::MutexLock lock(&mutex_);
  const auto own = certificates_.find(serial);
  if (own != certificates_.end() && own->second.node() == node) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the certificate of node ", node, " with serial ", serial,
                   " is none that this coordinator has issued and still knows, so it is not renewed here: one of ",
                   kMakeCerts, " is renewed with ", kMakeCerts, ", and with a token of `adjoin token join --for ", node,
                   "` the node gets one of the coordinator's"));
}

absl::StatusOr<NodeCertificate> NodeCertificates::Renew(const std::string& node, const std::string& certificate_request,
                                                        const std::function<absl::StatusOr<std::string>()>& shown) {
  if (issuer_ == nullptr) return IssuesNone();
  ADJOIN_RETURN_IF_ERROR(CheckName(node));
  ADJOIN_ASSIGN_OR_RETURN(const RequestedKey key, RequestedKey::Read(certificate_request));
  absl::MutexLock lock(&change_);
  ADJOIN_ASSIGN_OR_RETURN(const std::string serial, shown());
  ADJOIN_RETURN_IF_ERROR(CheckIssuedHere(node, serial));
  return Issue({.node = node, .token = "", .serial = serial, .key = key}, options_.clock(), {});
}

std::vector<std::string> NodeCertificates::Expired(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> expired;
  for (auto it = by_expiry_.begin(); it != by_expiry_.end() && it->first <= absl::ToUnixMillis(now); ++it) {
    expired.push_back(it->second);
  }
  return expired;
}

absl::Status NodeCertificates::MakeRoom(const Asked& asked, absl::Time now, NodeChanges& changes) {
  std::set<std::string> erased;
  if (expired_certificates_.Due()) {
    const std::vector<std::string> expired = Expired(now);
    // Without mutex_, for which every call of a node waits: there may be many.
    erased = expired_certificates_.Of(std::set<std::string>(expired.begin(), expired.end()));
  }
  absl::MutexLock lock(&mutex_);
  size_t own = 0;
  if (const auto it = of_node_.find(asked.node); it != of_node_.end()) {
    for (const std::string& serial : it->second) {
      // The one that was shown is in use, whatever its key.
      const StoredCertificate& row = certificates_.at(serial);
      if (serial != asked.serial && row.key_sha256() == asked.key.sha256()) erased.insert(serial);
      if (erased.count(serial) == 0 && row.expires_unix_ms() > absl::ToUnixMillis(now)) ++own;
    }
  }
  if (own >= kMostOfOneNode) {
    return absl::ResourceExhaustedError(
        absl::StrCat("node ", asked.node, " has ", own,
                     " certificates that are valid, which is the limit: it gets another one when one of them expires, "
                     "or after `adjoin node revoke ",
                     asked.node, "` with a new token"));
  }
  if (certificates_.size() - erased.size() >= kMostCertificates) {
    for (auto it = by_expiry_.begin();
         it != by_expiry_.end() && it->first <= absl::ToUnixMillis(now) && erased.size() < LongExpired::kMostAtOnce;
         ++it) {
      erased.insert(it->second);
    }
  }
  if (certificates_.size() - erased.size() >= kMostCertificates) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMostCertificates, " certificates that are valid, which is the limit"));
  }
  changes.erased_certificates.insert(changes.erased_certificates.end(), erased.begin(), erased.end());
  return absl::OkStatus();
}

absl::StatusOr<NodeCertificate> NodeCertificates::Issue(const Asked& asked, absl::Time now, NodeChanges changes) {
  ADJOIN_RETURN_IF_ERROR(MakeRoom(asked, now, changes));
  ADJOIN_ASSIGN_OR_RETURN(IssuedCertificate made, issuer_->Issue(asked.key, asked.node, now, options_.lifetime));
  // What would be refused here, or makes the node refuse the coordinator, is not given out.
  const absl::Status trusted = authorities_->Check(made.pem, made.pem, CertificatePurpose::kClient, now).status();
  if (!trusted.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("the certificate of --issue-cert is not trusted by --tls-ca ",
                                                      options_.authorities_file, ": ", std::string(trusted.message()),
                                                      "; put the authority's certificate into that file"));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::string authorities, TrustedAuthorities());
  StoredCertificate& row = changes.certificates.emplace_back();
  row.set_serial(made.serial);
  row.set_node(asked.node);
  row.set_expires_unix_ms(absl::ToUnixMillis(made.not_after));
  row.set_key_sha256(asked.key.sha256());
  row.set_join_token(asked.token);
  ADJOIN_RETURN_IF_ERROR(Apply(changes));
  NodeCertificate issued;
  issued.set_certificates(std::move(made.pem));
  issued.set_authorities(std::move(authorities));
  return issued;
}

absl::StatusOr<RevokeNodeResponse> NodeCertificates::Revoke(const std::string& node) {
  ADJOIN_RETURN_IF_ERROR(CheckName(node));
  const int64_t now = absl::ToUnixMillis(options_.clock());
  RevokeNodeResponse response;
  NodeChanges changes;
  StoredRevokedNode& row = changes.revoked.emplace_back();
  row.set_node(node);
  row.set_revoked_unix_ms(now);
  absl::MutexLock lock(&change_);
  {
    absl::MutexLock look(&mutex_);
    // A clock that was set back lets nothing in again. One that is ahead makes this refuse for longer what was not
    // issued here: the node joins again with a token.
    if (const auto earlier = revoked_.find(node); earlier != revoked_.end()) {
      row.set_revoked_unix_ms(std::max(now, earlier->second));
    }
    if (revoked_.count(node) == 0 && revoked_.size() >= kMostRevokedNodes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "there are ", kMostRevokedNodes, " revoked nodes, which is the limit: make a new authority instead"));
    }
    if (const auto own = of_node_.find(node); own != of_node_.end()) {
      for (const std::string& serial : own->second) {
        if (certificates_.at(serial).expires_unix_ms() > now) response.set_certificates(response.certificates() + 1);
        changes.erased_certificates.push_back(serial);
      }
    }
    for (const auto& [id, token] : tokens_) {
      if (token.summary().user() == node) changes.erased_tokens.push_back(id);
    }
  }
  response.set_tokens(static_cast<uint32_t>(changes.erased_tokens.size()));
  ADJOIN_RETURN_IF_ERROR(Apply(changes));
  LogInfo(absl::StrCat("node ", node, " is revoked"));
  return response;
}

absl::Status NodeCertificates::CheckNotRevoked(const std::string& node, const Certificate& certificate) const {
  absl::MutexLock lock(&mutex_);
  const auto revoked = revoked_.find(node);
  if (revoked == revoked_.end()) return absl::OkStatus();
  // What the coordinator has issued to the node since then is in its table; what others made has a later beginning.
  const auto own = certificates_.find(certificate.serial);
  if (own != certificates_.end() && own->second.node() == node) return absl::OkStatus();
  if (absl::ToUnixMillis(certificate.not_before) > revoked->second) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("node ", node, " was revoked on ", TimeText(revoked->second), ", with the certificates that it had ",
                   "then; an admin lets it in again with `adjoin token join --for ", node, "`"));
}

}  // namespace adjoin
