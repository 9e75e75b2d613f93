#include "primitives/testing/fake_memory.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>

#include "absl/status/statusor.h"
#include "primitives/device/device.h"
#include "primitives/device/fake_device.h"
#include "primitives/libtorch_versions.h"
#include "primitives/testing/fake_streams.h"

namespace adjoin {
namespace {

constexpr std::size_t kGranularity = 512;                       // as CUDA's allocator
constexpr std::size_t kMostIdleBytes = std::size_t{256} << 20;  // of a device

struct Block {
  DeviceAllocation memory;
  c10::DeviceIndex device = 0;
  c10::StreamId stream = 0;                                            // current when it was allocated
  std::set<std::pair<c10::DeviceIndex, c10::StreamId>> other_streams;  // that use it
  std::vector<std::shared_ptr<DeviceEvent>> other_uses;                // their work when it was freed
};

void CheckDevice(const absl::Status& status) { TORCH_CHECK(status.ok(), std::string(status.message())); }

// The memory of one device.
class Pool {
 public:
  std::unique_ptr<Block> Take(c10::DeviceIndex index, std::size_t bytes) {
    const std::size_t rounded = (bytes + kGranularity - 1) / kGranularity * kGranularity;
    const c10::StreamId stream = CurrentFakeStreamId(index);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      TakeBackUsed();
      std::vector<std::unique_ptr<Block>>& idle = idle_[{stream, rounded}];
      if (!idle.empty()) {
        std::unique_ptr<Block> block = std::move(idle.back());
        idle.pop_back();
        idle_bytes_ -= rounded;
        return block;
      }
    }
    absl::StatusOr<DeviceAllocation> memory = FakeDevice::Get(index).Allocate(rounded);
    CheckDevice(memory.status());
    auto block = std::make_unique<Block>();
    block->memory = *std::move(memory);
    block->device = index;
    block->stream = stream;
    return block;
  }

  void Give(std::unique_ptr<Block> block) {
    for (const auto& [index, id] : block->other_streams) {
      const c10::Device device(c10::DeviceType::PrivateUse1, index);
      block->other_uses.push_back(*FakeStreamOf(c10::Stream(c10::Stream::UNSAFE, device, id)).Record());
    }
    block->other_streams.clear();
    std::lock_guard<std::mutex> lock(mutex_);
    if (block->other_uses.empty()) {
      Keep(std::move(block));
    } else {
      used_.push_back(std::move(block));
    }
  }

  void RecordUse(Block& block, const c10::Stream& stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stream.device_index() == block.device && stream.id() == block.stream) return;
    block.other_streams.insert({stream.device_index(), stream.id()});
  }

 private:
  // Both require mutex_.
  void Keep(std::unique_ptr<Block> block) {
    if (idle_bytes_ + block->memory.bytes > kMostIdleBytes) return;
    idle_bytes_ += block->memory.bytes;
    idle_[{block->stream, block->memory.bytes}].push_back(std::move(block));
  }
  void TakeBackUsed() {
    std::vector<std::unique_ptr<Block>> still;
    for (std::unique_ptr<Block>& block : used_) {
      bool done = true;
      for (const std::shared_ptr<DeviceEvent>& use : block->other_uses) done = done && *use->Done();
      if (!done) {
        still.push_back(std::move(block));
        continue;
      }
      block->other_uses.clear();
      Keep(std::move(block));
    }
    used_ = std::move(still);
  }

  std::mutex mutex_;
  std::map<std::pair<c10::StreamId, std::size_t>, std::vector<std::unique_ptr<Block>>> idle_;  // guarded by mutex_
  std::size_t idle_bytes_ = 0;                                                                 // guarded by mutex_
  std::vector<std::unique_ptr<Block>> used_;  // freed, but not by all streams; guarded by mutex_
};

Pool& PoolOf(c10::DeviceIndex index) {
  static auto* const pools = new std::array<Pool, FakeDevice::kCount>;  // tensors may be freed after the end of main
  return pools->at(static_cast<std::size_t>(index));
}

void GiveBlock(void* context) {
  std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (block != nullptr) PoolOf(block->device).Give(std::move(block));
}

void DropKeepalive(void* context) { delete static_cast<std::shared_ptr<void>*>(context); }

class Allocator : public AllocatorOfAnyRelease {
  void Copy(void* to, const void* from, std::size_t bytes) const override {
    CheckDevice(CurrentFakeStream(CurrentFakeDevice()).Copy(to, from, bytes));
  }
};

class MemoryAllocator final : public Allocator {
  c10::DataPtr New(std::size_t bytes) const override {
    const c10::DeviceIndex index = CurrentFakeDevice();
    const c10::Device device(c10::DeviceType::PrivateUse1, index);
    if (bytes == 0) return c10::DataPtr(nullptr, nullptr, &GiveBlock, device);
    Block* const block = PoolOf(index).Take(index, bytes).release();
    return c10::DataPtr(block->memory.data, block, &GiveBlock, device);
  }
};

class PinnedAllocator final : public Allocator {
  c10::DataPtr New(std::size_t bytes) const override {
    absl::StatusOr<DeviceAllocation> memory = FakeDevice::Get(CurrentFakeDevice()).AllocatePinned(bytes);
    CheckDevice(memory.status());
    void* const data = memory->data;
    return c10::DataPtr(data, new std::shared_ptr<void>(std::move(memory->keepalive)), &DropKeepalive, at::kCPU);
  }
};

}  // namespace

c10::Allocator* FakeMemoryAllocator() {
  static auto* const allocator = new MemoryAllocator;
  return allocator;
}

c10::Allocator* FakePinnedAllocator() {
  static auto* const allocator = new PinnedAllocator;
  return allocator;
}

void RecordFakeMemoryUse(const c10::DataPtr& data, const c10::Stream& stream) {
  if (data.get() == nullptr || data.get_deleter() != &GiveBlock) return;
  Block& block = *static_cast<Block*>(data.get_context());
  PoolOf(block.device).RecordUse(block, stream);
}

c10::Storage HostViewOf(const c10::Storage& on_device) {
  absl::StatusOr<FakeDevice::Span> span = FakeDevice::View(on_device.data(), on_device.nbytes());
  CheckDevice(span.status());
  c10::DataPtr data(span->data, new std::shared_ptr<void>(std::move(span->mapping)), &DropKeepalive, at::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t(), on_device.nbytes(), std::move(data));
}

at::Tensor HostViewOf(const at::Tensor& on_device) {
  return HostTensorOver(HostViewOf(on_device.storage()), on_device);
}

at::Tensor HostTensorOver(c10::Storage storage, const at::Tensor& tensor) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                   tensor.dtype());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  impl->set_storage_offset(tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

at::Tensor EmptyOnFakeDevice(c10::DeviceIndex index, at::IntArrayRef sizes, at::IntArrayRef strides,
                             at::ScalarType type) {
  const c10::DeviceGuard guard(c10::Device(c10::DeviceType::PrivateUse1, index));
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, FakeMemoryAllocator(),
                                                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type));
}

ByteRange BytesOf(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return ByteRange();
  const std::size_t begin = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  return {begin, at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                                  static_cast<std::size_t>(tensor.storage_offset()))};
}

}  // namespace adjoin
