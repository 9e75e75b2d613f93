// A device for tests on machines without one. Its memory ends the program when the host touches it, and its streams are
// threads that do what is queued later, after random delays: a wait that the code under test forgot shows as a wrong
// number. A process has kCount such devices.
//
//   FakeDevice& device = FakeDevice::Get(0);
//   device.SetDelays(seed, absl::Microseconds(200));
//   ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation x, device.Allocate(1024));      // filled with 0xff: NaN, or -1
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceStream> stream, device.CreateStream());
//   ADJOIN_RETURN_IF_ERROR(stream->Copy(x.data, pinned.data, 1024));
//
// The native handle of a stream (Device::StreamOf) is the address of a FakeStream; null is the device's default stream.
//
// Threads: any thread may call anything at any time.
#ifndef ADJOIN_PRIMITIVES_DEVICE_FAKE_DEVICE_H_
#define ADJOIN_PRIMITIVES_DEVICE_FAKE_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/device/device.h"

namespace adjoin {

class FakeDevice;

class FakeStream : public DeviceStream {
 public:
  explicit FakeStream(FakeDevice* device);
  // Does what is left.
  ~FakeStream() override;
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  absl::StatusOr<std::shared_ptr<DeviceEvent>> Record() override;
  absl::Status WaitFor(const DeviceEvent& event) override;
  absl::Status Copy(void* to, const void* from, std::size_t bytes) override;
  absl::Status CopyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t row_bytes,
                        std::size_t rows) override;
  absl::Status Set(void* to, unsigned char value, std::size_t bytes) override;
  absl::Status Synchronize() override;

  // Queues a kernel: a function that touches the device's memory by FakeDevice::View, and holds what it touches.
  void Launch(std::function<void()> kernel);
  // Waits as Synchronize does, uncounted: for the device's own parts and for tests that look at its memory.
  void Drain();

 private:
  void Run();

  FakeDevice* const device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_
  bool ending_ = false;                      // guarded by mutex_
  bool busy_ = false;                        // guarded by mutex_
  std::thread thread_;
};

class FakeDevice : public Device {
 public:
  static constexpr int kCount = 32;
  static FakeDevice& Get(int index);

  MemoryKind kind() const override { return MemoryKind::kFakeDevice; }
  int index() const override { return index_; }
  std::string name() const override;
  int64_t memory_bytes() const override { return int64_t{4} << 30; }
  absl::StatusOr<std::shared_ptr<DeviceStream>> CreateStream() override;
  absl::StatusOr<std::shared_ptr<DeviceStream>> StreamOf(void* native_handle) override;
  absl::StatusOr<DeviceAllocation> Allocate(std::size_t bytes) override;
  absl::StatusOr<DeviceAllocation> AllocatePinned(std::size_t bytes) override;
  absl::StatusOr<MemoryKind> KindOf(const void* address) const override;
  int64_t synchronizations() const override { return synchronizations_.load(); }

  FakeStream& default_stream();

  // Before each piece of work a stream of this device waits for a random time, none in half of the cases.
  void SetDelays(uint64_t seed, absl::Duration longest);

  // The address at which this process may touch `bytes` of memory: the device's own mapping of its memory, or the
  // pointer itself for the host's, with what keeps it mapped.
  // Errors: kInvalidArgument (another kind of memory, or a span that leaves its allocation).
  struct Span {
    char* data = nullptr;
    std::shared_ptr<void> mapping;
  };
  static absl::StatusOr<Span> View(const void* data, std::size_t bytes);
  // The same of memory that somebody else keeps.
  static absl::StatusOr<char*> ViewOf(const void* data, std::size_t bytes);

  // For tests: at once, whatever the streams do. Errors: as View.
  static absl::Status CopyIn(void* to, const void* from, std::size_t bytes);
  static absl::Status CopyOut(void* to, const void* from, std::size_t bytes);

 private:
  friend class FakeStream;
  explicit FakeDevice(int index) : index_(index) {}
  absl::Duration DrawDelay();

  const int index_;
  std::atomic<int64_t> synchronizations_{0};
  std::mutex mutex_;
  std::mt19937_64 random_;                      // guarded by mutex_
  absl::Duration longest_delay_;                // guarded by mutex_
  std::unique_ptr<FakeStream> default_stream_;  // guarded by mutex_
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_FAKE_DEVICE_H_
