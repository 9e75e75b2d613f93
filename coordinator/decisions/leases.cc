#include "coordinator/decisions/leases.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adjoin {

void Leases::Release(JobRecord& job, const std::string& worker, const std::string& event) {
  job.attempt.holders.erase(worker);
  workers_.Release(worker, job.number);
  outbox_.AttemptChanged(job);
  if (!event.empty()) outbox_.Event(job, "released_node", event);
  queue_.Wake();
}

void Leases::Orphan(JobRecord& job, const std::string& worker, absl::Duration last_heard) {
  Holder& holder = job.attempt.holders.at(worker);
  if (holder.lease_end.has_value()) return;
  holder.lease_end = last_heard + job.attempt.lease + options_.lease_margin;
  orphans_.insert(job.number);
  outbox_.Event(job, "waits_for_lease",
                absl::StrCat("another node has the name ", worker, " now; ranks may live on the one before"));
}

bool Leases::Tick() {
  const bool orphans = TickOrphans();
  return TickLostWorkers() || orphans;
}

bool Leases::TickOrphans() {
  bool changed = false;
  const std::set<uint64_t> orphans = orphans_;
  for (uint64_t number : orphans) {
    JobRecord* job = jobs_.Find(number);
    std::vector<std::string> over;
    bool waits = false;
    if (job != nullptr) {
      for (const auto& [name, holder] : job->attempt.holders) {
        if (!holder.lease_end.has_value()) continue;
        options_.Now() >= *holder.lease_end ? over.push_back(name) : void(waits = true);
      }
    }
    for (const std::string& name : over) {
      Release(
          *job, name,
          absl::StrCat("the lease of the node that was ", name, " ran out: no process of the attempt is left there"));
    }
    if (!waits) orphans_.erase(number);
    changed = changed || !over.empty();
  }
  return changed;
}

// A lost worker counts as having processes until its lease, which it got with its last heartbeat, is over.
bool Leases::TickLostWorkers() {
  bool changed = false;
  for (const std::string& name : workers_.Lost()) {
    const WorkerRecord& worker = workers_.At(name);
    const std::map<uint64_t, Held> held = worker.held;
    for (const auto& [number, what] : held) {
      JobRecord* job = jobs_.Find(number);
      if (job == nullptr || options_.Now() < worker.last_heard + job->attempt.lease + options_.lease_margin) continue;
      Release(*job, name, absl::StrCat("the lease of ", name, " ran out: no process of the attempt is left there"));
      changed = true;
    }
  }
  return changed;
}

}  // namespace adjoin
