#include "worker/daemon/data_check_child.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>

#include "absl/strings/str_cat.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/model_probe.h"
#include "worker/daemon/probe.h"

namespace adjoin {
namespace {

constexpr char kCommand[] = "check-data-files";
constexpr absl::Duration kReadWhole = absl::Seconds(15);  // then only headers are read

// False at the end of the input.
bool ReadAll(void* to, size_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = read(STDIN_FILENO, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Ends the process where nobody reads.
void WriteFrame(CheckFrame kind, const std::string& bytes) {
  const uint32_t size = static_cast<uint32_t>(bytes.size());
  std::string frame(1, static_cast<char>(kind));
  frame.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(bytes);
  for (size_t done = 0; done < frame.size();) {
    const ssize_t written = write(STDOUT_FILENO, frame.data() + done, frame.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(1);
    done += static_cast<size_t>(written);
  }
}

// The daemon ends a check that takes too long; should the daemon stand still, a file that keeps a core busy does not
// keep it for ever.
void LimitProcessorTime(double seconds) {
  rusage used = {};
  rlimit limit = {};
  if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
  limit.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + std::ceil(2 * seconds) + 1);
  setrlimit(RLIMIT_CPU, &limit);
}

ProbeResult Answer(const std::string& data_root, const std::string& output_root, const ProbeData& request) {
  ProbeLimits limits;
  limits.at = [](const std::string& what, const std::string& path) {
    WriteFrame(CheckFrame::kAt, absl::StrCat(path, absl::string_view("\0", 1), what));
  };
  if (request.limit_seconds() > 0) {
    LimitProcessorTime(request.limit_seconds());
    limits.deadline = Deadline::After(std::min(kReadWhole, absl::Seconds(request.limit_seconds() / 2)));
  }
  ProbeResult result;
  try {
    result = Probe(data_root, request, limits);
    if (result.error().empty() && request.has_model()) {
      if (request.limit_seconds() > 0) limits.deadline = Deadline::After(absl::Seconds(request.limit_seconds() / 4));
      ProbeModel(data_root, output_root, request.model(), result, limits);
    }
  } catch (const std::exception& thrown) {  // libraries throw, also where memory is short
    result.Clear();
    result.set_error(absl::StrCat("the data files cannot be checked: ", thrown.what()));
  }
  return result;
}

}  // namespace

std::vector<std::string> DataCheckArguments(const std::string& data_root, const std::string& output_root) {
  return {kCommand, data_root, output_root};
}

bool IsDataCheckCommand(int argc, char** argv) { return argc == 4 && strcmp(argv[1], kCommand) == 0; }

int RunDataCheckCommand(int argc, char** argv) {
  const std::string data_root = argv[2], output_root = argv[3];
  uint32_t size = 0;
  while (ReadAll(&size, sizeof(size))) {
    std::string bytes(size, '\0');
    ProbeData request;
    if (!ReadAll(bytes.data(), bytes.size()) || !request.ParseFromString(bytes)) return 1;
    WriteFrame(CheckFrame::kResult, Answer(data_root, output_root, request).SerializeAsString());
  }
  return 0;
}

}  // namespace adjoin
