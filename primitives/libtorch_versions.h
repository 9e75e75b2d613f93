// Where the releases of LibTorch differ with which this project has been compiled: 1.13, 2.6 and, for primitives on
// GPUs, 2.11. No other file asks for a release.
#ifndef ADJOIN_PRIMITIVES_LIBTORCH_VERSIONS_H_
#define ADJOIN_PRIMITIVES_LIBTORCH_VERSIONS_H_

#include <cstddef>
#include <string>

#include <ATen/Version.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#define ADJOIN_LIBTORCH_IS(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if ADJOIN_LIBTORCH_IS(2, 6)
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/AutogradState.h>
#define ADJOIN_OVERRIDE_FROM_2_6 override
#else
#define ADJOIN_OVERRIDE_FROM_2_6
#endif

#if ADJOIN_LIBTORCH_IS(2, 11)
#define ADJOIN_OVERRIDE_FROM_2_11 override
#else
#define ADJOIN_OVERRIDE_FROM_2_11
#endif

namespace adjoin {

// What a device calls a stream, such as a cudaStream_t. Throws c10::Error where LibTorch does not tell it, as 1.13 and
// 2.6 do not, but for default streams, which devices call null.
template <typename Stream>
auto NativeHandleOf(const Stream& stream, int preferred) -> decltype(stream.native_handle()) {
  return stream.native_handle();
}
template <typename Stream>
void* NativeHandleOf(const Stream& stream, long otherwise) {
  TORCH_CHECK(stream.id() == 0, "LibTorch ", TORCH_VERSION, " does not tell the native handle of ", stream,
              ": use its default stream, or a newer LibTorch (2.11 does)");
  return nullptr;
}
inline void* NativeHandleOf(const c10::Stream& stream) { return NativeHandleOf(stream, 0); }

// From now on backward passes that this thread begins run in it, also where their tensors are on a device: LibTorch
// would give them to one thread per device. The movements of two ranks that share a device would then wait for each
// other in one thread, and a rank's deadlines and its current stream would not be those of the thread that computes.
// Nothing to do with LibTorch 1.13, which cannot be told, and for the CPU, whose passes never leave their thread.
inline void RunBackwardInThisThread() {
#if ADJOIN_LIBTORCH_IS(2, 6)
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
#endif
}

// Whether LibTorch's oneDNN copies weights into blocks of channels and does not fill what is left of the last one
// (layers/conv/convolution_kernel.h). 3.7 does so, 2.7 does not.
inline bool OneDnnLeavesBlocksOpen() { return at::get_mkldnn_version().find(" v3.7.") != std::string::npos; }

// What LibTorch asks a device of type PrivateUse1 for. 1.13 asks for nothing.
#if ADJOIN_LIBTORCH_IS(2, 6)
using PrivateDeviceHooks = at::PrivateUse1HooksInterface;
inline void RegisterPrivateDeviceHooks(PrivateDeviceHooks* hooks) { at::RegisterPrivateUse1HooksInterface(hooks); }
#else
struct PrivateDeviceHooks {
  virtual ~PrivateDeviceHooks() = default;
};
inline void RegisterPrivateDeviceHooks(PrivateDeviceHooks* hooks) {}
#endif

// An allocator of a device. New: so many bytes on the current device. Copy: so many bytes within it; not called
// in 1.13.
class AllocatorOfAnyRelease : public c10::Allocator {
 public:
#if ADJOIN_LIBTORCH_IS(2, 6)
  c10::DataPtr allocate(std::size_t bytes) override { return New(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { Copy(to, from, bytes); }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return New(bytes); }
#endif

 protected:
  virtual c10::DataPtr New(std::size_t bytes) const = 0;
  virtual void Copy(void* to, const void* from, std::size_t bytes) const = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_LIBTORCH_VERSIONS_H_
