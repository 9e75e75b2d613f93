// The part of CUDA's driver API that this project calls, declared by hand, since neither its headers nor its library
// exist where this is built. Values and signatures are those of CUDA 11.4 to 13; the names of functions are those of
// the library's symbols (cuMemAlloc_v2, where CUDA's header has a macro cuMemAlloc).
//
// A function is one line of ADJOIN_CUDA_FUNCTIONS: it is declared, loaded (cuda_driver.h), and its fake of the tests is
// checked, from there.
#ifndef ADJOIN_PRIMITIVES_DEVICE_CUDA_FUNCTIONS_H_
#define ADJOIN_PRIMITIVES_DEVICE_CUDA_FUNCTIONS_H_

#include <cstddef>

namespace adjoin::cuda {

using DeviceHandle = int;            // CUdevice
using Address = unsigned long long;  // CUdeviceptr of 64-bit systems
using Context = struct ContextOfDriver*;
using Stream = struct StreamOfDriver*;  // null: the default stream
using Event = struct EventOfDriver*;

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kContained = 226,
  kInvalidHandle = 400,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kTensorMemoryLeak = 721,
  kSystemNotReady = 802,
  kMpsConnectionFailed = 805,
  kMpsRpcFailure = 806,
  kMpsServerNotReady = 807,
  kMpsClientTerminated = 810,
  kExternalDevice = 911,
};

enum DeviceAttribute : int { kMaxPitch = 11, kUnifiedAddressing = 41 };
enum PointerAttribute : int { kPointerMemoryType = 2 };
enum MemoryType : unsigned int { kMemoryHost = 1, kMemoryDevice = 2, kMemoryUnified = 4 };

constexpr unsigned int kStreamNonBlocking = 1;
constexpr unsigned int kEventDisableTiming = 2;
constexpr unsigned int kHostAllocPortable = 1;

struct Uuid {
  char bytes[16];
};

// CUDA_MEMCPY2D_v2. With kMemoryUnified the driver reads the address and the pitch only.
struct Copy2D {
  std::size_t from_x_bytes = 0;
  std::size_t from_y = 0;
  MemoryType from_type = kMemoryUnified;
  const void* from_host = nullptr;
  Address from_address = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to_x_bytes = 0;
  std::size_t to_y = 0;
  MemoryType to_type = kMemoryUnified;
  void* to_host = nullptr;
  Address to_address = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
};

// X(name, parameters): all return a Result.
#define ADJOIN_CUDA_FUNCTIONS(X)                                                          \
  X(cuInit, (unsigned int flags))                                                         \
  X(cuDriverGetVersion, (int* version))                                                   \
  X(cuGetErrorName, (Result error, const char** name))                                    \
  X(cuGetErrorString, (Result error, const char** text))                                  \
  X(cuDeviceGetCount, (int* count))                                                       \
  X(cuDeviceGet, (DeviceHandle * device, int index))                                      \
  X(cuDeviceGetName, (char* name, int size, DeviceHandle device))                         \
  X(cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, DeviceHandle device))   \
  X(cuDeviceTotalMem_v2, (std::size_t * bytes, DeviceHandle device))                      \
  X(cuDeviceGetPCIBusId, (char* id, int size, DeviceHandle device))                       \
  X(cuDeviceGetUuid_v2, (Uuid * uuid, DeviceHandle device))                               \
  X(cuDevicePrimaryCtxRetain, (Context * context, DeviceHandle device))                   \
  X(cuDevicePrimaryCtxRelease_v2, (DeviceHandle device))                                  \
  X(cuCtxSetCurrent, (Context context))                                                   \
  X(cuCtxGetCurrent, (Context * context))                                                 \
  X(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                           \
  X(cuMemAlloc_v2, (Address * address, std::size_t bytes))                                \
  X(cuMemFree_v2, (Address address))                                                      \
  X(cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned int flags))               \
  X(cuMemFreeHost, (void* memory))                                                        \
  X(cuMemcpyAsync, (Address to, Address from, std::size_t bytes, Stream stream))          \
  X(cuMemcpy2DAsync_v2, (const Copy2D* copy, Stream stream))                              \
  X(cuMemsetD8Async, (Address to, unsigned char value, std::size_t bytes, Stream stream)) \
  X(cuPointerGetAttribute, (void* value, PointerAttribute attribute, Address address))    \
  X(cuStreamCreate, (Stream * stream, unsigned int flags))                                \
  X(cuStreamDestroy_v2, (Stream stream))                                                  \
  X(cuStreamWaitEvent, (Stream stream, Event event, unsigned int flags))                  \
  X(cuStreamSynchronize, (Stream stream))                                                 \
  X(cuEventCreate, (Event * event, unsigned int flags))                                   \
  X(cuEventRecord, (Event event, Stream stream))                                          \
  X(cuEventQuery, (Event event))                                                          \
  X(cuEventDestroy_v2, (Event event))

struct Functions {
#define ADJOIN_CUDA_DECLARE(name, parameters) Result(*name) parameters = nullptr;
  ADJOIN_CUDA_FUNCTIONS(ADJOIN_CUDA_DECLARE)
#undef ADJOIN_CUDA_DECLARE
};

}  // namespace adjoin::cuda

#endif  // ADJOIN_PRIMITIVES_DEVICE_CUDA_FUNCTIONS_H_
