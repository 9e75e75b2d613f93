#include "primitives/device/cuda_driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

// Functions of older drivers that have the same parameters and stand in where the newer one is missing.
constexpr struct {
  absl::string_view name;
  const char* older;
} kOlderFunctions[] = {
    {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"},  // before CUDA 11.4; names the whole GPU where it is divided
};

void* FindFunction(void* library, absl::string_view name) {
  if (void* const found = dlsym(library, std::string(name).c_str()); found != nullptr) return found;
  for (const auto& function : kOlderFunctions) {
    if (function.name == name) return dlsym(library, function.older);
  }
  return nullptr;
}

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};

absl::StatusCode CodeOf(cuda::Result result) {
  switch (result) {
    case cuda::kOutOfMemory: return absl::StatusCode::kResourceExhausted;
    case cuda::kStubLibrary:
    case cuda::kNoDevice: return absl::StatusCode::kNotFound;
    case cuda::kDeviceUnavailable:
    case cuda::kEccUncorrectable:
    case cuda::kNvlinkUncorrectable:
    case cuda::kContained:
    case cuda::kIllegalAddress:
    case cuda::kLaunchTimeout:
    case cuda::kContextIsDestroyed:
    case cuda::kAssert:
    case cuda::kHardwareStackError:
    case cuda::kIllegalInstruction:
    case cuda::kMisalignedAddress:
    case cuda::kInvalidAddressSpace:
    case cuda::kInvalidPc:
    case cuda::kLaunchFailed:
    case cuda::kTensorMemoryLeak:
    case cuda::kSystemNotReady:
    case cuda::kMpsConnectionFailed:
    case cuda::kMpsRpcFailure:
    case cuda::kMpsServerNotReady:
    case cuda::kMpsClientTerminated:
    case cuda::kExternalDevice: return absl::StatusCode::kUnavailable;
    default: return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaDriver>> CudaDriver::Open(const std::string& library) {
  std::shared_ptr<CudaDriver> driver(new CudaDriver(library));
  ADJOIN_RETURN_IF_ERROR(driver->Load());
  ADJOIN_RETURN_IF_ERROR(driver->Initialize());
  return driver;
}

absl::Status CudaDriver::Load() {
  std::unique_ptr<void, LibraryCloser> library(dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) {
    const char* const reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("there is no CUDA driver: ", reason == nullptr ? library_.c_str() : reason));
  }
#define ADJOIN_CUDA_LOAD(name, parameters)                                                               \
  functions_.name = reinterpret_cast<decltype(functions_.name)>(FindFunction(library.get(), #name));     \
  if (functions_.name == nullptr) {                                                                      \
    return absl::FailedPreconditionError(                                                                \
        absl::StrCat(library_, " has no function ", #name, "; a driver of CUDA 11 or newer is needed")); \
  }
  ADJOIN_CUDA_FUNCTIONS(ADJOIN_CUDA_LOAD)
#undef ADJOIN_CUDA_LOAD
  (void)library.release();
  return absl::OkStatus();
}

absl::Status CudaDriver::Initialize() {
  ADJOIN_RETURN_IF_ERROR(Check(functions_.cuInit(0), "cuInit"));
  return Check(functions_.cuDriverGetVersion(&version_), "cuDriverGetVersion");
}

absl::Status CudaDriver::Check(cuda::Result result, absl::string_view call, absl::string_view where) const {
  if (result == cuda::kSuccess) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  std::string error = absl::StrCat("CUDA error ", static_cast<int>(result));
  if (functions_.cuGetErrorName(result, &name) == cuda::kSuccess && name != nullptr) error = name;
  if (functions_.cuGetErrorString(result, &text) == cuda::kSuccess && text != nullptr) {
    absl::StrAppend(&error, " (", text, ")");
  }
  return absl::Status(CodeOf(result), absl::StrCat(where.empty() ? library_ : where, ": ", call, ": ", error));
}

}  // namespace adjoin
