#include "worker/daemon/rank_supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "proto/killed_by_signal.h"

namespace adjoin {
namespace {

// waitid's idtype for pidfds, which older headers lack.
constexpr idtype_t kPidFd = static_cast<idtype_t>(3);
constexpr int kPipeRounds = 16;  // times 4 KiB per poll, so that one talkative rank does not starve the others

}  // namespace

std::string RankExit::ToString() const {
  if (!spawn_error.empty()) return absl::StrCat("could not be started: ", spawn_error);
  if (signal == 0) return absl::StrCat("exited with code ", code);
  return KilledBySignal(signal);
}

RankSupervisor::RankSupervisor(Callbacks callbacks, ProcessRecord* record)
    : callbacks_(std::move(callbacks)), record_(record), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.get() < 0) {
    LogError(absl::StrCat("no event descriptor: ", strerror(errno)));
    abort();
  }
  thread_ = std::thread([this] { Loop(); });
}

RankSupervisor::~RankSupervisor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

void RankSupervisor::Wake() {
  uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) return;  // full: the thread is to wake already
}

void RankSupervisor::Start(RankKey key, SpawnRequest request) {
  {
    absl::MutexLock lock(&mutex_);
    starts_.push_back({std::move(key), std::move(request)});
  }
  Wake();
}

void RankSupervisor::Kill(const std::string& job_id, uint64_t epoch, absl::Duration grace) {
  Enqueue({job_id, epoch, std::nullopt, Deadline::After(grace)});
}

void RankSupervisor::KillRank(const RankKey& key, absl::Duration grace) {
  Enqueue({key.job_id, key.epoch, key.rank, Deadline::After(grace)});
}

void RankSupervisor::Enqueue(KillCommand command) {
  {
    absl::MutexLock lock(&mutex_);
    kills_.push_back(std::move(command));
  }
  Wake();
}

void RankSupervisor::RunCommands() {
  std::vector<StartCommand> starts;
  std::vector<KillCommand> kills;
  {
    absl::MutexLock lock(&mutex_);
    starts.swap(starts_);
    kills.swap(kills_);
    if (stopping_) {
      starts.clear();
      for (Process& process : processes_) {
        process.killing = true;
        process.kill_at = Deadline::After(absl::ZeroDuration());
      }
    }
  }
  for (StartCommand& start : starts) StartNow(start);
  for (const KillCommand& kill : kills) {
    for (Process& process : processes_) {
      if (process.key.job_id != kill.job_id || process.key.epoch != kill.epoch) continue;
      if (kill.rank.has_value() && *kill.rank != process.key.rank) continue;
      if (!process.killing || kill.at.when() < process.kill_at.when()) process.kill_at = kill.at;
      process.killing = true;
    }
  }
}

absl::StatusOr<ChildProcess> RankSupervisor::SpawnRecorded(const SpawnRequest& request) {
  ADJOIN_ASSIGN_OR_RETURN(ChildProcess child, Spawn(request));
  if (record_ == nullptr) return child;
  if (absl::Status status = record_->Add(child.pid); !status.ok()) {
    kill(-child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    return status;
  }
  return child;
}

void RankSupervisor::StartNow(StartCommand& command) {
  absl::StatusOr<ChildProcess> child = SpawnRecorded(command.request);
  if (!child.ok()) {
    RankExit exit;
    exit.spawn_error = std::string(child.status().message());
    callbacks_.on_exit(command.key, exit);
    return;
  }
  processes_.emplace_back();
  processes_.back().key = std::move(command.key);
  processes_.back().child = *std::move(child);
  if (callbacks_.on_start) callbacks_.on_start(processes_.back().key, processes_.back().child.pid);
}

void RankSupervisor::KillDue() {
  for (Process& process : processes_) {
    if (!process.killing || !process.kill_at.Expired()) continue;
    kill(-process.child.pid, SIGKILL);
    process.kill_at = Deadline::After(absl::Seconds(1));  // again, should the group have grown meanwhile
  }
}

int RankSupervisor::PollTimeoutMs() const {
  absl::Duration wait = absl::Seconds(60);
  for (const Process& process : processes_) {
    if (process.killing) wait = std::min(wait, process.kill_at.Remaining());
  }
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
}

void RankSupervisor::ReadLines(Process& process, UniqueFd& fd, LineSplitter& splitter) {
  std::vector<std::string> lines;
  char bytes[4096];
  for (int round = 0; round < kPipeRounds && fd.get() >= 0; ++round) {
    ssize_t got = read(fd.get(), bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;  // nothing now
    if (got == 0) {
      fd.reset();
      break;
    }
    for (std::string& line : splitter.Add({bytes, static_cast<size_t>(got)})) lines.push_back(std::move(line));
  }
  if (!lines.empty()) callbacks_.on_log(process.key, std::move(lines));
}

void RankSupervisor::Reap(Process& process) {
  siginfo_t info = {};
  // Not yet collected, its number still names its group: whatever it has left behind goes first.
  if (waitid(kPidFd, process.child.pidfd.get(), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
  kill(-process.child.pid, SIGKILL);
  if (waitid(kPidFd, process.child.pidfd.get(), &info, WEXITED | WNOHANG) != 0) return;
  process.reaped = true;
  if (record_ != nullptr) record_->Remove(process.child.pid);
  ReadLines(process, process.child.out, process.out);
  ReadLines(process, process.child.err, process.err);
  for (LineSplitter* splitter : {&process.out, &process.err}) {
    std::vector<std::string> rest = splitter->Finish();
    if (!rest.empty()) callbacks_.on_log(process.key, std::move(rest));
  }
  RankExit exit;
  (info.si_code == CLD_EXITED ? exit.code : exit.signal) = info.si_status;
  callbacks_.on_exit(process.key, exit);
}

void RankSupervisor::Loop() {
  while (true) {
    RunCommands();
    KillDue();
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_ && processes_.empty()) return;
    }
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (Process& process : processes_) {
      fds.push_back({process.child.pidfd.get(), POLLIN, 0});
      fds.push_back({process.child.out.get(), POLLIN, 0});  // poll skips the descriptor -1
      fds.push_back({process.child.err.get(), POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), PollTimeoutMs()) < 0) continue;
    uint64_t count;
    if (fds[0].revents != 0 && read(wake_.get(), &count, sizeof(count)) < 0) continue;
    size_t i = 1;
    for (Process& process : processes_) {
      if (fds[i + 1].revents != 0) ReadLines(process, process.child.out, process.out);
      if (fds[i + 2].revents != 0) ReadLines(process, process.child.err, process.err);
      if (fds[i].revents != 0) Reap(process);
      i += 3;
    }
    processes_.remove_if([](const Process& process) { return process.reaped; });
  }
}

}  // namespace adjoin
