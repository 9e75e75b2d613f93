#include "coordinator/decisions/worker_table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

bool HasLabels(const WorkerHello& hello, const Resources& wanted) {
  return std::all_of(wanted.node_label().begin(), wanted.node_label().end(), [&](const auto& label) {
    auto found = hello.label().find(label.first);
    return found != hello.label().end() && found->second == label.second;
  });
}

}  // namespace

int WorkerRecord::FreeSlots() const {
  int used = 0;
  for (const auto& [job, slots] : held) used += slots;
  return static_cast<int>(hello.slots()) - used;
}

const WorkerRecord* WorkerTable::Find(const std::string& name) const {
  auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

std::string WorkerTable::NameOf(ConnectionId connection) const {
  auto found = name_of_.find(connection);
  return found == name_of_.end() ? "" : found->second;
}

bool WorkerTable::IsHeard(const WorkerRecord& worker) const {
  return worker.connection != 0 && options_.Now() - worker.last_heard < options_.suspect_after;
}

bool WorkerTable::IsUsable(const WorkerRecord& worker) const {
  return IsHeard(worker) && !worker.dead && !worker.draining;
}

std::string WorkerTable::StateOf(const WorkerRecord& worker) const {
  if (worker.dead) return "lost";
  if (!IsHeard(worker)) return "suspect";
  return worker.draining ? "draining" : "ready";
}

std::vector<FreeSlots> WorkerTable::FreeFor(const Resources& wanted) const {
  std::vector<FreeSlots> free;
  for (const auto& [name, worker] : workers_) {
    if (!IsUsable(worker) || !HasLabels(worker.hello, wanted)) continue;
    if (const int slots = worker.FreeSlots(); slots > 0) free.push_back({name, slots, worker.hello.output_id()});
  }
  return free;
}

std::vector<FreeSlots> WorkerTable::AllFor(const Resources& wanted) const {
  std::vector<FreeSlots> all;
  for (const auto& [name, worker] : workers_) {
    if (!IsUsable(worker) || !HasLabels(worker.hello, wanted)) continue;
    all.push_back({name, static_cast<int>(worker.hello.slots()), worker.hello.output_id()});
  }
  return all;
}

absl::Status WorkerTable::CheckName(const WorkerHello& hello) const {
  if (hello.name().empty()) return absl::InvalidArgumentError("the worker gives no name");
  if (hello.slots() == 0) return absl::InvalidArgumentError(absl::StrCat(hello.name(), " offers no slots"));
  const WorkerRecord* known = Find(hello.name());
  if (known == nullptr || !IsHeard(*known) || known->hello.incarnation() == hello.incarnation())
    return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("a worker named ", hello.name(), " is connected already, from ",
                                               known->hello.address(), ": give this one another --name"));
}

void WorkerTable::Attach(ConnectionId connection, const WorkerHello& hello) {
  WorkerRecord& worker = workers_[hello.name()];
  const bool same = worker.hello.incarnation() == hello.incarnation();
  const std::string output_id = hello.output_id().empty() && same ? worker.hello.output_id() : hello.output_id();
  worker.hello = hello;
  worker.hello.clear_attempt();
  worker.hello.set_output_id(output_id);
  worker.connection = connection;
  worker.last_heard = options_.Now();
  worker.attached = true;
  worker.dead = false;
  worker.draining = hello.draining();
  name_of_[connection] = hello.name();
}

void WorkerTable::Detach(ConnectionId connection) {
  auto found = name_of_.find(connection);
  if (found == name_of_.end()) return;
  workers_.at(found->second).connection = 0;
  name_of_.erase(found);
}

void WorkerTable::CloseConnection(const std::string& name) {
  WorkerRecord& worker = workers_.at(name);
  if (worker.connection == 0) return;
  Action close;
  close.to = worker.connection;
  close.close = close.urgent = true;
  outbox_.Send(std::move(close));
  Detach(worker.connection);
}

void WorkerTable::Lose(const std::string& name) {
  CloseConnection(name);
  workers_.at(name).dead = true;
}

bool WorkerTable::ForgetLost() {
  const size_t before = workers_.size();
  for (auto it = workers_.begin(); it != workers_.end();) {
    it = it->second.dead && it->second.held.empty() ? workers_.erase(it) : std::next(it);
  }
  return workers_.size() < before;
}

void WorkerTable::Expect(const std::string& name, const Holder& holder) {
  auto [worker, is_new] = workers_.try_emplace(name);
  if (!is_new) return;
  worker->second.last_heard = options_.Now();  // it may have been acknowledged a moment before this coordinator started
  worker->second.hello.set_name(name);
  worker->second.hello.set_incarnation(holder.incarnation);
  worker->second.hello.set_node_id(holder.node_id);
}

void WorkerTable::Send(const std::string& name, uint64_t epoch, CoordinatorMessage message, bool urgent,
                       uint64_t plan_of) {
  const WorkerRecord* worker = Find(name);
  if (worker == nullptr || worker->connection == 0) return;
  Action action;
  action.to = worker->connection;
  action.urgent = urgent;
  action.plan_of = plan_of;
  *message.mutable_header() = MakeHeader(epoch);
  action.message = std::move(message);
  outbox_.Send(std::move(action));
}

void WorkerTable::Release(const std::string& name, uint64_t job) {
  auto worker = workers_.find(name);
  if (worker != workers_.end()) worker->second.held.erase(job);
}

void WorkerTable::ForgivePause(absl::Duration pause) {
  for (auto& [name, worker] : workers_) {
    if (!worker.dead) worker.last_heard = std::min(options_.Now(), worker.last_heard + pause);
  }
}

std::vector<std::pair<std::string, absl::Duration>> WorkerTable::Silent() const {
  std::vector<std::pair<std::string, absl::Duration>> silent;
  for (const auto& [name, worker] : workers_) {
    const absl::Duration limit =
        worker.attached ? options_.dead_after : std::max(options_.reattach, options_.dead_after);
    if (!worker.dead && options_.Now() - worker.last_heard >= limit) silent.emplace_back(name, limit);
  }
  return silent;
}

}  // namespace adjoin
