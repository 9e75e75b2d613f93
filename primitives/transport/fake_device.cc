#include "primitives/transport/fake_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {

FakeDevice::Registry& FakeDevice::TheRegistry() {
  static Registry* registry = new Registry;  // memory may be freed after the end of main
  return *registry;
}

absl::StatusOr<Buffer> FakeDevice::Allocate(std::size_t bytes) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  auto failed = [&](const char* call) {
    return absl::ResourceExhaustedError(
        absl::StrCat("fake device: ", call, " of ", bytes, " bytes: ", std::strerror(errno)));
  };
  const int fd = memfd_create("adjoin_fake_device", MFD_CLOEXEC);
  if (fd < 0) return failed("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(mapped)) != 0) {
    const absl::Status status = failed("ftruncate");
    close(fd);
    return status;
  }
  void* hidden = mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, fd, 0);
  void* view = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const absl::Status status = hidden == MAP_FAILED || view == MAP_FAILED ? failed("mmap") : absl::OkStatus();
  close(fd);
  if (!status.ok()) {
    if (hidden != MAP_FAILED) munmap(hidden, mapped);
    if (view != MAP_FAILED) munmap(view, mapped);
    return status;
  }
  {
    std::lock_guard<std::mutex> lock(TheRegistry().mutex);
    TheRegistry().allocations[static_cast<char*>(hidden)] = {static_cast<char*>(view), bytes};
  }
  Buffer buffer;
  buffer.data = hidden;
  buffer.bytes = bytes;
  buffer.kind = MemoryKind::kFakeDevice;
  buffer.device = 0;
  buffer.keepalive = std::shared_ptr<void>(hidden, [view, mapped](void* address) {
    {
      std::lock_guard<std::mutex> lock(TheRegistry().mutex);
      TheRegistry().allocations.erase(static_cast<char*>(address));
    }
    munmap(address, mapped);
    munmap(view, mapped);
  });
  return buffer;
}

absl::StatusOr<char*> FakeDevice::View(const Buffer& buffer) {
  char* const data = static_cast<char*>(buffer.data);
  if (buffer.kind == MemoryKind::kHost || buffer.kind == MemoryKind::kPinnedHost) return data;
  if (buffer.kind != MemoryKind::kFakeDevice) {
    return absl::InvalidArgumentError("fake device: the memory is neither the host's nor the fake device's");
  }
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto after = registry.allocations.upper_bound(data);
  if (after != registry.allocations.begin()) {
    const auto& [start, allocation] = *std::prev(after);
    const std::size_t offset = static_cast<std::size_t>(data - start);
    if (offset <= allocation.bytes && buffer.bytes <= allocation.bytes - offset) return allocation.view + offset;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("fake device: ", buffer.bytes, " bytes are not within one allocation of the fake device"));
}

absl::Status FakeDevice::CopyIn(const Buffer& to, const void* from) {
  ADJOIN_ASSIGN_OR_RETURN(char* view, View(to));
  if (to.bytes > 0) std::memcpy(view, from, to.bytes);
  return absl::OkStatus();
}

absl::Status FakeDevice::CopyOut(void* to, const Buffer& from) {
  ADJOIN_ASSIGN_OR_RETURN(char* view, View(from));
  if (from.bytes > 0) std::memcpy(to, view, from.bytes);
  return absl::OkStatus();
}

}  // namespace adjoin
