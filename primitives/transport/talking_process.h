// A test's own program, started again as a rank: the test talks with it by lines, and kills or stops it.
//
//   TalkingProcess rank({"--rank", "1"});     // main() sees these arguments, and calls Say and Hear
//   rank.Write("go");
//   EXPECT_EQ(rank.Read(absl::Seconds(20)), "OK");
//   rank.Kill();
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_TALKING_PROCESS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_TALKING_PROCESS_H_

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/deadline.h"

namespace adjoin {

// In the process: a line to the test, and the next one from it ("" where it has closed its end).
inline void Say(const std::string& line) { std::cout << line << std::endl; }
inline std::string Hear() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

class TalkingProcess {
 public:
  explicit TalkingProcess(std::vector<std::string> arguments) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::abort();
    arguments.insert(arguments.begin(), "test");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      execv("/proc/self/exe", pointers.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  ~TalkingProcess() {
    if (pid_ > 0) Kill();
    close(in_);
    close(out_);
  }
  TalkingProcess(const TalkingProcess&) = delete;
  TalkingProcess& operator=(const TalkingProcess&) = delete;

  void Write(const std::string& line) {
    const std::string text = line + "\n";
    ASSERT_EQ(write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // The next line that is not UCX's log, or a word on why there is none: "(nothing)" in time, "(ended)".
  std::string Read(absl::Duration timeout) {
    const Deadline deadline = Deadline::After(timeout);
    while (true) {
      const size_t end = unread_.find('\n');
      if (end != std::string::npos) {
        const std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        if (!absl::StartsWith(line, "[")) return line;
        continue;
      }
      pollfd event = {out_, POLLIN, 0};
      char chunk[4096];
      if (poll(&event, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline.Remaining()))) <= 0) return "(nothing)";
      const ssize_t bytes = read(out_, chunk, sizeof(chunk));
      if (bytes <= 0) return "(ended)";
      unread_.append(chunk, static_cast<size_t>(bytes));
    }
  }

  void Signal(int signal) { kill(pid_, signal); }
  // Also reaps: peers on the same node take a process that has not been reaped for a living one.
  void Kill() {
    Signal(SIGKILL);
    Reap();
  }
  // Returns waitpid's status once it has ended.
  int Reap() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string unread_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_TALKING_PROCESS_H_
