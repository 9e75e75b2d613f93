#include "coordinator/decisions/worker_table.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable_text.h"
#include "coordinator/decisions/hello_check.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

constexpr size_t kMostSetAside = 10000;
constexpr int64_t kMostMemory = int64_t{1} << 50;  // bytes of one GPU: sums of such numbers fit

bool HasLabels(const WorkerHello& hello, const Resources& wanted) {
  if (wanted.node_label().empty()) return true;
  return std::all_of(wanted.node_label().begin(), wanted.node_label().end(), [&](const auto& label) {
    auto found = hello.label().find(label.first);
    return found != hello.label().end() && found->second == label.second;
  });
}

int LacksSlotsForGpus(const WorkerRecord& worker) { return worker.free.slots < worker.free.gpus ? 1 : 0; }

}  // namespace

int WorkerRecord::SlotsBesideGpus() const { return std::max(0, free.slots - free.gpus); }

std::optional<int64_t> WorkerRecord::Memory() const {
  if (hello.memory_bytes() == 0) return std::nullopt;
  return static_cast<int64_t>(hello.memory_bytes());
}

std::optional<int64_t> WorkerRecord::GpuMemory() const {
  std::optional<int64_t> least;
  for (const Gpu& gpu : hello.gpu()) {
    if (gpu.memory_bytes() == 0) return std::nullopt;
    const auto bytes = static_cast<int64_t>(std::min(gpu.memory_bytes(), uint64_t{kMostMemory}));
    least = std::min(least.value_or(bytes), bytes);
  }
  return least;
}

const WorkerRecord* WorkerTable::Find(const std::string& name) const {
  auto found = workers_.find(name);
  return found == workers_.end() ? nullptr : &found->second;
}

std::string WorkerTable::NameOf(ConnectionId connection) const {
  auto found = name_of_.find(connection);
  return found == name_of_.end() ? "" : found->second;
}

absl::Duration WorkerTable::TellHeartbeat(const std::string& name) {
  // A lease outlasts the silence after which a worker is lost. A job that makes progress is not taken for stuck.
  const absl::Duration longest =
      options_.heartbeat + std::min(options_.lease - options_.dead_after, options_.progress.shortest) / 4;
  const absl::Duration fair = absl::Seconds(static_cast<double>(name_of_.size()) / options_.heartbeats_per_second);
  WorkerRecord& worker = workers_.at(name);
  const absl::Duration told = std::max(options_.heartbeat, std::min(fair, longest));
  const absl::Duration before = worker.heartbeat;
  worker.heartbeat = std::max(worker.told_heartbeat, told);  // the acknowledgement may come late
  worker.told_heartbeat = told;
  if (worker.heartbeat < before) LookAt(name, worker);
  return told;
}

bool WorkerTable::IsHeardAt(const WorkerRecord& worker, absl::Duration now) const {
  return worker.connection != 0 && now - worker.last_heard < options_.suspect_after + Lateness(worker);
}

bool WorkerTable::IsUsableAt(const WorkerRecord& worker, absl::Duration now) const {
  return IsHeardAt(worker, now) && !worker.dead && !worker.draining && worker.fit &&
         !IsSetAsideAt(worker.hello.name(), now);
}

bool WorkerTable::ComesBackAt(const WorkerRecord& worker, absl::Duration now) const {
  if (!IsHeardAt(worker, now) || worker.dead || worker.draining || !worker.fit) return false;
  return IsSetAsideAt(worker.hello.name(), now) && !standing_.at(worker.hello.name()).by_itself;
}

bool WorkerTable::IsHeard(const WorkerRecord& worker) const { return IsHeardAt(worker, options_.Now()); }

bool WorkerTable::IsUsable(const WorkerRecord& worker) const { return IsUsableAt(worker, options_.Now()); }

bool WorkerTable::ComesBack(const WorkerRecord& worker) const { return ComesBackAt(worker, options_.Now()); }

std::string WorkerTable::StateOf(const WorkerRecord& worker) const {
  if (worker.dead) return "lost";
  if (!IsHeard(worker)) return "suspect";
  if (worker.draining) return "draining";
  if (!worker.hello.condition().empty()) return "unfit";
  return IsSetAside(worker.hello.name()) ? "set aside" : "ready";
}

std::string WorkerTable::ConditionOf(const WorkerRecord& worker) const {
  const auto standing = standing_.find(worker.hello.name());
  if (!worker.hello.condition().empty() || !IsSetAside(worker.hello.name())) return worker.hello.condition();
  const absl::Duration left = absl::Ceil(standing->second.until - options_.Now(), absl::Seconds(1));
  return absl::StrCat("is tried again in ", absl::FormatDuration(left), ": ", standing->second.reason);
}

