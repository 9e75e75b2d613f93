#include "worker/daemon/data_checker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/printable_text.h"
#include "planner/spec/field_files.h"
#include "proto/message_limits.h"
#include "proto/protocol.h"
#include "worker/checkpoint/checkpoint_place.h"
#include "worker/daemon/data_check_child.h"
#include "worker/daemon/model_probe.h"

namespace adjoin {
namespace {

// What a damaged file makes a library keep ends with its process.
constexpr int kChecksPerProcess = 200;
constexpr int kOomScoreAbove = 700;  // where memory runs out, a check goes before any rank
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kMemory = 0;  // their shadow memory counts
#else
constexpr uint64_t kMemory = uint64_t{2} << 30;
#endif

// True where a check's process tells that it plans, which no file system delays.
bool IsPlanning(const std::string& at) { return absl::StartsWith(at, "planning "); }

// What a check's process does that has told so last.
std::string Doing(const std::string& at) {
  if (at.empty()) return "the check";
  return IsPlanning(at) ? at : absl::StrCat("reading ", at);
}

std::string Seconds(absl::Duration time) { return absl::StrCat(absl::ToDoubleSeconds(time), " s"); }

ProbeResult Undecided(const std::string& why) {
  ProbeResult result;
  result.set_undecided(true);
  result.set_error(PrintableText(why, kMaxErrorBytes));
  return result;
}

// A process that reads anybody's files is believed no more than it has to be.
ProbeResult Checked(const ProbeData& request, const ProbeResult& said) {
  ProbeResult result;
  if (!said.error().empty()) {
    result.set_error(PrintableText(said.error(), kMaxErrorBytes));
    result.set_field(PrintableText(said.field(), kMaxPathBytes));
    return result;
  }
  if (said.dataset_size() != request.dataset_size()) return Undecided("the check's process answered something else");
  for (int i = 0; i < request.dataset_size(); ++i) {
    DatasetSize& size = *result.add_dataset();
    size.set_name(request.dataset(i).name());
    size.set_samples(said.dataset(i).samples());
    if (said.dataset(i).extents() != 0) size.set_extents(said.dataset(i).extents());
  }
  if (said.has_weights_file() && !request.model().weights().from_output().empty()) {
    const FileSums& sums = said.weights_file();
    const bool are_sums =
        sums.sum_size() <= kMostFileSums && std::all_of(sums.sum().begin(), sums.sum().end(), [](const auto& sum) {
          return sum.size() == 32 && std::all_of(sum.begin(), sum.end(), absl::ascii_isxdigit);
        });
    if (!are_sums) return Undecided("the check's process answered something else");
    *result.mutable_weights_file() = sums;
  }
  if (!request.model().has_checkpoint()) return result;
  // Only one that was asked for: the job that begins with it may have no right to others.
  const CheckpointRead& read = request.model().checkpoint();
  const std::optional<CheckpointPlace> place = CheckpointPlace::Parse(said.weights());
  const bool fits = place.has_value() && place->dir == read.dir() && place->name.tag == read.job_tag() &&
                    (read.choice().step() == 0 || place->name.step == static_cast<int64_t>(read.choice().step()));
  if (!fits) return Undecided("the check's process names another checkpoint than it was asked for");
  result.set_weights(place->ToString());
  return result;
}

}  // namespace

DataChecker::DataChecker(DataCheckerSettings settings, std::function<void(WorkerMessage)> send)
    : settings_(std::move(settings)), send_(std::move(send)) {
  for (size_t i = 0; i < std::max<size_t>(1, settings_.at_once); ++i) {
    Slot& slot = slots_.emplace_back();
    slot.cancel = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (slot.cancel.get() < 0) {
      LogError(absl::StrCat("no event descriptor: ", strerror(errno)));
      abort();
    }
    slot.thread = std::thread([this, &slot] { Loop(slot); });
  }
}

DataChecker::~DataChecker() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (Slot& slot : slots_) eventfd_write(slot.cancel.get(), 1);
  }
  for (Slot& slot : slots_) slot.thread.join();
}

void DataChecker::Send(ProbeResult result) {
  WorkerMessage message;
  *message.mutable_header() = MakeHeader();
  *message.mutable_probe_result() = std::move(result);
  send_(std::move(message));
}

void DataChecker::Check(const ProbeData& request) {
  absl::Duration limit = settings_.limit;
  if (request.limit_seconds() > 0) limit = std::min(limit, absl::Seconds(request.limit_seconds()));
  {
    absl::MutexLock lock(&mutex_);
    if (requests_.size() < settings_.most_waiting) {
      requests_.push_back({request, limit, Deadline::After(limit)});
      return;
    }
  }
  ProbeResult result = Undecided(absl::StrCat(settings_.most_waiting, " other checks wait there already"));
  result.set_request_id(request.request_id());
  Send(std::move(result));
}

void DataChecker::Cancel(const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  requests_.erase(std::remove_if(requests_.begin(), requests_.end(),
                                 [&](const Request& each) { return each.data.request_id() == request_id; }),
                  requests_.end());
  for (Slot& slot : slots_) {
    if (!slot.request_id.empty() && slot.request_id == request_id) eventfd_write(slot.cancel.get(), 1);
  }
}

