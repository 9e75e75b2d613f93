#include "primitives/testing/fake_fallback.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include "primitives/testing/fake_memory.h"
#include "primitives/testing/fake_streams.h"

namespace adjoin {
namespace {

// Arguments that an operator writes to although its schema does not say so.
const std::map<std::string, std::vector<std::size_t>>& UndeclaredWrites() {
  static const auto* const writes = new std::map<std::string, std::vector<std::size_t>>{
      {"aten::native_batch_norm", {3, 4}},        // the running statistics
      {"aten::batch_norm_update_stats", {1, 2}},  // the same
      {"aten::rrelu_with_noise", {1}},            // the noise
      {"aten::rrelu_with_noise_", {1}},           // the same
  };
  return *writes;
}

// Operators that return something else than tensors but look at no cell.
bool LooksAtNoCell(const std::string& name) { return name == "aten::is_set_to" || name == "aten::_fused_sdp_choice"; }

// Operators whose results' shapes depend on cells.
bool HasShapeFromCells(const std::string& name) {
  static const auto* const names =
      new std::set<std::string>{"aten::nonzero",           "aten::masked_select",      "aten::_unique",
                                "aten::_unique2",          "aten::unique_dim",         "aten::bincount",
                                "aten::repeat_interleave", "aten::unique_consecutive", "aten::unique_dim_consecutive"};
  return names->count(name) > 0;
}

// Operators that take indices in host memory, too.
bool TakesHostIndices(const std::string& name) {
  return name == "aten::index" || name == "aten::index_put" || name == "aten::index_put_" ||
         name == "aten::_index_put_impl_";
}

bool IsTensorType(const c10::TypePtr& type) { return type->str().find("Tensor") != std::string::npos; }

// Calls `change` with each defined tensor of a value, and puts in its place what that returns.
template <typename Change>
void ChangeTensors(c10::IValue* value, const Change& change) {
  if (value->isTensor()) {
    if (value->toTensor().defined()) *value = c10::IValue(change(value->toTensor()));
  } else if (value->isList()) {
    const c10::List<c10::IValue> list = value->toList();
    if (!IsTensorType(list.elementType())) return;
    c10::impl::GenericList changed(list.elementType());
    for (std::size_t i = 0; i < list.size(); ++i) {
      c10::IValue element = list.get(i);
      ChangeTensors(&element, change);
      changed.push_back(std::move(element));
    }
    *value = c10::IValue(std::move(changed));
  }
}

// One call of an operator.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), name_(op.schema().name()), stack_(stack) {}

  void Run() {
    const std::size_t arguments = op_.schema().arguments().size();
    const std::size_t begin = stack_->size() - arguments;
    for (std::size_t i = 0; i < arguments; ++i) Collect(&(*stack_)[begin + i], Written(i));
    TORCH_CHECK(device_.has_value(), "fake device: ", op_.operator_name(), " without a tensor or device");
    CheckHostTensors();
    Wait();
    for (std::size_t i = 0; i < arguments; ++i) {
      ChangeTensors(&(*stack_)[begin + i], [this](const at::Tensor& tensor) { return OnHost(tensor); });
    }
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    const c10::DeviceGuard guard(c10::Device(c10::DeviceType::PrivateUse1, *device_));
    for (const at::Tensor& written : written_) WriteBack(written, on_host_.at(written.unsafeGetTensorImpl()));
    const std::size_t results = op_.schema().returns().size();
    for (std::size_t i = stack_->size() - results; i < stack_->size(); ++i) {
      ChangeTensors(&(*stack_)[i], [this](const at::Tensor& tensor) { return OnDevice(tensor); });
    }
  }

 private:
  bool Written(std::size_t argument) const {
    const auto undeclared = UndeclaredWrites().find(name_);
    if (undeclared != UndeclaredWrites().end()) {
      const std::vector<std::size_t>& written = undeclared->second;
      if (std::find(written.begin(), written.end(), argument) != written.end()) return true;
    }
    const c10::AliasInfo* const alias = op_.schema().arguments()[argument].alias_info();
    return alias != nullptr && alias->isWrite();
  }

  // Notes the tensors of an argument and the device, which becomes the host's.
  void Collect(c10::IValue* argument, bool written) {
    if (argument->isDevice() && argument->toDevice().type() == c10::DeviceType::PrivateUse1) {
      const c10::Device device = argument->toDevice();
      if (!device_.has_value()) device_ = device.has_index() ? device.index() : CurrentFakeDevice();
      *argument = c10::IValue(c10::Device(at::kCPU));
      return;
    }
    ChangeTensors(argument, [&](const at::Tensor& tensor) {
      if (!OnFakeDevice(tensor)) {
        host_tensors_.push_back({tensor, written, argument->isList()});
        return tensor;
      }
      TORCH_CHECK(!device_.has_value() || *device_ == tensor.device().index(), op_.operator_name(),
                  ": expected all tensors to be on one device, but found ", tensor.device(), " and another");
      device_ = tensor.device().index();
      if (argument->isList()) in_lists_.push_back(tensor);
      if (!written) return tensor;
      written_.push_back(tensor);
      written_storages_.insert(tensor.storage().unsafeGetStorageImpl());
      return tensor;
    });
  }

  void CheckHostTensors() const {
    for (const HostTensor& host : host_tensors_) {
      const bool allowed = !host.written && (host.tensor.dim() == 0 || (host.in_list && TakesHostIndices(name_)));
      TORCH_CHECK(allowed, op_.operator_name(), ": expected all tensors to be on one device, but found one on the ",
                  host.tensor.device(), " and one on the fake device ", static_cast<int>(*device_));
    }
  }

