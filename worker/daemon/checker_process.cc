#include "worker/daemon/checker_process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "proto/message_limits.h"
#include "worker/daemon/child_output.h"
#include "worker/daemon/data_check_child.h"

namespace adjoin {
namespace {

constexpr absl::Duration kDies = absl::Seconds(1);
constexpr size_t kFrameHead = 1 + sizeof(uint32_t);
constexpr size_t kMaxLastWords = 200;

bool Again() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

absl::StatusOr<std::unique_ptr<CheckerProcess>> CheckerProcess::Start(const SpawnRequest& request) {
  SpawnRequest with_input = request;
  with_input.input = true;
  ADJOIN_ASSIGN_OR_RETURN(ChildProcess child, Spawn(with_input));
  return std::unique_ptr<CheckerProcess>(new CheckerProcess(std::move(child)));
}

bool CheckerProcess::TakeFrames(Outcome& outcome) {
  while (in_.size() >= kFrameHead) {
    uint32_t size = 0;
    memcpy(&size, in_.data() + 1, sizeof(size));
    if (size > kMaxMessageBytes) return false;
    if (in_.size() < kFrameHead + size) return true;
    const CheckFrame kind = static_cast<CheckFrame>(in_[0]);
    const std::string bytes = in_.substr(kFrameHead, size);
    in_.erase(0, kFrameHead + size);
    if (kind == CheckFrame::kAt) {
      const size_t end = bytes.find('\0');
      if (end == std::string::npos) return false;
      outcome.path = bytes.substr(0, end);
      outcome.at = PrintableText(bytes.substr(end + 1), kMaxErrorBytes / 4);
    } else if (kind != CheckFrame::kResult || !outcome.result.ParseFromString(bytes)) {
      return false;
    } else {
      outcome.end = End::kAnswered;
      return in_.empty();
    }
  }
  return true;
}

void CheckerProcess::ReadErrors() {
  char bytes[4096];
  const ssize_t got = read(child_.err.get(), bytes, sizeof(bytes));
  if (got == 0 || (got < 0 && !Again())) return child_.err.reset();
  if (got < 0) return;
  for (std::string& line : errors_.Add({bytes, static_cast<size_t>(got)})) last_words_ = std::move(line);
}

std::string CheckerProcess::Epitaph() {
  // Its output has ended, or made no sense; where it is about to die it is asked how.
  pollfd dead = {child_.pidfd.get(), POLLIN, 0};
  if (poll(&dead, 1, static_cast<int>(absl::ToInt64Milliseconds(kDies))) <= 0) return "talks nonsense";
  while (child_.err.get() >= 0) {
    pollfd more = {child_.err.get(), POLLIN, 0};
    if (poll(&more, 1, 0) <= 0) break;
    ReadErrors();
  }
  for (std::string& line : errors_.Finish()) last_words_ = std::move(line);
  siginfo_t info = {};
  waitid(static_cast<idtype_t>(3), static_cast<id_t>(child_.pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT);
  const char* name = info.si_code == CLD_EXITED ? nullptr : sigabbrev_np(info.si_status);
  return absl::StrCat(info.si_code == CLD_EXITED ? "exited with code " : "was killed by signal ", info.si_status,
                      name == nullptr ? "" : absl::StrCat(" (SIG", name, ")"), last_words_.empty() ? "" : ": ",
                      PrintableText(last_words_, kMaxLastWords));
}

CheckerProcess::Outcome CheckerProcess::Check(const ProbeData& request, Deadline deadline, int cancel) {
  Outcome outcome;
  const uint32_t size = static_cast<uint32_t>(request.ByteSizeLong());
  std::string out(reinterpret_cast<const char*>(&size), sizeof(size));
  request.AppendToString(&out);
  size_t written = 0;
  in_.clear();
  char bytes[65536];
  while (outcome.end != End::kAnswered) {
    if (deadline.Expired()) {
      outcome.end = End::kLate;
      return outcome;
    }
    pollfd fds[] = {{cancel, POLLIN, 0},
                    {child_.out.get(), POLLIN, 0},
                    {child_.err.get(), POLLIN, 0},
                    {written < out.size() ? child_.in.get() : -1, POLLOUT, 0}};
    if (poll(fds, 4, PollMilliseconds(deadline)) < 0) continue;
    if (fds[0].revents != 0) {
      outcome.end = End::kCancelled;
      return outcome;
    }
    if (fds[2].revents != 0) ReadErrors();
    if (fds[3].revents != 0) {
      const ssize_t more = write(child_.in.get(), out.data() + written, out.size() - written);
      if (more > 0) written += static_cast<size_t>(more);
      if (more < 0 && !Again()) break;
    }
    if (fds[1].revents == 0) continue;
    const ssize_t got = read(child_.out.get(), bytes, sizeof(bytes));
    if (got < 0 && Again()) continue;
    if (got <= 0) break;
    in_.append(bytes, static_cast<size_t>(got));
    if (!TakeFrames(outcome)) {
      outcome.end = End::kBroken;
      break;
    }
  }
  if (outcome.end != End::kAnswered) outcome.why = Epitaph();
  return outcome;
}

void CheckerProcess::Kill(AbandonedProcesses& abandoned, const std::string& mount_point) && {
  kill(-child_.pid, SIGKILL);
  pollfd dead = {child_.pidfd.get(), POLLIN, 0};
  const Deadline deadline = Deadline::After(kDies);
  while (poll(&dead, 1, PollMilliseconds(deadline)) < 0 && !deadline.Expired()) {
  }
  if (!ReapIfDead(child_)) abandoned.Add(std::move(child_), mount_point);
}

}  // namespace adjoin