void WorkerTable::SetAside(const std::string& name, absl::Duration until, const std::string& reason, bool by_itself) {
  if (standing_.size() >= kMostSetAside) standing_.clear();  // names of workers that are gone
  standing_[name] = {
      .until = until, .reason = PrintableText(reason, kMaxErrorBytes), .by_itself = by_itself, .tried = false};
}

bool WorkerTable::IsSetAsideAt(const std::string& name, absl::Duration now) const {
  if (standing_.empty()) return false;
  const auto standing = standing_.find(name);
  return standing != standing_.end() && standing->second.until > now;
}

bool WorkerTable::IsSetAside(const std::string& name) const { return IsSetAsideAt(name, options_.Now()); }

absl::Duration WorkerTable::TrialAt(const std::string& name) const {
  const auto standing = standing_.find(name);
  return standing == standing_.end() ? -absl::InfiniteDuration() : standing->second.until;
}

bool WorkerTable::Trust(const std::string& name) {
  if (auto worker = workers_.find(name); worker != workers_.end()) worker->second.last_start = options_.Now();
  return EndSetAside(name);
}

bool WorkerTable::EndSetAside(const std::string& name) {
  if (standing_.erase(name) == 0) return false;
  set_aside_ended_ = true;
  return true;
}

bool WorkerTable::TakeTrials() {
  bool any = std::exchange(set_aside_ended_, false);
  for (auto& [name, standing] : standing_) {
    if (standing.tried || standing.until > options_.Now()) continue;
    any = standing.tried = true;
  }
  return any;
}

void WorkerTable::SetStarting(const std::string& name, uint64_t job, bool starting) {
  auto worker = workers_.find(name);
  if (worker == workers_.end()) return;
  starting ? void(worker->second.starting.insert(job)) : void(worker->second.starting.erase(job));
}

std::vector<FreeSlots> WorkerTable::FreeFor(const Resources& wanted, bool beside_gpus) const {
  std::vector<FreeSlots> free;
  const absl::Duration now = options_.Now();
  free.reserve(with_free_slots_.size());
  for (const WorkerRecord* record : with_free_slots_) {
    const WorkerRecord& worker = *record;
    if (!IsUsableAt(worker, now) || !HasLabels(worker.hello, wanted)) continue;
    const bool in_doubt = !standing_.empty() && standing_.count(worker.hello.name()) > 0;
    if (in_doubt && !worker.starting.empty()) continue;  // a trial is under way
    free.push_back(worker.free);
    if (!beside_gpus) continue;
    free.back().slots = worker.SlotsBesideGpus();
    free.back().gpus = 0;
    if (free.back().slots == 0) free.pop_back();
  }
  return free;
}

template <typename Counts, typename Visit>
bool WorkerTable::VisitAll(const Resources& wanted, const Counts& counts, const Visit& visit) const {
  const absl::Duration now = options_.Now();
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& named) {
    const WorkerRecord& worker = named.second;
    if (!counts(worker, now) || !HasLabels(worker.hello, wanted)) return false;
    FreeSlots all = worker.free;
    all.slots = static_cast<int>(worker.hello.slots());
    all.gpus = worker.hello.gpu_size();
    all.memory = worker.Memory();
    return visit(all);
  });
}

template <typename Counts>
std::vector<FreeSlots> WorkerTable::AllOf(const Resources& wanted, const Counts& counts) const {
  std::vector<FreeSlots> all;
  all.reserve(workers_.size());
  VisitAll(wanted, counts, [&](const FreeSlots& worker) {
    all.push_back(worker);
    return false;
  });
  return all;
}

std::vector<FreeSlots> WorkerTable::AllFor(const Resources& wanted) const {
  return AllOf(wanted, [this](const WorkerRecord& worker, absl::Duration now) { return IsUsableAt(worker, now); });
}

std::vector<FreeSlots> WorkerTable::AllInTimeFor(const Resources& wanted) const {
  return AllOf(wanted, [this](const WorkerRecord& worker, absl::Duration now) { return IsInTimeAt(worker, now); });
}

std::vector<FreeSlots> WorkerTable::AllKnownFor(const Resources& wanted) const {
  return AllOf(wanted, [](const WorkerRecord& worker, absl::Duration now) { return !worker.dead; });
}

