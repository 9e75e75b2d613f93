#include "primitives/device/fake_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "primitives/device/row_copy.h"

namespace adjoin {
namespace {

// The same pages twice: at an address without any access, which users see, and at one for the device itself.
struct Mapping {
  char* hidden = nullptr;
  char* view = nullptr;
  std::size_t bytes = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<const char*, std::weak_ptr<Mapping>> mappings;  // by `hidden`; guarded by mutex
  std::map<const char*, std::size_t> pinned;               // bytes by address; guarded by mutex
};

Registry& TheRegistry() {
  static Registry* registry = new Registry;  // memory may be freed after the end of main
  return *registry;
}

void Unmap(Mapping* mapping) {
  {
    std::lock_guard<std::mutex> lock(TheRegistry().mutex);
    TheRegistry().mappings.erase(mapping->hidden);
  }
  munmap(mapping->hidden, mapping->bytes);
  munmap(mapping->view, mapping->bytes);
  delete mapping;
}

absl::StatusOr<std::shared_ptr<Mapping>> Map(std::size_t bytes) {
  const auto failed = [bytes](const char* call) {
    return absl::ResourceExhaustedError(
        absl::StrCat("fake device: ", call, " of ", bytes, " bytes: ", std::strerror(errno)));
  };
  const int fd = memfd_create("adjoin_fake_device", MFD_CLOEXEC);
  if (fd < 0) return failed("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const absl::Status status = failed("ftruncate");
    close(fd);
    return status;
  }
  void* hidden = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  void* view = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const absl::Status status = hidden == MAP_FAILED || view == MAP_FAILED ? failed("mmap") : absl::OkStatus();
  close(fd);
  if (!status.ok()) {
    if (hidden != MAP_FAILED) munmap(hidden, bytes);
    if (view != MAP_FAILED) munmap(view, bytes);
    return status;
  }
  return std::shared_ptr<Mapping>(new Mapping{static_cast<char*>(hidden), static_cast<char*>(view), bytes}, &Unmap);
}

// The end of the work before it, shared by the stream that records it and those that wait for it.
class FakeEvent : public DeviceEvent {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;  // guarded by mutex

    void Set() {
      std::lock_guard<std::mutex> lock(mutex);
      done = true;
      changed.notify_all();
    }
    void Await() {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [this] { return done; });
    }
  };

  absl::StatusOr<bool> Done() const override {
    std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->done;
  }
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

FakeStream::FakeStream(FakeDevice* device) : device_(device), thread_([this] { Run(); }) {}

FakeStream::~FakeStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void FakeStream::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    busy_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    if (const absl::Duration delay = device_->DrawDelay(); delay > absl::ZeroDuration()) absl::SleepFor(delay);
    work();
    work = nullptr;  // what it holds goes before anybody learns that it is done
    lock.lock();
  }
}

void FakeStream::Launch(std::function<void()> kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(kernel));
  changed_.notify_all();
}

void FakeStream::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

absl::Status FakeStream::Synchronize() {
  ++device_->synchronizations_;
  Drain();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DeviceEvent>> FakeStream::Record() {
  auto event = std::make_shared<FakeEvent>();
  Launch([state = event->state()] { state->Set(); });
  return event;
}

absl::Status FakeStream::WaitFor(const DeviceEvent& event) {
  const auto* fake = dynamic_cast<const FakeEvent*>(&event);
  if (fake == nullptr) return absl::InvalidArgumentError("fake device: an event of another kind of device");
  Launch([state = fake->state()] { state->Await(); });
  return absl::OkStatus();
}

absl::Status FakeStream::Copy(void* to, const void* from, std::size_t bytes) {
  return CopyRows(to, bytes, from, bytes, bytes, 1);
}

absl::Status FakeStream::CopyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                  std::size_t row_bytes, std::size_t rows) {
  ADJOIN_RETURN_IF_ERROR(CheckPitches(to_pitch, from_pitch, row_bytes, rows));
  if (rows == 0 || row_bytes == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(FakeDevice::Span target, FakeDevice::View(to, (rows - 1) * to_pitch + row_bytes));
  ADJOIN_ASSIGN_OR_RETURN(FakeDevice::Span source, FakeDevice::View(from, (rows - 1) * from_pitch + row_bytes));
  Launch([=] {
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(target.data + row * to_pitch, source.data + row * from_pitch, row_bytes);
    }
  });
  return absl::OkStatus();
}

absl::Status FakeStream::Set(void* to, unsigned char value, std::size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  ADJOIN_ASSIGN_OR_RETURN(FakeDevice::Span target, FakeDevice::View(to, bytes));
  Launch([=] { std::memset(target.data, value, bytes); });
  return absl::OkStatus();
}

FakeDevice& FakeDevice::Get(int index) {
  static auto* const devices = [] {
    auto* made = new std::array<FakeDevice*, kCount>;  // their threads may run to the end of the process
    for (int i = 0; i < kCount; ++i) (*made)[i] = new FakeDevice(i);
    return made;
  }();
  return *devices->at(static_cast<std::size_t>(index));
}

std::string FakeDevice::name() const { return absl::StrCat("fake device ", index_); }

