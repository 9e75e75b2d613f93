#include "primitives/device/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "primitives/device/row_copy.h"

// The status of a call, named as it is called. The first argument has Check and functions().
#define ADJOIN_CUDA_CALL(of, name, ...) (of).Check((of).functions().name(__VA_ARGS__), #name)

namespace adjoin {
namespace {

// Calls that are about one device, before it is opened or after.
class DeviceCalls {
 public:
  DeviceCalls(const CudaDriver& driver, int index) : driver_(driver), where_(absl::StrCat("CUDA device ", index)) {}

  void SetName(const std::string& name) { absl::StrAppend(&where_, " (", name, ")"); }
  const cuda::Functions& functions() const { return driver_.functions(); }
  absl::Status Check(cuda::Result result, absl::string_view call) const { return driver_.Check(result, call, where_); }

 private:
  const CudaDriver& driver_;
  std::string where_;
};

std::string TextOf(const cuda::Uuid& uuid) {
  const std::string hex = absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof(uuid.bytes)));
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-", hex.substr(16, 4), "-",
                      hex.substr(20));
}

absl::StatusOr<CudaDeviceInfo> InfoOf(DeviceCalls& calls, cuda::DeviceHandle handle, int index) {
  CudaDeviceInfo info;
  info.index = index;
  char text[256] = {};
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(calls, cuDeviceGetName, text, sizeof(text) - 1, handle));
  info.name = text;
  calls.SetName(info.name);
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(calls, cuDeviceGetPCIBusId, text, sizeof(text) - 1, handle));
  info.pci_bus_id = text;
  cuda::Uuid uuid = {};
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(calls, cuDeviceGetUuid_v2, &uuid, handle));
  info.uuid = TextOf(uuid);
  std::size_t bytes = 0;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(calls, cuDeviceTotalMem_v2, &bytes, handle));
  info.memory_bytes = static_cast<int64_t>(bytes);
  return info;
}

absl::StatusOr<int> CountDevices(const CudaDriver& driver) {
  int count = 0;
  ADJOIN_RETURN_IF_ERROR(driver.Check(driver.functions().cuDeviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

cuda::Address AddressOf(const void* memory) { return reinterpret_cast<cuda::Address>(memory); }

}  // namespace

absl::StatusOr<std::vector<CudaDeviceInfo>> ListCudaDevices(const CudaDriver& driver) {
  ADJOIN_ASSIGN_OR_RETURN(const int count, CountDevices(driver));
  std::vector<CudaDeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    DeviceCalls calls(driver, index);
    cuda::DeviceHandle handle = 0;
    ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(calls, cuDeviceGet, &handle, index));
    ADJOIN_ASSIGN_OR_RETURN(CudaDeviceInfo info, InfoOf(calls, handle, index));
    devices.push_back(std::move(info));
  }
  return devices;
}

class CudaDevice::State {
 public:
  static absl::StatusOr<std::shared_ptr<State>> Open(std::shared_ptr<const CudaDriver> driver, int index);
  ~State();

  const CudaDeviceInfo& info() const { return info_; }
  std::size_t max_pitch() const { return max_pitch_; }
  const cuda::Functions& functions() const { return calls_.functions(); }
  absl::Status Check(cuda::Result result, absl::string_view call) const { return calls_.Check(result, call); }
  absl::Status CheckBytes(cuda::Result result, absl::string_view call, std::size_t bytes) const {
    if (result == cuda::kSuccess) return absl::OkStatus();
    return Check(result, absl::StrCat(call, " of ", bytes, " bytes"));
  }

  // Makes the device's context the thread's current one.
  absl::Status Bind() const;

  // An event that nobody uses. The driver's cost of making one is more than that of recording it. One that is still
  // pending may be recorded again: what waits for it already waits for what it was when that was queued.
  absl::StatusOr<cuda::Event> TakeEvent();
  void GiveBack(cuda::Event event);

  std::atomic<int64_t> synchronizations{0};

 private:
  State(std::shared_ptr<const CudaDriver> driver, int index) : driver_(std::move(driver)), calls_(*driver_, index) {}

