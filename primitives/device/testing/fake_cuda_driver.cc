// The functions of CUDA's driver that this project calls, on host memory (fake_cuda.h), and FakeCuda's own. It is a
// library of its own, which tests load in the place of libcuda.so.1.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>

#include "primitives/device/cuda_functions.h"
#include "primitives/device/testing/fake_cuda_controls.h"
#include "primitives/device/testing/fake_cuda_state.h"

using namespace adjoin::cuda;  // NOLINT: the functions are C's, their types are not

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kMostDevices = 8;
constexpr int kVersion = 12040;

constexpr struct {
  Result result;
  const char* name;
  const char* text;
} kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kStubLibrary, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kEccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

Result CopyText(Call& call, const std::string& text, char* to, int size) {
  if (size <= static_cast<int>(text.size())) return call.Refuse(kInvalidValue, "without room for the text");
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

Result FreeMemory(Call& call, Address address, bool on_device) {
  if (call.result != kSuccess) return call.result;
  call.driver.RunAll();
  auto found = call.driver.memory.find(address);
  if (found == call.driver.memory.end() || found->second.on_device != on_device) {
    return call.Refuse(kInvalidValue, "of unknown memory");
  }
  call.driver.Release(found->first, found->second);
  call.driver.memory.erase(found);
  return kSuccess;
}

}  // namespace

extern "C" {

// ---- What tests call.

void FakeCudaReset(int devices) {
  Driver& driver = TheDriver();
  std::lock_guard<std::mutex> lock(driver.mutex);
  for (const auto& [address, allocation] : driver.memory) driver.Release(address, allocation);
  if (driver.addresses == nullptr) {
    void* const addresses = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) std::abort();
    driver.addresses = static_cast<char*>(addresses);
  }
  ++driver.generation;
  driver.devices = std::min(devices, kMostDevices);
  driver.initialized = false;
  driver.attributes = {{kMaxPitch, 2147483647}, {kUnifiedAddressing, 1}};
  driver.contexts.assign(static_cast<std::size_t>(driver.devices), {});
  for (int device = 0; device < driver.devices; ++device) driver.contexts[device].device = device;
  driver.streams.clear();
  driver.events.clear();
  driver.memory.clear();
  driver.addresses_used = 0;
  driver.device_allocations = driver.pinned_allocations = 0;
  driver.held = false;
  driver.queued.clear();
  driver.works = 0;
  driver.failures.clear();
  driver.log.clear();
  driver.mistakes.clear();
}

void FakeCudaFail(const char* call, int result, int after) {
  std::lock_guard<std::mutex> lock(TheDriver().mutex);
  TheDriver().failures[call] = {static_cast<Result>(result), after};
}

void FakeCudaSetAttribute(int attribute, int value) {
  std::lock_guard<std::mutex> lock(TheDriver().mutex);
  TheDriver().attributes[attribute] = value;
}

void FakeCudaHold(int hold) {
  std::lock_guard<std::mutex> lock(TheDriver().mutex);
  TheDriver().held = hold != 0;
  if (hold == 0) TheDriver().RunAll();
}

// Each thread has a text of its own, which lives until its next call.
const char* FakeCudaLog() {
  static thread_local std::string text;
  std::lock_guard<std::mutex> lock(TheDriver().mutex);
  return (text = TheDriver().log).c_str();
}

const char* FakeCudaMistakes() {
  static thread_local std::string text;
  std::lock_guard<std::mutex> lock(TheDriver().mutex);
  return (text = TheDriver().mistakes).c_str();
}

const char* FakeCudaLive() {
  static thread_local std::string text;
  std::lock_guard<std::mutex> lock(TheDriver().mutex);
  return (text = TheDriver().LiveIn(nullptr)).c_str();
}

// ---- CUDA's.

Result cuInit(unsigned int flags) {
  Call call("cuInit", Needs::kNothing, flags);
  if (call.result != kSuccess) return call.result;
  if (call.driver.devices == 0) return kNoDevice;
  call.driver.initialized = true;
  return kSuccess;
}

