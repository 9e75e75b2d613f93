// The idempotency keys that users gave their jobs. A key outlives its job: the same key with the same spec is that job,
// also when the job has ended and is forgotten.
//
//   IdempotencyKeys keys({}, [&](uint64_t job) { return jobs.Find(job) != nullptr; });
//   keys.Add("alice", "nightly", {.job = 3, .spec_hash = SpecHash(spec), .used = now});
//   keys.Find("alice", "nightly")->job;                        // 3
//   for (StoredKey& row : keys.Drop(now)) ...                  // rows to erase: too old, or too many
//
// A key is kept as long as its job is known. After that the oldest go: those beyond `age`, beyond `per_owner` of one
// owner, and beyond `total`, where the owner with the most gives. All times are by one AgeClock (base/age_clock.h): a
// key that goes too early lets its job run twice. Not thread-safe.
#ifndef ADJOIN_COORDINATOR_DECISIONS_IDEMPOTENCY_KEYS_H_
#define ADJOIN_COORDINATOR_DECISIONS_IDEMPOTENCY_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/store/store.h"
#include "proto/job.pb.h"

namespace adjoin {

// SHA-256 of a spec: two specs that are equal have one hash.
std::string SpecHash(const JobSpec& spec);

class IdempotencyKeys {
 public:
  struct Limits {
    size_t per_owner = 100000;
    size_t total = 300000;
    absl::Duration age = absl::Hours(24 * 30);
  };
  struct Use {
    uint64_t job = 0;  // number
    std::string spec_hash;
    absl::Time used;
  };

  // `known` tells whether a job is known still.
  IdempotencyKeys(Limits limits, std::function<bool(uint64_t job)> known) : limits_(limits), known_(std::move(known)) {}

  // Null where the owner has no such key.
  const Use* Find(const std::string& owner, const std::string& key) const;
  // True where some key is that of this job.
  bool HasJob(uint64_t job) const;
  void Add(const std::string& owner, const std::string& key, Use use);
  // Undoes the Add of a job that was refused.
  void Erase(const std::string& owner, const std::string& key, uint64_t job);
  // Drops what is beyond the limits, and returns the rows that erase it. `now` never goes back.
  std::vector<StoredKey> Drop(absl::Time now);
  size_t size() const { return size_; }

 private:
  struct OfOwner {
    std::map<std::string, Use> uses;                // by key
    std::map<uint64_t, const std::string*> by_job;  // in the order of use
  };
  // Drops up to `most` keys of one owner that were used before `used_before` and whose jobs are forgotten, oldest
  // first.
  void DropOldest(const std::string& name, OfOwner& owner, size_t most, absl::Time used_before,
                  std::vector<StoredKey>* dropped);

  const Limits limits_;
  const std::function<bool(uint64_t)> known_;
  std::map<std::string, OfOwner> owners_;
  size_t size_ = 0;
  absl::Time next_look_ = absl::InfinitePast();  // for keys that are too old
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_DECISIONS_IDEMPOTENCY_KEYS_H_
