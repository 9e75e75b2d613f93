#include "coordinator/decisions/idempotency_keys.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/sha.h>

#include <algorithm>
#include <iterator>

namespace adjoin {
namespace {

constexpr absl::Duration kBetweenLooksAtKeys = absl::Minutes(1);
// Beyond a limit so many go at once, as a share of it: most submissions then find nothing to drop.
constexpr size_t kShare = 100;

}  // namespace

std::string SpecHash(const JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // maps in one order
    spec.SerializeToCodedStream(&coded);
  }
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

const IdempotencyKeys::Use* IdempotencyKeys::Find(const std::string& owner, const std::string& key) const {
  auto of_owner = owners_.find(owner);
  if (of_owner == owners_.end()) return nullptr;
  auto use = of_owner->second.uses.find(key);
  return use == of_owner->second.uses.end() ? nullptr : &use->second;
}

bool IdempotencyKeys::HasJob(uint64_t job) const {
  return std::any_of(owners_.begin(), owners_.end(),
                     [job](const auto& each) { return each.second.by_job.count(job) > 0; });
}

void IdempotencyKeys::Add(const std::string& owner, const std::string& key, Use use) {
  Erase(owner, key, Find(owner, key) == nullptr ? 0 : Find(owner, key)->job);
  OfOwner& of_owner = owners_[owner];
  auto added = of_owner.uses.emplace(key, std::move(use)).first;
  of_owner.by_job[added->second.job] = &added->first;
  ++size_;
}

void IdempotencyKeys::Erase(const std::string& owner, const std::string& key, uint64_t job) {
  auto of_owner = owners_.find(owner);
  if (of_owner == owners_.end()) return;
  auto use = of_owner->second.uses.find(key);
  if (use == of_owner->second.uses.end() || use->second.job != job) return;
  of_owner->second.by_job.erase(job);
  of_owner->second.uses.erase(use);
  --size_;
  if (of_owner->second.uses.empty()) owners_.erase(of_owner);
}

void IdempotencyKeys::DropOldest(const std::string& name, OfOwner& owner, size_t most, absl::Time used_before,
                                 std::vector<StoredKey>* dropped) {
  for (auto it = owner.by_job.begin(); it != owner.by_job.end() && most > 0;) {
    auto use = owner.uses.find(*it->second);
    if (use->second.used >= used_before) return;
    if (known_(it->first)) {
      ++it;
      continue;
    }
    dropped->push_back({.owner = name, .key = use->first, .job = 0, .spec_hash = "", .unix_ms = 0});
    it = owner.by_job.erase(it);
    owner.uses.erase(use);
    --size_;
    --most;
  }
}

std::vector<StoredKey> IdempotencyKeys::Drop(absl::Time now) {
  std::vector<StoredKey> dropped;
  const bool look = now >= next_look_;
  if (look) next_look_ = now + kBetweenLooksAtKeys;
  for (auto& [name, owner] : owners_) {
    if (look) DropOldest(name, owner, owner.uses.size(), now - limits_.age, &dropped);
    if (owner.uses.size() <= limits_.per_owner) continue;
    DropOldest(name, owner, owner.uses.size() - limits_.per_owner + limits_.per_owner / kShare, absl::InfiniteFuture(),
               &dropped);
  }
  while (size_ > limits_.total) {
    auto largest = std::max_element(owners_.begin(), owners_.end(), [](const auto& a, const auto& b) {
      return a.second.uses.size() < b.second.uses.size();
    });
    const size_t before = size_;
    DropOldest(largest->first, largest->second, 1 + limits_.total / kShare, absl::InfiniteFuture(), &dropped);
    if (size_ == before) break;  // the jobs of all of them are known
  }
  for (auto it = owners_.begin(); it != owners_.end();)
    it = it->second.uses.empty() ? owners_.erase(it) : std::next(it);
  return dropped;
}

}  // namespace adjoin