Result cuDriverGetVersion(int* version) {
  Call call("cuDriverGetVersion", Needs::kNothing);
  if (call.result == kSuccess) *version = kVersion;
  return call.result;
}

Result cuGetErrorName(Result error, const char** name) {
  Call call("cuGetErrorName", Needs::kNothing, static_cast<int>(error));
  *name = nullptr;
  for (const auto& known : kErrors) {
    if (known.result == error) *name = known.name;
  }
  return *name == nullptr ? kInvalidValue : kSuccess;
}

Result cuGetErrorString(Result error, const char** text) {
  Call call("cuGetErrorString", Needs::kNothing, static_cast<int>(error));
  *text = nullptr;
  for (const auto& known : kErrors) {
    if (known.result == error) *text = known.text;
  }
  return *text == nullptr ? kInvalidValue : kSuccess;
}

Result cuDeviceGetCount(int* count) {
  Call call("cuDeviceGetCount", Needs::kInit);
  if (call.result == kSuccess) *count = call.driver.devices;
  return call.result;
}

Result cuDeviceGet(DeviceHandle* device, int index) {
  Call call("cuDeviceGet", Needs::kInit, index);
  if (call.Device(index)) *device = index;
  return call.result;
}

Result cuDeviceGetName(char* name, int size, DeviceHandle device) {
  Call call("cuDeviceGetName", Needs::kInit, device);
  return call.Device(device) ? CopyText(call, "Fake GPU " + std::to_string(device), name, size) : call.result;
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle device) {
  Call call("cuDeviceGetAttribute", Needs::kInit, static_cast<int>(attribute), device);
  if (!call.Device(device)) return call.result;
  auto found = call.driver.attributes.find(attribute);
  if (found == call.driver.attributes.end()) return call.Refuse(kInvalidValue, "of an unknown attribute");
  *value = found->second;
  return kSuccess;
}

Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceHandle device) {
  Call call("cuDeviceTotalMem_v2", Needs::kInit, device);
  if (call.Device(device)) *bytes = kDeviceBytes;
  return call.result;
}

Result cuDeviceGetPCIBusId(char* id, int size, DeviceHandle device) {
  Call call("cuDeviceGetPCIBusId", Needs::kInit, device);
  return call.Device(device) ? CopyText(call, "0000:0" + std::to_string(device) + ":00.0", id, size) : call.result;
}

Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceHandle device) {
  Call call("cuDeviceGetUuid_v2", Needs::kInit, device);
  if (!call.Device(device)) return call.result;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xa0 + i);
  uuid->bytes[15] = static_cast<char>(device);
  return kSuccess;
}

Result cuDevicePrimaryCtxRetain(Context* context, DeviceHandle device) {
  Call call("cuDevicePrimaryCtxRetain", Needs::kInit, device);
  if (!call.Device(device)) return call.result;
  *context = &call.driver.contexts[device];
  ++(*context)->retained;
  return kSuccess;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceHandle device) {
  Call call("cuDevicePrimaryCtxRelease_v2", Needs::kInit, device);
  if (!call.Device(device)) return call.result;
  Driver& driver = call.driver;
  const Context context = &driver.contexts[device];
  if (context->retained == 0) return call.Refuse(kInvalidContext, "of a context that nobody retains");
  if (--context->retained > 0) return kSuccess;
  driver.RunAll();
  if (const std::string rest = driver.LiveIn(context); !rest.empty()) {
    driver.mistakes += "the context ended before " + rest + "\n";
  }
  for (auto& stream : driver.streams) stream.alive = stream.alive && stream.context != context;
  for (auto& event : driver.events) event.alive = event.alive && event.context != context;
  for (auto it = driver.memory.begin(); it != driver.memory.end();) {
    if (it->second.context == context) {
      driver.Release(it->first, it->second);
      it = driver.memory.erase(it);
    } else {
      ++it;
    }
  }
  return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
  Call call("cuCtxSetCurrent", Needs::kInit, context);
  if (call.result != kSuccess) return call.result;
  if (context != nullptr && context->retained == 0) return kInvalidContext;
  CurrentContext() = context;
  return kSuccess;
}