bool WorkerTable::AnyInTimeFor(const Resources& wanted, const std::function<bool(const FreeSlots&)>& fits) const {
  return VisitAll(
      wanted, [this](const WorkerRecord& worker, absl::Duration now) { return IsInTimeAt(worker, now); }, fits);
}

bool WorkerTable::AnyKnownFor(const Resources& wanted, const std::function<bool(const FreeSlots&)>& fits) const {
  return VisitAll(
      wanted, [](const WorkerRecord& worker, absl::Duration now) { return !worker.dead; }, fits);
}

// Two daemons of one machine that offer the same GPU would give it to two ranks: those of the second do not count at
// all, since a daemon chooses for its ranks among all that it offers.
void WorkerTable::DropGpusOfOthers(WorkerHello& hello) {
  if (hello.gpu().empty()) return;
  std::map<absl::string_view, uint32_t> own;  // by UUID: the number on its node
  for (const Gpu& gpu : hello.gpu()) own[gpu.uuid()] = gpu.index();
  for (const auto& [name, other] : workers_) {
    if (name == hello.name() || (!IsHeard(other) && other.held.empty())) continue;
    for (const Gpu& gpu : other.hello.gpu()) {
      const auto found = own.find(gpu.uuid());
      if (found == own.end()) continue;
      outbox_.Log(absl::StrCat("no GPU of worker ", hello.name(), " counts: worker ", name, " offers GPU ",
                               found->second, " (", gpu.uuid(), ") as well; give each its own --gpus"));
      hello.clear_gpu();
      return;
    }
  }
}

absl::Status WorkerTable::CheckName(const WorkerHello& hello) const {
  if (absl::Status fits = CheckHello(hello); !fits.ok()) return fits;
  const WorkerRecord* known = Find(hello.name());
  if (known == nullptr || !IsHeard(*known) || known->hello.incarnation() == hello.incarnation())
    return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("a worker named ", hello.name(), " is connected already, from ",
                                               known->hello.address(), ": give this one another --name"));
}

void WorkerTable::Attach(ConnectionId connection, const WorkerHello& hello) {
  WorkerRecord& worker = workers_[hello.name()];
  const bool same = worker.hello.incarnation() == hello.incarnation();
  const auto standing = standing_.find(hello.name());
  if (!same && standing != standing_.end() && standing->second.by_itself) standing->second.until = options_.Now();
  const std::string output_id = hello.output_id().empty() && same ? worker.hello.output_id() : hello.output_id();
  worker.hello = hello;
  worker.hello.clear_attempt();
  worker.hello.clear_rates();  // RateBook has them
  worker.hello.set_output_id(output_id);
  DropGpusOfOthers(worker.hello);
  worker.hello.set_condition(PrintableText(hello.condition(), kMaxErrorBytes));
  worker.fit = worker.hello.condition().empty();
  worker.connection = connection;
  worker.last_heard = options_.Now();
  worker.told_heartbeat = worker.heartbeat = options_.heartbeat;
  worker.attached = true;
  worker.dead = false;
  worker.draining = hello.draining();
  name_of_[connection] = hello.name();
  lost_.erase(hello.name());
  CountFree(hello.name());
  LookAt(hello.name(), worker);
}

void WorkerTable::Detach(ConnectionId connection) {
  auto found = name_of_.find(connection);
  if (found == name_of_.end()) return;
  WorkerRecord& worker = workers_.at(found->second);
  worker.connection = 0;
  worker.detached = options_.Now();
  if (!worker.dead) LookAt(found->second, worker);
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
  WorkerRecord& worker = workers_.at(name);
  if (!worker.dead && !worker.draining) ++lost_in_all_;
  worker.dead = true;
  looks_.erase({worker.look_at, name});
  lost_.insert(name);
}