  const std::shared_ptr<const CudaDriver> driver_;
  DeviceCalls calls_;
  CudaDeviceInfo info_;
  cuda::DeviceHandle handle_ = 0;
  cuda::Context context_ = nullptr;
  std::size_t max_pitch_ = 0;

  std::mutex mutex_;
  std::vector<cuda::Event> free_events_;  // guarded by mutex_
};

absl::StatusOr<std::shared_ptr<CudaDevice::State>> CudaDevice::State::Open(std::shared_ptr<const CudaDriver> driver,
                                                                           int index) {
  ADJOIN_ASSIGN_OR_RETURN(const int count, CountDevices(*driver));
  if (index < 0 || index >= count) {
    return absl::NotFoundError(absl::StrCat("CUDA device ", index, ": this process sees ", count, " CUDA devices",
                                            count > 0 ? absl::StrCat(", 0 to ", count - 1) : ""));
  }
  std::shared_ptr<State> state(new State(std::move(driver), index));
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*state, cuDeviceGet, &state->handle_, index));
  ADJOIN_ASSIGN_OR_RETURN(state->info_, InfoOf(state->calls_, state->handle_, index));
  int unified = 0;
  ADJOIN_RETURN_IF_ERROR(
      ADJOIN_CUDA_CALL(*state, cuDeviceGetAttribute, &unified, cuda::kUnifiedAddressing, state->handle_));
  if (unified == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA device ", index, " (", state->info_.name, "): it has no addresses in common with the host"));
  }
  int max_pitch = 0;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*state, cuDeviceGetAttribute, &max_pitch, cuda::kMaxPitch, state->handle_));
  state->max_pitch_ = static_cast<std::size_t>(std::max(max_pitch, 0));
  cuda::Context context = nullptr;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*state, cuDevicePrimaryCtxRetain, &context, state->handle_));
  state->context_ = context;
  return state;
}

// Errors are of no use here, nor where memory and streams go: a device that was lost, or a driver that has ended before
// the last static variable of the process.
CudaDevice::State::~State() {
  if (context_ == nullptr) return;
  if (!free_events_.empty() && Bind().ok()) {
    for (cuda::Event event : free_events_) (void)functions().cuEventDestroy_v2(event);
  }
  (void)functions().cuDevicePrimaryCtxRelease_v2(handle_);
}

absl::Status CudaDevice::State::Bind() const {
  cuda::Context current = nullptr;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*this, cuCtxGetCurrent, &current));
  if (current == context_) return absl::OkStatus();
  return ADJOIN_CUDA_CALL(*this, cuCtxSetCurrent, context_);
}

absl::StatusOr<cuda::Event> CudaDevice::State::TakeEvent() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_events_.empty()) {
      const cuda::Event event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  cuda::Event event = nullptr;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*this, cuEventCreate, &event, cuda::kEventDisableTiming));
  return event;
}

void CudaDevice::State::GiveBack(cuda::Event event) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_events_.push_back(event);
}

class CudaDevice::PooledEvent : public DeviceEvent {
 public:
  PooledEvent(std::shared_ptr<State> state, cuda::Event event) : state_(std::move(state)), event_(event) {}
  ~PooledEvent() override { state_->GiveBack(event_); }
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;

  absl::StatusOr<bool> Done() const override {
    ADJOIN_RETURN_IF_ERROR(state_->Bind());
    const cuda::Result result = state_->functions().cuEventQuery(event_);
    if (result == cuda::kNotReady) return false;
    ADJOIN_RETURN_IF_ERROR(state_->Check(result, "cuEventQuery"));
    return true;
  }

  cuda::Event handle() const { return event_; }

 private:
  const std::shared_ptr<State> state_;
  const cuda::Event event_;
};

class CudaDevice::StreamOnDevice : public DeviceStream {
 public:
  StreamOnDevice(std::shared_ptr<State> state, cuda::Stream stream, bool owned)
      : state_(std::move(state)), stream_(stream), owned_(owned) {}
  // Returns at once, and what was queued still runs.
  ~StreamOnDevice() override {
    if (owned_ && state_->Bind().ok()) (void)state_->functions().cuStreamDestroy_v2(stream_);
  }
  StreamOnDevice(const StreamOnDevice&) = delete;
  StreamOnDevice& operator=(const StreamOnDevice&) = delete;

