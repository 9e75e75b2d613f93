#include "base/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace adjoin {
namespace {

constexpr size_t kMostBytes = 16 << 10;  // of such a file, with its end

// Reads a file of lines "VmData:     1234 kB" into `text`, as a string.
void ReadStatus(const char* path, char (&text)[kMostBytes]) {
  text[0] = '\0';
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  size_t size = 0;
  while (size < kMostBytes - 1) {
    const ssize_t got = read(fd, text + size, kMostBytes - 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  text[size] = '\0';
  close(fd);
}

// `key`: "\nVmData:".
int64_t BytesAt(const char* text, const char* key) {
  const char* const line = strstr(text, key);
  return line == nullptr ? 0 : static_cast<int64_t>(strtoll(line + strlen(key), nullptr, 10)) << 10;
}

}  // namespace

ProcessMemory ProcessMemoryInUse() {
  char text[kMostBytes];
  ReadStatus("/proc/self/status", text);
  return {.data = BytesAt(text, "\nVmData:"), .most_resident = BytesAt(text, "\nVmHWM:")};
}

MachineMemory MachineMemoryNow() {
  char text[kMostBytes];
  ReadStatus("/proc/meminfo", text);
  const bool first = strncmp(text, "MemTotal:", strlen("MemTotal:")) == 0;
  return {.total = first ? BytesAt(text, "MemTotal:") : BytesAt(text, "\nMemTotal:"),
          .available = BytesAt(text, "\nMemAvailable:")};
}

}  // namespace adjoin
