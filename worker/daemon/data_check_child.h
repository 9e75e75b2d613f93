// The process in which a daemon checks jobs' data files: what a file system or a file does to it harms nobody else.
//
//   int main(int argc, char** argv) {
//     if (IsDataCheckCommand(argc, argv)) return RunDataCheckCommand(argc, argv);      // before anything else
//
// It reads requests from its standard input and writes answers to its standard output, until the input ends. A request
// is the size of a ProbeData, four bytes in the machine's order, and the ProbeData. An answer is any number of frames,
// the last of which is the result: a byte (CheckFrame), a size likewise, and so many bytes.
#ifndef ADJOIN_WORKER_DAEMON_DATA_CHECK_CHILD_H_
#define ADJOIN_WORKER_DAEMON_DATA_CHECK_CHILD_H_

#include <cstddef>
#include <string>
#include <vector>

namespace adjoin {

enum class CheckFrame : unsigned char {
  kAt = 1,      // what ProbeLimits::at has: the path, a zero byte, and what is said of it
  kResult = 2,  // a ProbeResult
};

// The arguments of the program, which the caller starts again as a check's process.
std::vector<std::string> DataCheckArguments(const std::string& data_root, const std::string& output_root);

bool IsDataCheckCommand(int argc, char** argv);
// Returns the program's exit code.
int RunDataCheckCommand(int argc, char** argv);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DATA_CHECK_CHILD_H_