Result cuCtxGetCurrent(Context* context) {
  Call call("cuCtxGetCurrent", Needs::kInit);
  if (call.result == kSuccess) *context = CurrentContext();
  return call.result;
}

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  Call call("cuMemGetInfo_v2", Needs::kContext);
  if (call.result != kSuccess) return call.result;
  *total = kDeviceBytes;
  *free = kDeviceBytes - call.driver.UsedBytes(CurrentContext()->device);
  return kSuccess;
}

Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  Call call("cuMemAlloc_v2", Needs::kContext, bytes);
  if (call.result != kSuccess) return call.result;
  if (bytes == 0) return call.Refuse(kInvalidValue, "of no bytes");
  Driver& driver = call.driver;
  if (bytes > kDeviceBytes - driver.UsedBytes(CurrentContext()->device)) return kOutOfMemory;
  const std::size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  if (mapped > kAddresses - driver.addresses_used) return kOutOfMemory;
  char* const memory = driver.addresses + driver.addresses_used;
  if (mprotect(memory, mapped, PROT_READ | PROT_WRITE) != 0) return kOutOfMemory;
  std::memset(memory, 0xcd, std::min(mapped, kPage));  // not zero, as on a real device
  driver.addresses_used += mapped;
  *address = reinterpret_cast<Address>(memory);
  driver.memory[*address] = {bytes, true, ++driver.device_allocations, CurrentContext()};
  return kSuccess;
}

Result cuMemFree_v2(Address address) {
  Call call("cuMemFree_v2", Needs::kContext, Memory{address});
  return FreeMemory(call, address, /*on_device=*/true);
}

Result cuMemHostAlloc(void** memory, std::size_t bytes, unsigned int flags) {
  Call call("cuMemHostAlloc", Needs::kContext, bytes, flags);
  if (call.result != kSuccess) return call.result;
  if (bytes == 0) return call.Refuse(kInvalidValue, "of no bytes");
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return kOutOfMemory;
  call.driver.memory[reinterpret_cast<Address>(*memory)] = {bytes, false, ++call.driver.pinned_allocations,
                                                            CurrentContext()};
  return kSuccess;
}