  // The host waits for what a real device waits for by itself, uncounted, or else for what the caller asked for.
  void Wait() const {
    bool counted = HasShapeFromCells(name_);
    for (const c10::Argument& result : op_.schema().returns()) counted = counted || !IsTensorType(result.type());
    if (TakesHostIndices(name_)) {
      for (const at::Tensor& index : in_lists_) {
        counted = counted || index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
      }
    }
    if (LooksAtNoCell(name_)) return;
    if (counted) {
      SynchronizeFakeStream(*device_);
    } else {
      CurrentFakeStream(*device_).Drain();
    }
  }

  // The same tensor and the same storage become the same each time.
  at::Tensor OnHost(const at::Tensor& tensor) {
    if (!OnFakeDevice(tensor)) return tensor;
    const auto known = on_host_.find(tensor.unsafeGetTensorImpl());
    if (known != on_host_.end()) return known->second;
    c10::StorageImpl* const on_device = tensor.storage().unsafeGetStorageImpl();
    const bool written = written_storages_.count(on_device) > 0;
    auto storage = storages_.find(on_device);
    if (storage == storages_.end()) {
      const c10::Storage made =
          written ? c10::Storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(tensor.storage().nbytes()),
                                 c10::GetCPUAllocator(), true)
                  : HostViewOf(tensor.storage());
      storage = storages_.emplace(on_device, made).first;
    }
    at::Tensor host = HostTensorOver(storage->second, tensor);
    if (written) CopyCells(tensor, host);
    on_host_.emplace(tensor.unsafeGetTensorImpl(), host);
    on_device_.emplace(host.unsafeGetTensorImpl(), tensor);
    return host;
  }

  // Another tensor's cells may lie between these, and may be changing.
  static void CopyCells(const at::Tensor& from, const at::Tensor& to) {
    const ByteRange bytes = BytesOf(from);
    if (bytes.begin == bytes.end) return;
    const at::Tensor view = HostViewOf(from);
    const auto start = [&](const at::Tensor& tensor) {
      return static_cast<char*>(tensor.data_ptr()) -
             static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
    };
    std::memcpy(start(to) + bytes.begin, start(view) + bytes.begin, bytes.end - bytes.begin);
  }

  // An out argument of another shape than its result has been given this shape.
  static void WriteBack(const at::Tensor& on_device, const at::Tensor& host) {
    if (on_device.sizes() != host.sizes() || on_device.strides() != host.strides() ||
        on_device.storage_offset() != host.storage_offset()) {
      SetFakeGeometry(on_device, host.sizes(), host.strides(), host.storage_offset());
    }
    WriteToFakeDevice(on_device, host);
  }

  at::Tensor OnDevice(const at::Tensor& result) {
    const auto argument = on_device_.find(result.unsafeGetTensorImpl());
    if (argument != on_device_.end()) return argument->second;
    const bool overlaps = at::has_internal_overlap(result) != at::MemOverlap::No;
    const at::Tensor host = overlaps ? result.contiguous() : result;
    at::Tensor on_device = EmptyOnFakeDevice(*device_, host.sizes(), host.strides(), host.scalar_type());
    WriteToFakeDevice(on_device, host);
    return on_device;
  }

  struct HostTensor {
    at::Tensor tensor;
    bool written;
    bool in_list;
  };

  const c10::OperatorHandle& op_;
  const std::string name_;
  torch::jit::Stack* const stack_;
  std::optional<c10::DeviceIndex> device_;
  std::vector<at::Tensor> written_;   // arguments on the device that the operator writes to
  std::vector<at::Tensor> in_lists_;  // those of lists: an index's
  std::vector<HostTensor> host_tensors_;
  std::set<c10::StorageImpl*> written_storages_;
  std::map<c10::StorageImpl*, c10::Storage> storages_;  // the host's, by the device's
  std::map<c10::TensorImpl*, at::Tensor> on_host_;
  std::map<c10::TensorImpl*, at::Tensor> on_device_;
};

}  // namespace

void RunHostKernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) { HostCall(op, stack).Run(); }

void SetFakeGeometry(const at::Tensor& on_device, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  c10::TensorImpl* const impl = on_device.unsafeGetTensorImpl();
  c10::StorageImpl* const storage = impl->storage().unsafeGetStorageImpl();
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, strides);
  const std::size_t needed = BytesOf(on_device).end;
  if (needed <= storage->nbytes()) return;
  TORCH_CHECK(storage->resizable(), "fake device: a storage that cannot be resized");
  const c10::DeviceGuard guard(on_device.device());
  c10::DataPtr memory = FakeMemoryAllocator()->allocate(needed);
  if (storage->nbytes() > 0) {
    const absl::Status copied =
        CurrentFakeStream(on_device.device().index()).Copy(memory.get(), on_device.storage().data(), storage->nbytes());
    TORCH_CHECK(copied.ok(), std::string(copied.message()));
  }
  storage->set_data_ptr_noswap(std::move(memory));
  storage->set_nbytes(needed);
}

void WriteToFakeDevice(const at::Tensor& on_device, const at::Tensor& host) {
  if (on_device.numel() == 0) return;
  LaunchOnHostViews(CurrentFakeStream(on_device.device().index()), [view = HostViewOf(on_device), host] {
    if (view.scalar_type() == host.scalar_type() && view.is_contiguous() && host.is_contiguous()) {
      std::memcpy(view.data_ptr(), host.data_ptr(), view.nbytes());
    } else {
      view.copy_(host);
    }
  });
}

void LaunchOnHostViews(FakeStream& stream, std::function<void()> kernel) {
  stream.Launch([kernel = std::move(kernel)] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    kernel();
  });
}

void SynchronizeFakeStream(c10::DeviceIndex index) {
  const absl::Status status = CurrentFakeStream(index).Synchronize();
  TORCH_CHECK(status.ok(), std::string(status.message()));
}

}  // namespace adjoin
