#include "coordinator/services/token_book.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

// "adj_" ID "_" SECRET, so that a token that is found somewhere is recognised as one.
constexpr char kPrefix[] = "adj_";
constexpr size_t kIdBytes = 6;
constexpr size_t kSecretBytes = 32;
constexpr absl::Duration kKeptExpired = absl::Hours(24 * 31);

std::string Hash(absl::string_view token) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

// Returns the part that names the record; "" where the text does not have the form of a token.
std::string IdOf(absl::string_view token) {
  if (!absl::ConsumePrefix(&token, kPrefix) || token.size() <= 2 * kIdBytes || token[2 * kIdBytes] != '_') return "";
  return std::string(token.substr(0, 2 * kIdBytes));
}

absl::Time Expiry(const TokenSummary& summary) { return absl::FromUnixMillis(summary.expires_unix_ms()); }

absl::Status CheckRequest(const std::string& user, const std::string& role, double valid_hours) {
  bool right = !user.empty() && user.size() <= 200;
  for (char c : user) right = right && (absl::ascii_isalnum(c) || absl::StrContains("-_.@", absl::string_view(&c, 1)));
  if (!right) {
    return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(user.substr(0, 200)),
                                                   "' is no name of a user: letters, digits, '-', '_', '.' and '@'"));
  }
  if (role != "admin" && role != "user" && role != "viewer") {
    return absl::InvalidArgumentError(absl::StrCat("role '", absl::CHexEscape(role.substr(0, 200)),
                                                   "' is not one that a token can have: admin, user or viewer"));
  }
  if (valid_hours > 0 && valid_hours <= TokenBook::kLongestHours) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a token valid for ", valid_hours,
                                                 " hours: it must be above 0 and at most ", TokenBook::kLongestHours));
}

}  // namespace

absl::Status TokenBook::Load() {
  ADJOIN_ASSIGN_OR_RETURN(std::vector<TokenRecord> records, store_.All());
  absl::MutexLock lock(&mutex_);
  records_.clear();
  for (TokenRecord& record : records) {
    std::string id = record.summary.id();
    records_[id] = std::move(record);
  }
  return absl::OkStatus();
}

absl::StatusOr<CreateTokenResponse> TokenBook::Create(const std::string& user, const std::string& role,
                                                      double valid_hours, absl::Time now) {
  ADJOIN_RETURN_IF_ERROR(CheckRequest(user, role, valid_hours));
  unsigned char random[kIdBytes + kSecretBytes];
  if (RAND_bytes(random, sizeof(random)) != 1) return absl::UnavailableError("no random numbers for a token");
  const absl::string_view bytes(reinterpret_cast<const char*>(random), sizeof(random));
  const std::string id = absl::BytesToHexString(bytes.substr(0, kIdBytes));
  CreateTokenResponse response;
  response.set_token(absl::StrCat(kPrefix, id, "_", absl::WebSafeBase64Escape(bytes.substr(kIdBytes))));
  TokenRecord record;
  record.hash = Hash(response.token());
  record.summary.set_id(id);
  record.summary.set_user(user);
  record.summary.set_role(role);
  record.summary.set_created_unix_ms(absl::ToUnixMillis(now));
  record.summary.set_expires_unix_ms(absl::ToUnixMillis(now + absl::Hours(valid_hours)));
  *response.mutable_summary() = record.summary;

  absl::MutexLock change(&change_);
  ADJOIN_RETURN_IF_ERROR(ForgetExpired(now));
  if (const size_t count = Count(); count >= kMostTokens) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", count, " tokens: revoke some first"));
  }
  ADJOIN_RETURN_IF_ERROR(store_.Put(record));
  absl::MutexLock lock(&mutex_);
  records_[id] = std::move(record);
  return response;
}

size_t TokenBook::Count() {
  absl::MutexLock lock(&mutex_);
  return records_.size();
}

absl::Status TokenBook::ForgetExpired(absl::Time now) {
  std::set<std::string> expired;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, record] : records_) {
      if (now - Expiry(record.summary) > kKeptExpired) expired.insert(id);
    }
  }
  std::set<std::string> forgotten = long_expired_.Of(expired);
  if (Count() - forgotten.size() >= kMostTokens) forgotten = std::move(expired);
  for (const std::string& id : forgotten) ADJOIN_RETURN_IF_ERROR(Erase(id));
  return absl::OkStatus();
}

absl::Status TokenBook::Erase(const std::string& id) {
  ADJOIN_RETURN_IF_ERROR(store_.Erase(id));
  absl::MutexLock lock(&mutex_);
  records_.erase(id);
  return absl::OkStatus();
}

absl::StatusOr<TokenSummary> TokenBook::Check(absl::string_view token, absl::Time now) {
  const std::string id = IdOf(token);
  if (id.empty()) {
    return absl::UnauthenticatedError(
        "what was shown is not a token: one begins with adj_, and `adjoin token create` makes it");
  }
  absl::MutexLock lock(&mutex_);
  auto it = records_.find(id);
  const std::string hash = Hash(token);
  if (it == records_.end() || it->second.hash.size() != hash.size() ||
      CRYPTO_memcmp(it->second.hash.data(), hash.data(), hash.size()) != 0) {
    return absl::UnauthenticatedError(
        "the token is not known here: it was revoked, or another coordinator made it; an admin makes a new one with "
        "`adjoin token create`");
  }
  const TokenSummary& summary = it->second.summary;
  if (now >= Expiry(summary)) {
    return absl::UnauthenticatedError(
        absl::StrCat("token ", id, " of ", summary.user(), " expired on ",
                     absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", Expiry(summary), absl::UTCTimeZone()),
                     "; an admin makes a new one with `adjoin token create`"));
  }
  return summary;
}

std::vector<TokenSummary> TokenBook::List() {
  absl::MutexLock lock(&mutex_);
  std::vector<TokenSummary> tokens;
  for (const auto& [id, record] : records_) tokens.push_back(record.summary);
  std::sort(tokens.begin(), tokens.end(), [](const TokenSummary& a, const TokenSummary& b) {
    return std::make_pair(a.created_unix_ms(), a.id()) < std::make_pair(b.created_unix_ms(), b.id());
  });
  return tokens;
}

absl::Status TokenBook::Revoke(const std::string& id) {
  absl::MutexLock change(&change_);
  const bool known = [&] {
    absl::MutexLock lock(&mutex_);
    return records_.count(id) > 0;
  }();
  if (!known) {
    return absl::NotFoundError(
        absl::StrCat("there is no token '", absl::CHexEscape(id.substr(0, 200)), "'; `adjoin token list` shows them"));
  }
  return Erase(id);
}

}  // namespace adjoin
