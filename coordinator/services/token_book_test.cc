#include "coordinator/services/token_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/services/long_expired.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MemoryStore : public TokenStore {
 public:
  absl::Status Put(const TokenRecord& record) override {
    if (meanwhile) meanwhile();
    if (full) return absl::UnavailableError("disk full");
    records[record.summary.id()] = record;
    return absl::OkStatus();
  }
  absl::Status Erase(const std::string& id) override {
    if (meanwhile) meanwhile();
    if (full) return absl::UnavailableError("disk full");
    records.erase(id);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<TokenRecord>> All() override {
    std::vector<TokenRecord> all;
    for (const auto& [id, record] : records) all.push_back(record);
    return all;
  }
  std::map<std::string, TokenRecord> records;
  bool full = false;
  std::function<void()> meanwhile;  // called while a change is written
};

const absl::Time kNow = absl::FromUnixSeconds(1800000000);

TEST(TokenBook, ATokenNamesItsUserUntilItExpires) {
  MemoryStore store;
  TokenBook book(store);
  auto made = book.Create("alice", "user", 2, kNow);
  ASSERT_TRUE(made.ok()) << made.status();
  auto found = book.Check(made->token(), kNow + absl::Hours(2) - absl::Seconds(1));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->user(), "alice");
  EXPECT_EQ(found->role(), "user");
  absl::Status expired = book.Check(made->token(), kNow + absl::Hours(2)).status();
  EXPECT_EQ(expired.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(expired.message()),
              AllOf(HasSubstr("of alice expired on 2027-01-15 10:00:00 UTC"), HasSubstr("adjoin token create")));
}

TEST(TokenBook, OnlyHashesAreStoredAndAnotherBookLoadsThem) {
  MemoryStore store;
  TokenBook book(store);
  auto made = book.Create("alice", "admin", 1, kNow);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(store.records.size(), 1);
  const TokenRecord& record = store.records.begin()->second;
  EXPECT_EQ(record.hash.size(), 32);
  const std::string secret =
      made->token().substr(made->token().find('_', 4) + 1);  // after "adj_" and the id; it may have a _
  EXPECT_GE(secret.size(), 43);                              // 256 bits
  EXPECT_THAT(absl::StrCat(record.hash, record.summary.SerializeAsString()), Not(HasSubstr(secret)));

  TokenBook again(store);
  EXPECT_FALSE(again.Check(made->token(), kNow).ok());
  ASSERT_EQ(again.Load(), absl::OkStatus());
  EXPECT_TRUE(again.Check(made->token(), kNow).ok());
}

