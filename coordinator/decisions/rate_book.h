// How fast the nodes are, as their daemons have measured. Nodes of one kind that share a table have it once.
//
//   book.Set("worker-1", hello.rates());
//   ReadRatesResponse response = book.All();
#ifndef ADJOIN_COORDINATOR_DECISIONS_RATE_BOOK_H_
#define ADJOIN_COORDINATOR_DECISIONS_RATE_BOOK_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"
#include "proto/rates.pb.h"

namespace adjoin {

class RateBook {
 public:
  // Kinds of nodes that are kept; more than that have no rates here.
  static constexpr size_t kMostKinds = 64;

  // In the place of what the worker had. Errors, after which the worker has none: kInvalidArgument (CheckRates),
  // kResourceExhausted (kMostKinds others are kept).
  absl::Status Set(const std::string& worker, const RateTable& rates);
  void Forget(const std::string& worker);
  // Forgets all other workers.
  void KeepOnly(const std::function<bool(const std::string& worker)>& is_kept);
  // The table that most workers have, which is never changed; null: none has any.
  std::shared_ptr<const RateTable> OfMost() const;
  // Each table with its workers, the kind that most have first; as many as a message holds. The header is not set.
  ReadRatesResponse All() const;

 private:
  struct Kind {
    std::shared_ptr<const RateTable> rates;
    std::set<std::string> workers;
  };
  std::map<std::string, Kind> kinds_;  // by the table's bytes
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_RATE_BOOK_H_
