// Bearer tokens, for users without a certificate: made, checked, listed, revoked. Only their hashes are kept.
//
//   TokenBook tokens(store);                               // ADJOIN_RETURN_IF_ERROR(tokens.Load());
//   ADJOIN_ASSIGN_OR_RETURN(CreateTokenResponse made, tokens.Create("alice", "user", 24, absl::Now()));
//   ADJOIN_ASSIGN_OR_RETURN(TokenSummary who, tokens.Check(made.token(), absl::Now()));      // "alice", "user"
#ifndef ADJOIN_COORDINATOR_SERVICES_TOKEN_BOOK_H_
#define ADJOIN_COORDINATOR_SERVICES_TOKEN_BOOK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/services/long_expired.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

struct TokenRecord {
  TokenSummary summary;
  std::string hash;  // SHA-256 of the whole token, 32 bytes
};

// Keeps the records when the coordinator ends. A change is kept once Put or Erase has returned.
class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual absl::Status Put(const TokenRecord& record) = 0;
  virtual absl::Status Erase(const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<TokenRecord>> All() = 0;
};

// Any thread.
class TokenBook {
 public:
  static constexpr double kLongestHours = 366 * 24;
  static constexpr size_t kMostTokens = 20000;  // so that all of them fit in one answer

  // `store` outlives the book. `steady_clock`: as LongExpired's.
  explicit TokenBook(TokenStore& store, std::function<absl::Duration()> steady_clock = nullptr)
      : store_(store), long_expired_(std::move(steady_clock)) {}
  // Takes the store's records. Errors: the store's.
  absl::Status Load();

  // The response has the token itself, which cannot be shown again. Tokens that expired more than a month ago are
  // forgotten (long_expired.h); at once where there is no room. Errors: kInvalidArgument (user, role, hours),
  // kResourceExhausted, the store's.
  absl::StatusOr<CreateTokenResponse> Create(const std::string& user, const std::string& role, double valid_hours,
                                             absl::Time now);
  // Returns the owner of the token. Errors: kUnauthenticated, which names the owner of an expired token and the time.
  absl::StatusOr<TokenSummary> Check(absl::string_view token, absl::Time now);
  // Oldest first.
  std::vector<TokenSummary> List();
  // Errors: kNotFound, the store's.
  absl::Status Revoke(const std::string& id);

 private:
  size_t Count();
  absl::Status ForgetExpired(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_);
  absl::Status Erase(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_);

  TokenStore& store_;
  absl::Mutex change_ ABSL_ACQUIRED_BEFORE(mutex_);  // a change is under way, and waits for the store
  LongExpired long_expired_ ABSL_GUARDED_BY(change_);
  absl::Mutex mutex_;                                                   // nobody who checks a token waits for the store
  std::map<std::string, TokenRecord> records_ ABSL_GUARDED_BY(mutex_);  // by id
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_TOKEN_BOOK_H_