bool DataChecker::Take(Slot& slot, Request& request) {
  absl::MutexLock lock(&mutex_);
  auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !requests_.empty(); };
  mutex_.Await(absl::Condition(&ready));
  if (stopping_) return false;
  request = std::move(requests_.front());
  requests_.pop_front();
  slot.request_id = request.data.request_id();
  eventfd_t old = 0;
  eventfd_read(slot.cancel.get(), &old);  // meant the last one, which had ended by itself
  return true;
}

void DataChecker::Loop(Slot& slot) {
  Request request{{}, {}, Deadline::After(absl::ZeroDuration())};
  while (Take(slot, request)) {
    std::optional<ProbeResult> result = Answer(slot, request);
    if (result.has_value()) {
      result->set_request_id(request.data.request_id());
      Send(*std::move(result));
    }
    absl::MutexLock lock(&mutex_);
    slot.request_id.clear();
  }
  if (slot.process != nullptr) std::move(*slot.process).Kill(abandoned_, "");
}

std::string DataChecker::MountPointOf(const MountPoints& mounts, const std::string& path) const {
  return mounts.OfBelow({settings_.data_root, settings_.output_root}, path);
}

std::string DataChecker::WhyNotNow(const ProbeData& request) {
  const std::map<std::string, size_t> left = abandoned_.Count();
  size_t all = 0;
  for (const auto& [mount_point, count] : left) all += count;
  if (all >= settings_.most_abandoned_in_all)
    return absl::StrCat(all, " earlier checks there still wait for file systems that do not answer");
  if (std::none_of(left.begin(), left.end(), [&](const auto& at) { return at.second >= settings_.most_abandoned; }))
    return "";
  std::vector<std::string> paths;
  for (const Dataset& dataset : request.dataset()) {
    for (const Field& field : dataset.field()) {
      const File* files = FilesOf(field);
      if (files == nullptr) continue;
      for (const std::string& path : files->path()) paths.push_back(absl::StrCat(settings_.data_root, "/", path));
    }
  }
  if (request.has_model()) paths.push_back(ModelProbePath(settings_.data_root, settings_.output_root, request.model()));
  const MountPoints mounts = MountPoints::Read();
  for (const std::string& path : paths) {
    const auto found = left.find(MountPointOf(mounts, path));
    if (found == left.end() || found->first.empty() || found->second < settings_.most_abandoned) continue;
    return absl::StrCat(found->second, " earlier checks there still wait for the file system at ", found->first,
                        ", which does not answer");
  }
  return "";
}

std::optional<ProbeResult> DataChecker::Answer(Slot& slot, Request& request) {
  if (request.deadline.Expired()) {
    return Undecided(absl::StrCat("the check did not begin within ", Seconds(request.limit), ": ", settings_.at_once,
                                  " others are under way there"));
  }
  if (const std::string why = WhyNotNow(request.data); !why.empty()) return Undecided(why);
  if (slot.process == nullptr) {
    SpawnRequest spawn;
    spawn.binary = settings_.binary;
    spawn.arguments = DataCheckArguments(settings_.data_root, settings_.output_root);
    spawn.environment = RankEnvironment(settings_.user.has_value() ? settings_.user->home : "");
    spawn.folder = "/";
    spawn.memory_bytes = kMemory;
    spawn.oom_score_above = kOomScoreAbove;
    spawn.user = settings_.user;
    absl::StatusOr<std::unique_ptr<CheckerProcess>> started = CheckerProcess::Start(spawn);
    if (!started.ok()) return Undecided(absl::StrCat("no process for the check: ", started.status().message()));
    slot.process = *std::move(started);
    slot.checks = 0;
  }
  return AskProcess(slot, request);
}

std::optional<ProbeResult> DataChecker::AskProcess(Slot& slot, Request& request) {
  request.data.set_limit_seconds(absl::ToDoubleSeconds(request.deadline.Remaining()));
  const bool was_idle = slot.checks > 0;
  const CheckerProcess::Outcome outcome = slot.process->Check(request.data, request.deadline, slot.cancel.get());
  if (outcome.end != CheckerProcess::End::kAnswered || ++slot.checks >= kChecksPerProcess) {
    std::move(*slot.process).Kill(abandoned_, MountPointOf(MountPoints::Read(), outcome.path));
    slot.process.reset();
  }
  switch (outcome.end) {
    case CheckerProcess::End::kAnswered: return Checked(request.data, outcome.result);
    case CheckerProcess::End::kCancelled: return std::nullopt;
    case CheckerProcess::End::kLate:
      LogWarning(absl::StrCat(request.data.request_id(), ": its data check was ended after ", Seconds(request.limit),
                              outcome.at.empty() ? "" : " at ", outcome.at));
      return Undecided(
          absl::StrCat(Doing(outcome.at), " did not end within ", Seconds(request.limit),
                       outcome.at.empty() || IsPlanning(outcome.at) ? "" : ": does its file system answer?"));
    default:
      // It may have died long before, idle: the kernel takes it first where memory runs out.
      if (was_idle && outcome.at.empty()) return Answer(slot, request);
      return Undecided(absl::StrCat(Doing(outcome.at), " failed: its process ", outcome.why));
  }
}

}  // namespace adjoin