bool WorkerTable::ForgetLost() {
  const size_t before = workers_.size();
  for (auto it = lost_.begin(); it != lost_.end();) {
    const auto worker = workers_.find(*it);
    if (!worker->second.held.empty()) {
      ++it;
      continue;
    }
    SetHasFree(worker->second, false);
    lacking_slots_ -= LacksSlotsForGpus(worker->second);
    workers_.erase(worker);
    it = lost_.erase(it);
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
  CountFree(name);
  LookAt(name, worker->second);
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

bool WorkerTable::SetCondition(const std::string& name, const std::string& condition) {
  WorkerHello& hello = workers_.at(name).hello;
  const std::string shown = PrintableText(condition, kMaxErrorBytes);
  if (hello.condition() == shown) return false;
  hello.set_condition(shown);
  workers_.at(name).fit = shown.empty();
  return true;
}

void WorkerTable::SetOutputId(const std::string& name, const std::string& id) {
  workers_.at(name).hello.set_output_id(id);
  CountFree(name);
}

void WorkerTable::Release(const std::string& name, uint64_t job) {
  auto worker = workers_.find(name);
  if (worker == workers_.end()) return;
  if (const auto held = worker->second.held.find(job); held != worker->second.held.end()) {
    AddHeld(job, held->second, -1);
    worker->second.held.erase(held);
  }
  CountFree(name);
}

void WorkerTable::Hold(const std::string& name, uint64_t job, Held held) {
  Held& own = workers_.at(name).held[job];
  AddHeld(job, own, -1);
  own = held;
  AddHeld(job, own, 1);
  CountFree(name);
}

void WorkerTable::AddHeld(uint64_t job, const Held& held, int times) {
  Held& sum = held_by_job_[job];
  sum.slots += times * held.slots;
  sum.gpus += times * held.gpus;
  sum.memory += times * held.memory;
  if (sum.slots == 0 && sum.gpus == 0 && sum.memory == 0) held_by_job_.erase(job);
}

void WorkerTable::CountFree(const std::string& name) {
  const auto found = workers_.find(name);
  WorkerRecord& worker = found->second;
  Held used;
  for (const auto& [job, held] : worker.held) {
    used.slots += held.slots;
    used.gpus += held.gpus;
    used.memory += held.memory;
  }
  lacking_slots_ -= LacksSlotsForGpus(worker);
  worker.output_id = texts_.Get(worker.hello.output_id());
  worker.program = texts_.Get(worker.hello.rank_program());
  worker.free = {.worker = found->first,
                 .slots = static_cast<int>(worker.hello.slots()) - used.slots,
                 .output_id = *worker.output_id,
                 .gpus = std::max(0, worker.hello.gpu_size() - used.gpus),
                 .memory = worker.Memory(),
                 .gpu_memory = worker.GpuMemory(),
                 .program = *worker.program};
  if (worker.free.memory.has_value()) *worker.free.memory -= used.memory;
  lacking_slots_ += LacksSlotsForGpus(worker);
  SetHasFree(worker, worker.free.slots > 0);
}

void WorkerTable::SetHasFree(const WorkerRecord& worker, bool has_free) {
  const auto place =
      std::lower_bound(with_free_slots_.begin(), with_free_slots_.end(), worker.free.worker,
                       [](const WorkerRecord* other, absl::string_view name) { return other->free.worker < name; });
  const bool had_free = place != with_free_slots_.end() && *place == &worker;
  if (has_free && !had_free) with_free_slots_.insert(place, &worker);
  if (!has_free && had_free) with_free_slots_.erase(place);
}

std::vector<uint64_t> WorkerTable::HoldersOf(const std::string& name) const {
  std::vector<uint64_t> jobs;
  if (const WorkerRecord* worker = Find(name); worker != nullptr) {
    for (const auto& [job, held] : worker->held) jobs.push_back(job);
  }
  return jobs;
}

void WorkerTable::ForgivePause(absl::Duration pause) {
  for (auto& [name, worker] : workers_) {
    if (!worker.dead) worker.last_heard = std::min(options_.Now(), worker.last_heard + pause);
  }
}

absl::Duration WorkerTable::LongestSilence(const WorkerRecord& worker) const {
  if (!worker.attached) return std::max(options_.reattach, options_.dead_after);
  const absl::Duration limit = options_.dead_after + Lateness(worker);
  if (worker.connection != 0) return limit;
  // Without a connection, no heartbeat is on its way.
  const absl::Duration before = std::max(absl::ZeroDuration(), worker.detached - worker.last_heard);
  return std::min(limit, before + options_.dead_after);
}

void WorkerTable::LookAt(const std::string& name, WorkerRecord& worker) {
  looks_.erase({worker.look_at, name});
  worker.look_at = worker.last_heard + LongestSilence(worker);
  looks_.insert({worker.look_at, name});
}

std::vector<std::pair<std::string, absl::Duration>> WorkerTable::Silent() {
  std::vector<std::pair<std::string, absl::Duration>> silent;
  const absl::Duration now = options_.Now();
  while (!looks_.empty() && looks_.begin()->first <= now) {
    const std::string name = looks_.begin()->second;
    WorkerRecord& worker = workers_.at(name);
    const absl::Duration limit = LongestSilence(worker);
    if (now - worker.last_heard >= limit) {
      looks_.erase(looks_.begin());
      silent.emplace_back(name, limit);
    } else {
      LookAt(name, worker);
    }
  }
  return silent;
}

}  // namespace adjoin
