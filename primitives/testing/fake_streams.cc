#include "primitives/testing/fake_streams.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/libtorch_versions.h"
#include "primitives/testing/fake_memory.h"

namespace adjoin {
namespace {

constexpr c10::DeviceType kFake = c10::DeviceType::PrivateUse1;
constexpr std::size_t kPooledStreams = 4;  // of a device, given out in turn

// The streams of one device beside its default one.
struct MadeStreams {
  std::atomic<bool> default_used{false};
  std::mutex mutex;
  std::vector<std::shared_ptr<DeviceStream>> streams;  // stream id - 1; guarded by mutex
  std::vector<c10::StreamId> pooled;                   // guarded by mutex
  std::size_t next_pooled = 0;                         // guarded by mutex
};

MadeStreams& StreamsOf(c10::DeviceIndex index) {
  static auto* const made = new std::array<MadeStreams, FakeDevice::kCount>;  // their threads run to the end
  return made->at(static_cast<std::size_t>(index));
}

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, FakeDevice::kCount> current_streams{};

void Check(const absl::Status& status) { TORCH_CHECK(status.ok(), std::string(status.message())); }

void CheckIndex(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < FakeDevice::kCount, "fake device: no device ", static_cast<int>(index));
}

c10::DeviceIndex IndexOf(c10::Device device) { return device.has_index() ? device.index() : current_device; }

std::vector<std::shared_ptr<DeviceStream>> AllMade(MadeStreams& made) {
  std::lock_guard<std::mutex> lock(made.mutex);
  return made.streams;
}

// Requires made.mutex.
c10::StreamId MakeStream(c10::DeviceIndex index, MadeStreams& made) {
  absl::StatusOr<std::shared_ptr<DeviceStream>> stream = FakeDevice::Get(index).CreateStream();
  Check(stream.status());
  made.streams.push_back(*std::move(stream));
  return static_cast<c10::StreamId>(made.streams.size());
}

FakeStream& StreamById(c10::DeviceIndex index, c10::StreamId id) {
  CheckIndex(index);
  MadeStreams& made = StreamsOf(index);
  if (id == 0) {
    made.default_used = true;
    return FakeDevice::Get(index).default_stream();
  }
  std::lock_guard<std::mutex> lock(made.mutex);
  TORCH_CHECK(id > 0 && id <= static_cast<c10::StreamId>(made.streams.size()), "fake device: no stream ", id);
  return static_cast<FakeStream&>(*made.streams[static_cast<std::size_t>(id - 1)]);
}

struct Event {
  std::shared_ptr<DeviceEvent> last;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kFake; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return c10::Device(kFake, ExchangeFakeDevice(IndexOf(device)));
  }
  c10::Device getDevice() const override { return c10::Device(kFake, current_device); }
  void setDevice(c10::Device device) const override { ExchangeFakeDevice(IndexOf(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = IndexOf(device); }
  c10::DeviceIndex deviceCount() const noexcept override { return FakeDevice::kCount; }

  c10::Stream getStream(c10::Device device) const noexcept override {
    return Of(IndexOf(device), CurrentFakeStreamId(IndexOf(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return Of(IndexOf(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override {
    const c10::DeviceIndex index = IndexOf(device);
    CheckIndex(index);
    MadeStreams& made = StreamsOf(index);
    std::lock_guard<std::mutex> lock(made.mutex);
    if (made.pooled.size() < kPooledStreams) {
      made.pooled.push_back(MakeStream(index, made));
      return Of(index, made.pooled.back());
    }
    return Of(index, made.pooled[made.next_pooled++ % kPooledStreams]);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    const c10::DeviceIndex index = stream.device_index();
    return Of(index, std::exchange(current_streams[static_cast<std::size_t>(index)], stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    absl::StatusOr<std::shared_ptr<DeviceEvent>> event = FakeStreamOf(stream).Record();
    Check(event.status());
    return Done(**event);
  }
  void synchronizeStream(const c10::Stream& stream) const override { Check(FakeStreamOf(stream).Synchronize()); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    RecordFakeMemoryUse(data, stream);
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index, c10::EventFlag flag) const override {
    absl::StatusOr<std::shared_ptr<DeviceEvent>> recorded = FakeStreamOf(stream).Record();
    Check(recorded.status());
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->last = *std::move(recorded);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) Check(FakeStreamOf(stream).WaitFor(*static_cast<Event*>(event)->last));
  }
  bool queryEvent(void* event) const override { return event == nullptr || Done(*static_cast<Event*>(event)->last); }
  void destroyEvent(void* event, c10::DeviceIndex index) const noexcept override { delete static_cast<Event*>(event); }

  c10::Stream getNewStream(c10::Device device, int priority) const ADJOIN_OVERRIDE_FROM_2_6 {
    const c10::DeviceIndex index = IndexOf(device);
    CheckIndex(index);
    MadeStreams& made = StreamsOf(index);
    std::lock_guard<std::mutex> lock(made.mutex);
    return Of(index, MakeStream(index, made));
  }
  void synchronizeEvent(void* event) const ADJOIN_OVERRIDE_FROM_2_6 {
    if (event == nullptr) return;
    FakeStream stream(&FakeDevice::Get(current_device));
    Check(stream.WaitFor(*static_cast<Event*>(event)->last));
    Check(stream.Synchronize());
  }
  void synchronizeDevice(c10::DeviceIndex index) const ADJOIN_OVERRIDE_FROM_2_6 {
    Check(FakeDevice::Get(index).default_stream().Synchronize());
    for (const std::shared_ptr<DeviceStream>& stream : AllMade(StreamsOf(index))) Check(stream->Synchronize());
  }
  void* getStreamNativeHandle(const c10::Stream stream) const ADJOIN_OVERRIDE_FROM_2_11 {
    return &FakeStreamOf(stream);
  }

 private:
  static c10::Stream Of(c10::DeviceIndex index, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kFake, index), id);
  }
  static bool Done(const DeviceEvent& event) {
    const absl::StatusOr<bool> done = event.Done();
    Check(done.status());
    return *done;
  }
};

}  // namespace

c10::DeviceIndex CurrentFakeDevice() { return current_device; }

c10::DeviceIndex ExchangeFakeDevice(c10::DeviceIndex index) {
  CheckIndex(index);
  return std::exchange(current_device, index);
}

c10::StreamId CurrentFakeStreamId(c10::DeviceIndex index) {
  return current_streams.at(static_cast<std::size_t>(index));
}

FakeStream& CurrentFakeStream(c10::DeviceIndex index) { return StreamById(index, CurrentFakeStreamId(index)); }

FakeStream& FakeStreamOf(const c10::Stream& stream) { return StreamById(stream.device_index(), stream.id()); }

void DrainFakeStreams() {
  for (c10::DeviceIndex index = 0; index < FakeDevice::kCount; ++index) {
    MadeStreams& made = StreamsOf(index);
    if (made.default_used) FakeDevice::Get(index).default_stream().Drain();
    for (const std::shared_ptr<DeviceStream>& stream : AllMade(made)) static_cast<FakeStream&>(*stream).Drain();
  }
}

const c10::impl::DeviceGuardImplInterface& FakeGuard() {
  static const auto* const guard = new Guard;  // LibTorch never lets go of it
  return *guard;
}

}  // namespace adjoin