Result cuMemFreeHost(void* memory) {
  const Address address = reinterpret_cast<Address>(memory);
  Call call("cuMemFreeHost", Needs::kContext, Memory{address});
  return FreeMemory(call, address, /*on_device=*/false);
}

Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  Call call("cuMemcpyAsync", Needs::kContext, Memory{to}, Memory{from}, bytes, stream);
  if (!call.On(stream) || !call.Touches(to, bytes, true) || !call.Touches(from, bytes, true)) return call.result;
  call.driver.Queue([=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}

Result cuMemcpy2DAsync_v2(const Copy2D* copy, Stream stream) {
  Call call("cuMemcpy2DAsync_v2", Needs::kContext, Memory{copy->to_address}, copy->to_pitch, Memory{copy->from_address},
            copy->from_pitch, copy->row_bytes, copy->rows, stream);
  if (!call.On(stream)) return call.result;
  const std::size_t most = static_cast<std::size_t>(call.driver.attributes[kMaxPitch]);
  if (copy->from_type != kMemoryUnified || copy->to_type != kMemoryUnified || copy->from_x_bytes != 0 ||
      copy->from_y != 0 || copy->to_x_bytes != 0 || copy->to_y != 0) {
    return call.Refuse(kInvalidValue, "in a form that the fake driver does not know");
  }
  if (copy->from_pitch < copy->row_bytes || copy->to_pitch < copy->row_bytes || copy->from_pitch > most ||
      copy->to_pitch > most || copy->rows == 0 || copy->row_bytes == 0) {
    return call.Refuse(kInvalidValue, "with a wrong pitch");
  }
  if (!call.Touches(copy->to_address, (copy->rows - 1) * copy->to_pitch + copy->row_bytes, true) ||
      !call.Touches(copy->from_address, (copy->rows - 1) * copy->from_pitch + copy->row_bytes, true)) {
    return call.result;
  }
  call.driver.Queue([c = *copy] {
    for (std::size_t row = 0; row < c.rows; ++row) {
      std::memcpy(reinterpret_cast<void*>(c.to_address + row * c.to_pitch),
                  reinterpret_cast<const void*>(c.from_address + row * c.from_pitch), c.row_bytes);
    }
  });
  return kSuccess;
}

Result cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, Stream stream) {
  Call call("cuMemsetD8Async", Needs::kContext, Memory{to}, static_cast<int>(value), bytes, stream);
  if (!call.On(stream) || !call.Touches(to, bytes, false)) return call.result;
  call.driver.Queue([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return kSuccess;
}

Result cuPointerGetAttribute(void* value, PointerAttribute attribute, Address address) {
  Call call("cuPointerGetAttribute", Needs::kContext, static_cast<int>(attribute), Memory{address});
  if (call.result != kSuccess) return call.result;
  if (attribute != kPointerMemoryType) return call.Refuse(kInvalidValue, "of an unknown attribute");
  Address begin = 0;
  const Allocation* allocation = call.driver.Find(address, &begin);
  if (allocation == nullptr) return kInvalidValue;
  *static_cast<unsigned int*>(value) = allocation->on_device ? kMemoryDevice : kMemoryHost;
  return kSuccess;
}

Result cuStreamCreate(Stream* stream, unsigned int flags) {
  Call call("cuStreamCreate", Needs::kContext, flags);
  if (call.result != kSuccess) return call.result;
  const int number = static_cast<int>(call.driver.streams.size()) + 1;
  call.driver.streams.push_back({CurrentContext(), number});
  *stream = &call.driver.streams.back();
  return kSuccess;
}

Result cuStreamDestroy_v2(Stream stream) {
  Call call("cuStreamDestroy_v2", Needs::kContext, stream);
  if (call.result == kSuccess && stream == nullptr) return call.Refuse(kInvalidHandle, "of the default stream");
  if (call.On(stream)) stream->alive = false;
  return call.result;
}

Result cuStreamWaitEvent(Stream stream, Event event, unsigned int flags) {
  Call call("cuStreamWaitEvent", Needs::kContext, stream, event, flags);
  (void)(call.On(stream) && call.Of(event));
  return call.result;
}

Result cuStreamSynchronize(Stream stream) {
  Call call("cuStreamSynchronize", Needs::kContext, stream);
  if (call.On(stream)) call.driver.RunAll();
  return call.result;
}

Result cuEventCreate(Event* event, unsigned int flags) {
  Call call("cuEventCreate", Needs::kContext, flags);
  if (call.result != kSuccess) return call.result;
  const int number = static_cast<int>(call.driver.events.size()) + 1;
  call.driver.events.push_back({CurrentContext(), number});
  *event = &call.driver.events.back();
  return kSuccess;
}

Result cuEventRecord(Event event, Stream stream) {
  Call call("cuEventRecord", Needs::kContext, event, stream);
  if (!call.On(stream) || !call.Of(event)) return call.result;
  if (event->context != CurrentContext()) return call.Refuse(kInvalidHandle, "with an event of another context");
  event->recorded = call.driver.works;
  return kSuccess;
}

Result cuEventQuery(Event event) {
  Call call("cuEventQuery", Needs::kContext, event);
  if (!call.Of(event)) return call.result;
  return call.driver.IsDone(*event) ? kSuccess : kNotReady;
}

Result cuEventDestroy_v2(Event event) {
  Call call("cuEventDestroy_v2", Needs::kContext, event);
  if (call.Of(event)) event->alive = false;
  return call.result;
}

}  // extern "C"

// Every function of the table is here, as the table declares it.
#define ADJOIN_CUDA_SAME(name, parameters) static_assert(std::is_same_v<decltype(&::name), decltype(Functions::name)>);
ADJOIN_CUDA_FUNCTIONS(ADJOIN_CUDA_SAME)
#undef ADJOIN_CUDA_SAME
#define ADJOIN_CONTROL_SAME(result, name, parameters) \
  static_assert(std::is_same_v<decltype(::name), result parameters>);
ADJOIN_FAKE_CUDA_CONTROLS(ADJOIN_CONTROL_SAME)
#undef ADJOIN_CONTROL_SAME
