#include "primitives/testing/fake_backend.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "primitives/libtorch_versions.h"
#include "primitives/testing/fake_fallback.h"
#include "primitives/testing/fake_memory.h"
#include "primitives/testing/fake_streams.h"

namespace adjoin {
namespace {

bool IsPinnedMemory(const void* data) {
  const absl::StatusOr<MemoryKind> kind = FakeDevice::Get(0).KindOf(data);
  return kind.ok() && *kind == MemoryKind::kPinnedHost;
}

// Memory and geometry.

std::vector<int64_t> ContiguousStrides(at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * std::max<int64_t>(sizes[i - 1], 1);
  return strides;
}

c10::Device DeviceOrCurrent(c10::optional<c10::Device> device) {
  if (device.has_value() && device->has_index()) return *device;
  return c10::Device(c10::DeviceType::PrivateUse1, CurrentFakeDevice());
}

at::Tensor Empty(at::IntArrayRef sizes, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                 c10::optional<c10::Device> device, c10::optional<bool>, c10::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(DeviceOrCurrent(device));
  return at::Tensor(at::detail::empty_generic(sizes, FakeMemoryAllocator(),
                                              c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              c10::dtype_or_default(type), format));
}

at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, c10::optional<at::ScalarType> type,
                        c10::optional<at::Layout>, c10::optional<c10::Device> device, c10::optional<bool>) {
  return EmptyOnFakeDevice(DeviceOrCurrent(device).index(), sizes, strides, c10::dtype_or_default(type));
}

const at::Tensor& Resize(const at::Tensor& self, at::IntArrayRef sizes, c10::optional<at::MemoryFormat> format) {
  const bool same = self.sizes() == sizes;
  if (!same) SetFakeGeometry(self, sizes, ContiguousStrides(sizes), self.storage_offset());
  if (format.has_value()) self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                       at::IntArrayRef strides) {
  TORCH_CHECK(source.device() == self.device(), "set_: a storage of another device");
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  const bool given = strides.size() == sizes.size();
  SetFakeGeometry(self, sizes, given ? strides.vec() : ContiguousStrides(sizes), offset);
  return self;
}

at::Tensor& SetNothing(at::Tensor& self) {
  const c10::DeviceGuard guard(self.device());
  at::Storage none(at::Storage::use_byte_size_t(), 0, FakeMemoryAllocator(), true);
  return SetStorage(self, std::move(none), 0, {0}, {1});
}

// Copies.

// On the source's stream, between what was queued before and what is queued later on the target's.
// The cells of `tensor` with the signs that it has only by name, lazily.
at::Tensor ValuesOf(const at::Tensor& tensor) {
  at::Tensor view = HostViewOf(tensor);
  if (tensor.is_conj()) view = view.conj();
  return tensor.is_neg() ? view._neg_view() : view;
}

void CopyBetweenDevices(const at::Tensor& from, const at::Tensor& to) {
  FakeStream& source = CurrentFakeStream(from.device().index());
  FakeStream& target = CurrentFakeStream(to.device().index());
  const auto wait = [](FakeStream& waiting, FakeStream& other) {
    const absl::Status status = waiting.WaitFor(**other.Record());
    TORCH_CHECK(status.ok(), std::string(status.message()));
  };
  if (&source != &target) wait(source, target);
  LaunchOnHostViews(source, [to = ValuesOf(to), from = ValuesOf(from)] { to.copy_(from); });
  if (&source != &target) wait(target, source);
}

void CopyToHost(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (non_blocking && IsPinnedMemory(to.data_ptr())) {
    LaunchOnHostViews(CurrentFakeStream(from.device().index()), [from = ValuesOf(from), to] { to.copy_(from); });
    return;
  }
  SynchronizeFakeStream(from.device().index());
  to.copy_(ValuesOf(from));
}

at::Tensor CopyFrom(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  at::assert_no_internal_overlap(to);
  if (to.numel() == 0) return to;
  const c10::MaybeOwned<at::Tensor> from = at::expand_size(self, to.sizes(), "copy_");
  if (!OnFakeDevice(to)) {
    CopyToHost(*from, to, non_blocking);
  } else if (OnFakeDevice(self)) {
    CopyBetweenDevices(*from, to);
  } else if (non_blocking && IsPinnedMemory(self.data_ptr())) {
    WriteToFakeDevice(to, *from);
  } else {
    WriteToFakeDevice(to, self.clone().expand(to.sizes()));
  }
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return CopyFrom(self, to, false);
}

at::Scalar LocalScalarDense(const at::Tensor& self) {
  SynchronizeFakeStream(self.device().index());
  return at::_local_scalar_dense(HostViewOf(self));
}

at::Tensor& Fill(at::Tensor& self, const at::Scalar& value) {
  at::assert_no_internal_overlap(self);
  if (self.numel() == 0) return self;
  LaunchOnHostViews(CurrentFakeStream(self.device().index()), [view = HostViewOf(self), value] { view.fill_(value); });
  return self;
}

at::Tensor& Zero(at::Tensor& self) { return Fill(self, 0); }

bool IsPinned(const at::Tensor& self, c10::optional<c10::Device>) {
  return self.device().is_cpu() && IsPinnedMemory(self.data_ptr());
}

at::Tensor PinMemory(const at::Tensor& self, c10::optional<c10::Device>) {
  const int64_t bytes =
      static_cast<int64_t>(at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize()));
  at::Storage storage(at::Storage::use_byte_size_t(), bytes, FakePinnedAllocator(), false);
  at::Tensor pinned = at::empty({0}, self.options());
  pinned.set_(std::move(storage), 0, self.sizes(), self.strides());
  return pinned.copy_(self);
}