FakeStream& FakeDevice::default_stream() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (default_stream_ == nullptr) default_stream_ = std::make_unique<FakeStream>(this);
  return *default_stream_;
}

absl::StatusOr<std::shared_ptr<DeviceStream>> FakeDevice::CreateStream() { return std::make_shared<FakeStream>(this); }

absl::StatusOr<std::shared_ptr<DeviceStream>> FakeDevice::StreamOf(void* native_handle) {
  FakeStream* stream = native_handle == nullptr ? &default_stream() : static_cast<FakeStream*>(native_handle);
  return std::shared_ptr<DeviceStream>(std::shared_ptr<void>(), stream);
}

void FakeDevice::SetDelays(uint64_t seed, absl::Duration longest) {
  std::lock_guard<std::mutex> lock(mutex_);
  random_.seed(seed + static_cast<uint64_t>(index_));
  longest_delay_ = longest;
}

absl::Duration FakeDevice::DrawDelay() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (longest_delay_ <= absl::ZeroDuration() || random_() % 2 == 0) return absl::ZeroDuration();
  return longest_delay_ * (static_cast<double>(random_() % 1000) / 1000);
}

absl::StatusOr<DeviceAllocation> FakeDevice::Allocate(std::size_t bytes) {
  if (bytes == 0) return DeviceAllocation();
  if (bytes > static_cast<std::size_t>(memory_bytes())) {
    return absl::ResourceExhaustedError(absl::StrCat(name(), ": no memory for ", bytes, " bytes"));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Mapping> mapping, Map(bytes));
  std::memset(mapping->view, 0xff, bytes);
  std::lock_guard<std::mutex> lock(TheRegistry().mutex);
  TheRegistry().mappings[mapping->hidden] = mapping;
  return DeviceAllocation{mapping->hidden, bytes, mapping};
}

absl::StatusOr<DeviceAllocation> FakeDevice::AllocatePinned(std::size_t bytes) {
  if (bytes == 0) return DeviceAllocation();
  if (bytes > static_cast<std::size_t>(memory_bytes())) {
    return absl::ResourceExhaustedError(absl::StrCat(name(), ": no pinned memory for ", bytes, " bytes"));
  }
  auto memory = std::shared_ptr<char[]>(new char[bytes], [](char* data) {
    {
      std::lock_guard<std::mutex> lock(TheRegistry().mutex);
      TheRegistry().pinned.erase(data);
    }
    delete[] data;
  });
  std::memset(memory.get(), 0xff, bytes);
  std::lock_guard<std::mutex> lock(TheRegistry().mutex);
  TheRegistry().pinned[memory.get()] = bytes;
  return DeviceAllocation{memory.get(), bytes, memory};
}

absl::StatusOr<MemoryKind> FakeDevice::KindOf(const void* address) const {
  const char* const at = static_cast<const char*>(address);
  std::shared_ptr<Mapping> mapping;  // may be the last to hold it, so it goes after the lock
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto pinned = registry.pinned.upper_bound(at);
  if (pinned != registry.pinned.begin()) {
    const auto& [start, bytes] = *std::prev(pinned);
    if (at < start + bytes) return MemoryKind::kPinnedHost;
  }
  const auto after = registry.mappings.upper_bound(at);
  if (after != registry.mappings.begin()) {
    mapping = std::prev(after)->second.lock();
    if (mapping != nullptr && at < mapping->hidden + mapping->bytes) return MemoryKind::kFakeDevice;
  }
  return MemoryKind::kHost;
}

absl::StatusOr<FakeDevice::Span> FakeDevice::View(const void* data, std::size_t bytes) {
  char* const at = static_cast<char*>(const_cast<void*>(data));
  std::shared_ptr<Mapping> mapping;  // may be the last to hold it, so it goes after the lock
  {
    Registry& registry = TheRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    const auto after = registry.mappings.upper_bound(at);
    if (after != registry.mappings.begin()) mapping = std::prev(after)->second.lock();
  }
  if (mapping == nullptr || at >= mapping->hidden + mapping->bytes) return Span{at, nullptr};
  const std::size_t offset = static_cast<std::size_t>(at - mapping->hidden);
  if (bytes > mapping->bytes - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("fake device: ", bytes, " bytes are not within one allocation of the fake device"));
  }
  return Span{mapping->view + offset, mapping};
}

absl::StatusOr<char*> FakeDevice::ViewOf(const void* data, std::size_t bytes) {
  ADJOIN_ASSIGN_OR_RETURN(const Span span, View(data, bytes));
  return span.data;
}

absl::Status FakeDevice::CopyIn(void* to, const void* from, std::size_t bytes) {
  ADJOIN_ASSIGN_OR_RETURN(const Span target, View(to, bytes));
  if (bytes > 0) std::memcpy(target.data, from, bytes);
  return absl::OkStatus();
}

absl::Status FakeDevice::CopyOut(void* to, const void* from, std::size_t bytes) {
  ADJOIN_ASSIGN_OR_RETURN(const Span source, View(from, bytes));
  if (bytes > 0) std::memcpy(to, source.data, bytes);
  return absl::OkStatus();
}

}  // namespace adjoin
