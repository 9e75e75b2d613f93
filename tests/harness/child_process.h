// A program that a test runs: its output goes to a file, it dies with the test, and it is reaped.
//
//   ADJOIN_ASSIGN_OR_RETURN(auto child, ChildProgram::Start({Runfile("cli/adjoin"), "ps"}, {}, "/tmp/x/ps"));
//   ADJOIN_ASSIGN_OR_RETURN(int code, child->Wait(Deadline::After(absl::Seconds(30))));
#ifndef ADJOIN_TESTS_HARNESS_CHILD_PROCESS_H_
#define ADJOIN_TESTS_HARNESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/deadline.h"

namespace adjoin {

// The path of a file of this workspace among the test's runfiles.
std::string Runfile(const std::string& path);

std::string ReadFile(const std::string& path);  // "" where there is none

class ChildProgram {
 public:
  // `environment` is added to the test's own. Output goes to `output`.out and `output`.err. Linux kills the program
  // when the calling thread ends.
  static absl::StatusOr<std::unique_ptr<ChildProgram>> Start(const std::vector<std::string>& command,
                                                             const std::vector<std::string>& environment,
                                                             const std::string& output);
  // Kills the program's process group and reaps it.
  ~ChildProgram();

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;  // to the program only
  // The exit code, or 128 + the signal that killed it. Errors: kDeadlineExceeded.
  absl::StatusOr<int> Wait(Deadline deadline);
  // SIGTERM, and SIGKILL where that does not end it in time.
  absl::StatusOr<int> Stop(Deadline deadline);
  std::string Output() const { return ReadFile(output_ + ".out"); }
  std::string Errors() const { return ReadFile(output_ + ".err"); }

 private:
  ChildProgram(pid_t pid, int pidfd, std::string output) : pid_(pid), pidfd_(pidfd), output_(std::move(output)) {}

  const pid_t pid_;
  const int pidfd_;
  const std::string output_;
  std::optional<int> code_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_HARNESS_CHILD_PROCESS_H_