TEST(TokenBook, RefusesTextThatIsNotExactlyTheToken) {
  MemoryStore store;
  TokenBook book(store);
  const std::string token = book.Create("alice", "user", 1, kNow)->token();
  for (size_t at = 0; at < token.size(); ++at) {
    std::string wrong = token;
    wrong[at] = wrong[at] == 'x' ? 'y' : 'x';
    EXPECT_EQ(book.Check(wrong, kNow).status().code(), absl::StatusCode::kUnauthenticated) << wrong;
  }
  for (const std::string& wrong :
       {std::string(), token + "x", token.substr(0, token.size() - 1), std::string(1 << 20, 'a')}) {
    EXPECT_EQ(book.Check(wrong, kNow).status().code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST(TokenBook, RevokedTokensAreUnknown) {
  MemoryStore store;
  TokenBook book(store);
  auto first = book.Create("alice", "user", 1, kNow), second = book.Create("bob", "viewer", 1, kNow + absl::Seconds(1));
  ASSERT_EQ(book.List().size(), 2);
  EXPECT_EQ(book.List()[0].user(), "alice");
  EXPECT_EQ(book.Revoke(first->summary().id()), absl::OkStatus());
  EXPECT_THAT(std::string(book.Check(first->token(), kNow).status().message()), HasSubstr("revoked"));
  EXPECT_TRUE(book.Check(second->token(), kNow).ok());
  EXPECT_EQ(book.Revoke(first->summary().id()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.records.size(), 1);
}

TEST(TokenBook, AChangeThatTheStoreRefusesDoesNotHappen) {
  MemoryStore store;
  TokenBook book(store);
  auto made = book.Create("alice", "user", 1, kNow);
  store.full = true;
  EXPECT_EQ(book.Create("bob", "user", 1, kNow).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(book.List().size(), 1);
  EXPECT_EQ(book.Revoke(made->summary().id()).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(book.Check(made->token(), kNow).ok());
}

TEST(TokenBook, NobodyWaitsForTheStoreButWhoChangesSomething) {
  MemoryStore store;
  TokenBook book(store);
  const auto alice = book.Create("alice", "user", 1, kNow);
  ASSERT_TRUE(alice.ok()) << alice.status();
  int checks = 0;
  store.meanwhile = [&] {
    checks += book.Check(alice->token(), kNow).ok();
    EXPECT_FALSE(book.List().empty());
  };
  const auto bob = book.Create("bob", "user", 1, kNow);
  ASSERT_TRUE(bob.ok()) << bob.status();
  EXPECT_EQ(checks, 1);
  EXPECT_TRUE(book.Revoke(bob->summary().id()).ok());
  EXPECT_EQ(checks, 2);
}

TEST(TokenBook, AsManyTokensAsThereMayBeFitInOneAnswer) {
  MemoryStore store;
  for (size_t i = 0; i < TokenBook::kMostTokens; ++i) {
    TokenRecord record;
    record.summary.set_id(absl::StrFormat("%012d", i));
    record.summary.set_user(std::string(200, 'u'));
    record.summary.set_role("viewer");
    record.summary.set_created_unix_ms(absl::ToUnixMillis(kNow));
    record.summary.set_expires_unix_ms(absl::ToUnixMillis(kNow + absl::Hours(1)));
    store.records[record.summary.id()] = record;
  }
  TokenBook book(store);
  ASSERT_TRUE(book.Load().ok());
  EXPECT_EQ(book.Create("alice", "user", 1, kNow).status().code(), absl::StatusCode::kResourceExhausted);
  ListTokensResponse all;
  for (TokenSummary& token : book.List()) *all.add_token() = std::move(token);
  EXPECT_EQ(all.token_size(), TokenBook::kMostTokens);
  // Half is left for the tokens with which nodes join.
  EXPECT_LT(all.ByteSizeLong(), kMaxSentBytes / 2);
}

TEST(TokenBook, ForgetsTokensThatExpiredLongAgo) {
  MemoryStore store;
  absl::Duration steady;
  TokenBook book(store, [&] { return steady; });
  ASSERT_TRUE(book.Create("alice", "user", 1, kNow).ok());
  ASSERT_TRUE(book.Create("bob", "user", 1, kNow + absl::Hours(24 * 20)).ok());
  EXPECT_EQ(book.List().size(), 2);
  ASSERT_TRUE(book.Create("carol", "user", 1, kNow + absl::Hours(24 * 40)).ok());
  steady += LongExpired::kTime;
  ASSERT_TRUE(book.Create("dave", "user", 1, kNow + absl::Hours(24 * 41)).ok());
  EXPECT_EQ(book.List().size(), 3);
  EXPECT_EQ(store.records.size(), 3);
}

TEST(TokenBook, AClockThatWasAheadForAnHourForgetsNoToken) {
  MemoryStore store;
  absl::Duration steady;
  TokenBook book(store, [&] { return steady; });
  const auto alice = book.Create("alice", "user", 24, kNow);
  ASSERT_TRUE(alice.ok()) << alice.status();
  const absl::Time ahead = kNow + absl::Hours(24 * 365 * 20);
  EXPECT_FALSE(book.Check(alice->token(), ahead).ok());
  ASSERT_TRUE(book.Create("admin", "admin", 1, ahead).ok());
  steady += absl::Hours(1);
  ASSERT_TRUE(book.Create("admin", "admin", 1, ahead + absl::Hours(1)).ok());
  EXPECT_TRUE(book.Check(alice->token(), kNow + absl::Hours(1)).ok());
  TokenBook again(store);
  ASSERT_EQ(again.Load(), absl::OkStatus());
  EXPECT_TRUE(again.Check(alice->token(), kNow + absl::Hours(1)).ok());
}

TEST(TokenBook, TokensThatExpiredMakeRoomAtOnceWhereThereIsNone) {
  MemoryStore store;
  for (size_t i = 0; i < TokenBook::kMostTokens; ++i) {
    TokenRecord record;
    record.summary.set_id(absl::StrFormat("%012d", i));
    record.summary.set_expires_unix_ms(absl::ToUnixMillis(kNow + absl::Hours(i < 10 ? 1 : 24 * 100)));
    store.records[record.summary.id()] = record;
  }
  TokenBook book(store);
  ASSERT_TRUE(book.Load().ok());
  ASSERT_TRUE(book.Create("alice", "user", 1, kNow + absl::Hours(24 * 40)).ok());
  EXPECT_EQ(book.List().size(), TokenBook::kMostTokens - 9);
}

TEST(TokenBook, RefusesAUserRoleOrTimeThatNoTokenMayHave) {
  MemoryStore store;
  TokenBook book(store);
  struct Wrong {
    std::string user, role;
    double hours;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const Wrong& wrong :
       {Wrong{"", "user", 1}, Wrong{"a/b", "user", 1}, Wrong{std::string("a\0b", 3), "user", 1},
        Wrong{std::string(201, 'a'), "user", 1}, Wrong{"a", "worker", 1}, Wrong{"a", "", 1}, Wrong{"a", "user", 0},
        Wrong{"a", "user", -1}, Wrong{"a", "user", 1e6}, Wrong{"a", "user", nan}, Wrong{"a", "user", inf}}) {
    EXPECT_EQ(book.Create(wrong.user, wrong.role, wrong.hours, kNow).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong.user << " " << wrong.role << " " << wrong.hours;
  }
}

}  // namespace
}  // namespace adjoin
