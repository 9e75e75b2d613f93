#include "primitives/device/host_device.h"

#include <unistd.h>

#include <cstring>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/device/row_copy.h"

namespace adjoin {
namespace {

constexpr std::align_val_t kAlignment{64};

class HostEvent : public DeviceEvent {
 public:
  absl::StatusOr<bool> Done() const override { return true; }
};

class HostStream : public DeviceStream {
 public:
  explicit HostStream(std::shared_ptr<std::atomic<int64_t>> synchronizations)
      : synchronizations_(std::move(synchronizations)) {}

  absl::StatusOr<std::shared_ptr<DeviceEvent>> Record() override { return std::make_shared<HostEvent>(); }

  absl::Status WaitFor(const DeviceEvent& event) override {
    if (dynamic_cast<const HostEvent*>(&event) != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError("host: a stream of the host cannot wait for an event of another kind of device");
  }

  absl::Status Copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

  absl::Status CopyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t row_bytes,
                        std::size_t rows) override {
    ADJOIN_RETURN_IF_ERROR(CheckPitches(to_pitch, from_pitch, row_bytes, rows));
    if (row_bytes == 0 || rows == 0) return absl::OkStatus();
    if (RowsAreOneSpan(to_pitch, from_pitch, row_bytes, rows)) return Copy(to, from, row_bytes * rows);
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
                  row_bytes);
    }
    return absl::OkStatus();
  }

  absl::Status Set(void* to, unsigned char value, std::size_t bytes) override {
    if (bytes > 0) std::memset(to, value, bytes);
    return absl::OkStatus();
  }

  absl::Status Synchronize() override {
    ++*synchronizations_;
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<std::atomic<int64_t>> synchronizations_;
};

}  // namespace

std::shared_ptr<Device> HostDevice::Create() { return std::shared_ptr<Device>(new HostDevice); }

int64_t HostDevice::memory_bytes() const {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? pages * page_bytes : 0;
}

absl::StatusOr<std::shared_ptr<DeviceStream>> HostDevice::CreateStream() {
  return std::make_shared<HostStream>(synchronizations_);
}

absl::StatusOr<std::shared_ptr<DeviceStream>> HostDevice::StreamOf(void* native_handle) {
  if (native_handle == nullptr) return CreateStream();
  return absl::InvalidArgumentError("host: no other library has streams of the host; the handle must be null");
}

absl::StatusOr<DeviceAllocation> HostDevice::Allocate(std::size_t bytes) {
  if (bytes == 0) return DeviceAllocation{};
  const auto most = static_cast<std::size_t>(memory_bytes());
  void* const data = most > 0 && bytes > most ? nullptr : ::operator new(bytes, kAlignment, std::nothrow);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("host: there is no memory for ", bytes, " bytes; the machine has ", most));
  }
  return DeviceAllocation{.data = data, .bytes = bytes, .keepalive = std::shared_ptr<void>(data, [](void* memory) {
                                                          ::operator delete(memory, kAlignment);
                                                        })};
}

}  // namespace adjoin