  absl::StatusOr<std::shared_ptr<DeviceEvent>> Record() override {
    ADJOIN_RETURN_IF_ERROR(state_->Bind());
    ADJOIN_ASSIGN_OR_RETURN(const cuda::Event event, state_->TakeEvent());
    auto recorded = std::make_shared<PooledEvent>(state_, event);
    ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*state_, cuEventRecord, event, stream_));
    return recorded;
  }

  absl::Status WaitFor(const DeviceEvent& event) override {
    const auto* pooled = dynamic_cast<const PooledEvent*>(&event);
    if (pooled == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("CUDA device ", state_->info().index, " (", state_->info().name,
                       "): its streams cannot wait for an event of another kind of device"));
    }
    ADJOIN_RETURN_IF_ERROR(state_->Bind());
    return ADJOIN_CUDA_CALL(*state_, cuStreamWaitEvent, stream_, pooled->handle(), 0);
  }

  absl::Status Copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(state_->Bind());
    return CopyBound(AddressOf(to), AddressOf(from), bytes);
  }

  absl::Status CopyRows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t row_bytes,
                        std::size_t rows) override;

  absl::Status Set(void* to, unsigned char value, std::size_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    ADJOIN_RETURN_IF_ERROR(state_->Bind());
    return state_->CheckBytes(state_->functions().cuMemsetD8Async(AddressOf(to), value, bytes, stream_),
                              "cuMemsetD8Async", bytes);
  }

  absl::Status Synchronize() override {
    ++state_->synchronizations;
    ADJOIN_RETURN_IF_ERROR(state_->Bind());
    return ADJOIN_CUDA_CALL(*state_, cuStreamSynchronize, stream_);
  }

 private:
  absl::Status CopyBound(cuda::Address to, cuda::Address from, std::size_t bytes) {
    return state_->CheckBytes(state_->functions().cuMemcpyAsync(to, from, bytes, stream_), "cuMemcpyAsync", bytes);
  }

  const std::shared_ptr<State> state_;
  const cuda::Stream stream_;
  const bool owned_;
};

absl::Status CudaDevice::StreamOnDevice::CopyRows(void* to, std::size_t to_pitch, const void* from,
                                                  std::size_t from_pitch, std::size_t row_bytes, std::size_t rows) {
  ADJOIN_RETURN_IF_ERROR(CheckPitches(to_pitch, from_pitch, row_bytes, rows));
  if (row_bytes == 0 || rows == 0) return absl::OkStatus();
  ADJOIN_RETURN_IF_ERROR(state_->Bind());
  if (RowsAreOneSpan(to_pitch, from_pitch, row_bytes, rows)) {
    return CopyBound(AddressOf(to), AddressOf(from), row_bytes * rows);
  }
  if (std::max(to_pitch, from_pitch) > state_->max_pitch()) {  // 2 GiB: slices of a large tensor
    for (std::size_t row = 0; row < rows; ++row) {
      ADJOIN_RETURN_IF_ERROR(CopyBound(AddressOf(to) + row * to_pitch, AddressOf(from) + row * from_pitch, row_bytes));
    }
    return absl::OkStatus();
  }
  cuda::Copy2D copy;
  copy.from_address = AddressOf(from);
  copy.from_pitch = from_pitch;
  copy.to_address = AddressOf(to);
  copy.to_pitch = to_pitch;
  copy.row_bytes = row_bytes;
  copy.rows = rows;
  return state_->CheckBytes(state_->functions().cuMemcpy2DAsync_v2(&copy, stream_), "cuMemcpy2DAsync_v2",
                            row_bytes * rows);
}

absl::StatusOr<std::shared_ptr<Device>> CudaDevice::Open(std::shared_ptr<const CudaDriver> driver, int index) {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<State> state, State::Open(std::move(driver), index));
  return std::shared_ptr<Device>(new CudaDevice(std::move(state)));
}

