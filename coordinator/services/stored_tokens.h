// The token book's records in the coordinator's store.
//
//   StoredTokens stored(*store);
//   TokenBook tokens(stored);
#ifndef ADJOIN_COORDINATOR_SERVICES_STORED_TOKENS_H_
#define ADJOIN_COORDINATOR_SERVICES_STORED_TOKENS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "coordinator/services/token_book.h"
#include "coordinator/store/records.pb.h"
#include "coordinator/store/store.h"

namespace adjoin {

class StoredTokens final : public TokenStore {
 public:
  // `store` outlives it.
  explicit StoredTokens(Store& store) : store_(store) {}

  absl::Status Put(const TokenRecord& record) override {
    StoredToken row;
    *row.mutable_summary() = record.summary;
    row.set_sha256(record.hash);
    return store_.PutToken(row);
  }
  absl::Status Erase(const std::string& id) override { return store_.EraseToken(id); }
  absl::StatusOr<std::vector<TokenRecord>> All() override {
    ADJOIN_ASSIGN_OR_RETURN(std::vector<StoredToken> rows, store_.Tokens());
    std::vector<TokenRecord> records;
    for (StoredToken& row : rows)
      records.push_back({std::move(*row.mutable_summary()), std::move(*row.mutable_sha256())});
    return records;
  }

 private:
  Store& store_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_SERVICES_STORED_TOKENS_H_
