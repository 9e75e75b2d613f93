#include "worker/daemon/child_output.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

constexpr size_t kMaxLastWords = 400;

}  // namespace

int PollMilliseconds(Deadline deadline) {
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(deadline.Remaining(), absl::Milliseconds(1))));
}

bool ReadSome(const UniqueFd& from, std::string& text) {
  char bytes[4096];
  const ssize_t got = read(from.get(), bytes, sizeof(bytes));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  if (text.size() < kMostChildOutput) text.append(bytes, static_cast<size_t>(got));
  return true;
}

bool Reap(const ChildProcess& child, Deadline deadline) {
  pollfd dead = {child.pidfd.get(), POLLIN, 0};
  while (poll(&dead, 1, PollMilliseconds(deadline)) <= 0) {
    if (deadline.Expired()) return false;
  }
  waitpid(child.pid, nullptr, 0);
  return true;
}

std::string LastWords(const std::string& err) {
  const std::vector<std::string> lines = absl::StrSplit(err, '\n', absl::SkipEmpty());
  return lines.empty() ? "" : absl::StrCat("; it wrote: ", PrintableText(lines.back(), kMaxLastWords));
}

}  // namespace adjoin