int CudaDevice::index() const { return state_->info().index; }
std::string CudaDevice::name() const { return state_->info().name; }
int64_t CudaDevice::memory_bytes() const { return state_->info().memory_bytes; }
int64_t CudaDevice::synchronizations() const { return state_->synchronizations; }

absl::StatusOr<std::shared_ptr<DeviceStream>> CudaDevice::CreateStream() {
  ADJOIN_RETURN_IF_ERROR(state_->Bind());
  cuda::Stream stream = nullptr;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*state_, cuStreamCreate, &stream, cuda::kStreamNonBlocking));
  return std::make_shared<StreamOnDevice>(state_, stream, /*owned=*/true);
}

absl::StatusOr<std::shared_ptr<DeviceStream>> CudaDevice::StreamOf(void* native_handle) {
  return std::make_shared<StreamOnDevice>(state_, static_cast<cuda::Stream>(native_handle), /*owned=*/false);
}

absl::StatusOr<DeviceAllocation> CudaDevice::Allocate(std::size_t bytes) {
  if (bytes == 0) return DeviceAllocation{};
  ADJOIN_RETURN_IF_ERROR(state_->Bind());
  cuda::Address address = 0;
  ADJOIN_RETURN_IF_ERROR(
      state_->CheckBytes(state_->functions().cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2", bytes));
  void* const data = reinterpret_cast<void*>(address);
  return DeviceAllocation{
      .data = data, .bytes = bytes, .keepalive = std::shared_ptr<void>(data, [state = state_](void* memory) {
                                      if (state->Bind().ok()) (void)state->functions().cuMemFree_v2(AddressOf(memory));
                                    })};
}

absl::StatusOr<DeviceAllocation> CudaDevice::AllocatePinned(std::size_t bytes) {
  if (bytes == 0) return DeviceAllocation{};
  ADJOIN_RETURN_IF_ERROR(state_->Bind());
  void* data = nullptr;
  ADJOIN_RETURN_IF_ERROR(state_->CheckBytes(state_->functions().cuMemHostAlloc(&data, bytes, cuda::kHostAllocPortable),
                                            "cuMemHostAlloc", bytes));
  return DeviceAllocation{
      .data = data, .bytes = bytes, .keepalive = std::shared_ptr<void>(data, [state = state_](void* memory) {
                                      if (state->Bind().ok()) (void)state->functions().cuMemFreeHost(memory);
                                    })};
}

absl::StatusOr<MemoryKind> CudaDevice::KindOf(const void* address) const {
  if (address == nullptr) return MemoryKind::kHost;
  ADJOIN_RETURN_IF_ERROR(state_->Bind());
  unsigned int type = 0;
  const cuda::Result result =
      state_->functions().cuPointerGetAttribute(&type, cuda::kPointerMemoryType, AddressOf(address));
  if (result == cuda::kInvalidValue) return MemoryKind::kHost;  // the driver's word for memory that is not its own
  ADJOIN_RETURN_IF_ERROR(state_->Check(result, "cuPointerGetAttribute"));
  return type == cuda::kMemoryDevice ? MemoryKind::kCuda : MemoryKind::kPinnedHost;
}

absl::StatusOr<int64_t> FreeBytesOfCudaDevice(std::shared_ptr<const CudaDriver> driver, int index) {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<CudaDevice::State> state, CudaDevice::State::Open(std::move(driver), index));
  cuda::Context before = nullptr;
  ADJOIN_RETURN_IF_ERROR(ADJOIN_CUDA_CALL(*state, cuCtxGetCurrent, &before));
  ADJOIN_RETURN_IF_ERROR(state->Bind());
  std::size_t free = 0;
  std::size_t total = 0;
  const absl::Status measured = ADJOIN_CUDA_CALL(*state, cuMemGetInfo_v2, &free, &total);
  // The thread's context of before may have ended in the meantime.
  if (state->functions().cuCtxSetCurrent(before) != cuda::kSuccess) (void)state->functions().cuCtxSetCurrent(nullptr);
  ADJOIN_RETURN_IF_ERROR(measured);
  return static_cast<int64_t>(free);
}

}  // namespace adjoin
