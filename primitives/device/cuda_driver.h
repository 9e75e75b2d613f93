// CUDA's driver, found when a program runs: a program that is built without CUDA uses the GPUs of a machine that has
// them, and hears kNotFound on one that has none.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::Open());
//   int count = 0;
//   ADJOIN_RETURN_IF_ERROR(driver->Check(driver->functions().cuDeviceGetCount(&count), "cuDeviceGetCount"));
//
// Threads: any thread may call anything at any time.
#ifndef ADJOIN_PRIMITIVES_DEVICE_CUDA_DRIVER_H_
#define ADJOIN_PRIMITIVES_DEVICE_CUDA_DRIVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/device/cuda_functions.h"

namespace adjoin {

class CudaDriver {
 public:
  static constexpr char kLibrary[] = "libcuda.so.1";

  // Loads `library` and calls cuInit. The library stays loaded until the process ends: it has threads of its own.
  // Errors: kNotFound (no such library, the toolkit's stub of it, or a driver without a device), kFailedPrecondition (a
  // library without a function that is needed: the driver is too old, or not CUDA's), as Check (cuInit fails).
  static absl::StatusOr<std::shared_ptr<const CudaDriver>> Open(const std::string& library = kLibrary);

  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  const cuda::Functions& functions() const { return functions_; }

  // Returns OK for kSuccess, else an error that names what `where` says ("CUDA device 0 (NVIDIA H100)"; the library
  // where it is empty), `call`, and CUDA's name and text of the result: kResourceExhausted (memory), kUnavailable (the
  // device was lost, or its context is of no use from now on), kInternal (all else).
  absl::Status Check(cuda::Result result, absl::string_view call, absl::string_view where = "") const;

  const std::string& library() const { return library_; }
  int version() const { return version_; }  // the newest CUDA that it knows: 12040 for 12.4

 private:
  explicit CudaDriver(std::string library) : library_(std::move(library)) {}
  absl::Status Load();
  absl::Status Initialize();

  std::string library_;
  cuda::Functions functions_;
  int version_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_CUDA_DRIVER_H_
