// NodeAttempts: what of the node each rank gets for itself, a GPU and a place.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/daemon/attempts.h"

namespace adjoin {

void NodeAttempts::OfferGpus(std::vector<Gpu> gpus) {
  absl::MutexLock lock(&mutex_);
  gpus_ = std::move(gpus);
}

std::vector<std::string> NodeAttempts::FreeGpus() {
  std::set<std::string> taken;
  for (const auto& [key, attempt] : attempts_) {
    for (const auto& [number, rank] : attempt.ranks) {
      if (!attempt.cleared) taken.insert(rank.report.gpu_uuid());
    }
  }
  std::vector<std::string> free;
  for (const Gpu& gpu : gpus_) {
    if (taken.count(gpu.uuid()) == 0) free.push_back(gpu.uuid());
  }
  return free;
}

std::string NodeAttempts::GiveGpus(Attempt& attempt) {
  if (attempt.start->gpus() == 0) return "";
  if (attempt.start->gpus() > 1) {
    return absl::StrCat("each rank needs ", attempt.start->gpus(), " GPUs, and this release gives it one at most");
  }
  const std::vector<std::string> free = FreeGpus();
  if (free.size() < attempt.ranks.size()) {
    return absl::StrCat("needs ", attempt.ranks.size(), attempt.ranks.size() == 1 ? " GPU, " : " GPUs, ", free.size(),
                        " of ", gpus_.size(), " free here");
  }
  auto next = free.begin();
  for (auto& [number, rank] : attempt.ranks) rank.report.set_gpu_uuid(*next++);
  return "";
}

void NodeAttempts::GivePlaces(Attempt& attempt) {
  std::vector<bool> taken(settings_.places.size());
  std::map<int, int> ranks;  // by node of memory
  for (const auto& [key, other] : attempts_) {
    for (const auto& [number, rank] : other.ranks) {
      if (other.cleared || rank.place < 0) continue;
      taken[rank.place] = true;
      ++ranks[settings_.places[rank.place].memory];
    }
  }
  // Those of the node with the fewest ranks, so that a small job has the memory of all nodes.
  std::vector<int> given;
  while (given.size() < attempt.ranks.size()) {
    int best = -1;
    for (int place = 0; place < static_cast<int>(taken.size()); ++place) {
      if (taken[place]) continue;
      if (best < 0 || ranks[settings_.places[place].memory] < ranks[settings_.places[best].memory]) best = place;
    }
    if (best < 0) break;
    taken[best] = true;
    ++ranks[settings_.places[best].memory];
    given.push_back(best);
  }
  std::sort(given.begin(), given.end());  // neighbours beside each other
  size_t next = 0;
  for (auto& [number, rank] : attempt.ranks) {
    if (next == given.size()) return;
    rank.place = given[next++];
    rank.report.set_binding(settings_.places[rank.place].text);
  }
}

}  // namespace adjoin
