// The fake CUDA driver, from a test's side: a shared library with the functions of the real one, on host memory. It
// records every call, refuses what a real driver would refuse, and fails calls on command. A process has one.
//
//   FakeCuda& fake = FakeCuda::Reset(2);                       // two devices, no calls yet
//   ADJOIN_ASSIGN_OR_RETURN(auto driver, CudaDriver::Open(fake.path()));
//   fake.Fail("cuMemAlloc_v2", cuda::kOutOfMemory, 1);         // the second call fails, and all after it
//   ...
//   EXPECT_EQ(fake.Mistakes(), "");
//
// Threads: any thread may call anything; what a method returns is not touched by later calls.
#ifndef ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_H_
#define ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_H_

#include <string>
#include <vector>

#include "primitives/device/cuda_functions.h"
#include "primitives/device/testing/fake_cuda_controls.h"

namespace adjoin {

class FakeCuda {
 public:
  // Forgets all calls, memory, streams and events. Nothing that used them may be there any more. Each device has 1 GiB
  // of memory; with 0 devices cuInit returns kNoDevice. Ends the process where the library is not found.
  static FakeCuda& Reset(int devices);

  // A library beside the test program: "libfake_cuda_driver.so".
  static std::string PathOf(const std::string& library);
  std::string path() const { return PathOf("libfake_cuda_driver.so"); }

  // The call, by its symbol's name, returns `result` from now on, but for the first `after` times. kSuccess ends that.
  void Fail(const char* call, cuda::Result result, int after = 0) { FakeCudaFail(call, result, after); }
  void SetAttribute(cuda::DeviceAttribute attribute, int value) { FakeCudaSetAttribute(attribute, value); }

  // Keeps back what is queued on streams, until Release, a call that waits for the device, or the end of a test.
  void Hold() { FakeCudaHold(1); }
  void Release() { FakeCudaHold(0); }

  // The calls so far, as "cuMemcpyAsync(device1+0, pinned1+16, 64, stream1)": memory, streams and events are numbered
  // in the order in which they were made. AllCalls has also the queries of the current context and of errors' names.
  std::vector<std::string> Calls() const;
  std::vector<std::string> AllCalls() const;

  // A line for each call that a real driver would refuse or punish, and each thing that outlived its context.
  std::string Mistakes() const { return FakeCudaMistakes(); }
  // What is there now: "1 context, 2 streams"; empty for nothing.
  std::string Live() const { return FakeCudaLive(); }

 private:
  FakeCuda();

#define ADJOIN_FAKE_CUDA_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  ADJOIN_FAKE_CUDA_CONTROLS(ADJOIN_FAKE_CUDA_DECLARE)
#undef ADJOIN_FAKE_CUDA_DECLARE
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_H_