// Own kernels, in place of those for the CPU, which would touch the memory or wait.
const std::set<std::string>& NamesOfOwnKernels() {
  static const auto* const names = new std::set<std::string>{"aten::empty",
                                                             "aten::empty_strided",
                                                             "aten::resize_",
                                                             "aten::set_",
                                                             "aten::as_strided",
                                                             "aten::view",
                                                             "aten::_reshape_alias",
                                                             "aten::unfold",
                                                             "aten::view_as_real",
                                                             "aten::view_as_complex",
                                                             "aten::_copy_from",
                                                             "aten::copy_",
                                                             "aten::is_pinned",
                                                             "aten::_pin_memory",
                                                             "aten::_copy_from_and_resize",
                                                             "aten::from_file",
                                                             "aten::_local_scalar_dense"};
  return *names;
}

void RegisterOwnKernels(torch::Library& library) {
  library.impl("empty.memory_format", TORCH_FN(Empty));
  library.impl("empty_strided", TORCH_FN(EmptyStrided));
  library.impl("resize_", TORCH_FN(Resize));
  library.impl("set_", TORCH_FN(SetNothing));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorage));
  library.impl("set_.source_Storage", [](at::Tensor& self, at::Storage source) -> at::Tensor& {
    return at::native::set_(self, std::move(source));
  });
  library.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", [](const at::Tensor& self, at::IntArrayRef size) { return at::native::view(self, size); });
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  library.impl("_copy_from", TORCH_FN(CopyFrom));
  library.impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
  library.impl("_local_scalar_dense", TORCH_FN(LocalScalarDense));
  library.impl("fill_.Scalar", TORCH_FN(Fill));
  library.impl("zero_", TORCH_FN(Zero));
  library.impl("is_pinned", TORCH_FN(IsPinned));
  library.impl("_pin_memory", TORCH_FN(PinMemory));
}

// An operator that is composed of others where a device has no kernel would round differently from the CPU's own
// kernel, so every operator with a kernel for the CPU gets the fallback by name.
void RegisterHostKernels(torch::Library& library) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const c10::optional<c10::OperatorHandle> op = dispatcher.findSchema(name);
    if (!op.has_value() || name.name.rfind("aten::", 0) != 0 || NamesOfOwnKernels().count(name.name) > 0) continue;
    if (name.name == "aten::zero_" || (name.name == "aten::fill_" && name.overload_name == "Scalar")) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&RunHostKernel>());
  }
  // Composed operators that choose their kernels by the kind of device.
  for (const char* const name : {"convolution", "convolution_backward", "_convolution"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&RunHostKernel>());
  }
}

struct Hooks final : PrivateDeviceHooks {
  // Not all releases have these two.
  virtual bool isBuilt() const { return true; }
  virtual bool isAvailable() const { return true; }

  bool hasPrimaryContext(c10::DeviceIndex) const ADJOIN_OVERRIDE_FROM_2_6 { return true; }
  c10::DeviceIndex deviceCount() const ADJOIN_OVERRIDE_FROM_2_6 { return FakeDevice::kCount; }
  c10::DeviceIndex getCurrentDevice() const ADJOIN_OVERRIDE_FROM_2_6 { return CurrentFakeDevice(); }
  void setCurrentDevice(c10::DeviceIndex index) const ADJOIN_OVERRIDE_FROM_2_6 { ExchangeFakeDevice(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const ADJOIN_OVERRIDE_FROM_2_6 {
    return ExchangeFakeDevice(index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const ADJOIN_OVERRIDE_FROM_2_6 {
    return ExchangeFakeDevice(index);
  }
  bool isPinnedPtr(const void* data) const ADJOIN_OVERRIDE_FROM_2_6 { return IsPinnedMemory(data); }
  at::Allocator* getPinnedMemoryAllocator() const ADJOIN_OVERRIDE_FROM_2_6 { return FakePinnedAllocator(); }
};

void Register() {
  c10::SetAllocator(c10::DeviceType::PrivateUse1, FakeMemoryAllocator());
  c10::impl::DeviceGuardImplRegistrar(c10::DeviceType::PrivateUse1, &FakeGuard());
  RegisterPrivateDeviceHooks(new Hooks);
  static auto* const fallback = new torch::Library(MAKE_TORCH_LIBRARY_IMPL(_, PrivateUse1));
  fallback->fallback(torch::CppFunction::makeFromBoxedFunction<&RunHostKernel>());
  static auto* const aten = new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1));
  RegisterOwnKernels(*aten);
  RegisterHostKernels(*aten);
  // A copy is what resolves lazy signs, so nothing may resolve them for it.
  static auto* const conjugate = new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, Conjugate));
  conjugate->impl("_copy_from", torch::CppFunction::makeFallthrough());
  static auto* const negative = new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, Negative));
  negative->impl("_copy_from", torch::CppFunction::makeFallthrough());
  std::atexit(&DrainFakeStreams);
}

}  // namespace

void RegisterFakeBackend() {
  static std::once_flag once;
  std::call_once(once, &Register);
}

}  // namespace adjoin
