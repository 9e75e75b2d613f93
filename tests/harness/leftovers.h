// Finds what programs leave behind: processes that work in a folder, names in /dev/shm.
//
//   const std::set<std::string> before = SharedMemory();
//   ... run and kill programs whose working directory or arguments are below `folder` ...
//   EXPECT_THAT(ProcessesLeft(folder, Deadline::After(absl::Seconds(5))), IsEmpty());
//   EXPECT_THAT(SharedMemoryLeft(before, Deadline::After(absl::Seconds(5))), IsEmpty());
#ifndef ADJOIN_TESTS_HARNESS_LEFTOVERS_H_
#define ADJOIN_TESTS_HARNESS_LEFTOVERS_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "base/deadline.h"

namespace adjoin {

// Returns the command lines, by process, of all whose arguments or working directory are in `folder` or below.
// Zombies and the calling process do not count.
std::map<pid_t, std::string> ProcessesIn(const std::string& folder);

// Waits until there are none, or for the deadline, and returns the same.
std::map<pid_t, std::string> ProcessesLeft(const std::string& folder, Deadline deadline);

// The names in /dev/shm.
std::set<std::string> SharedMemory();

// Returns the names that are there now, were not there `before`, and stay until the deadline. UCX names a segment only
// for the moment of its making, so other processes of this machine may show names here that go away.
std::set<std::string> SharedMemoryLeft(const std::set<std::string>& before, Deadline deadline);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_HARNESS_LEFTOVERS_H_
