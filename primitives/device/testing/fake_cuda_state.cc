#include "primitives/device/testing/fake_cuda_state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace adjoin::cuda {
namespace {

struct ThreadContext {
  int generation = 0;
  Context context = nullptr;
};
thread_local ThreadContext current;

std::string Number(std::size_t count, const char* what) {
  return count == 0 ? "" : std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

template <typename Things, typename Thing>
bool IsOneOf(const Things& things, const Thing* thing) {
  return std::any_of(things.begin(), things.end(), [&](const auto& known) { return &known == thing; });
}

}  // namespace

Driver& TheDriver() {
  static Driver* driver = new Driver;  // memory may be freed after the end of main
  return *driver;
}

Context& CurrentContext() {
  if (current.generation != TheDriver().generation) current = {TheDriver().generation, nullptr};
  return current.context;
}

bool Driver::IsDone(const EventOfDriver& event) const {
  return event.recorded <= works - static_cast<int64_t>(queued.size());
}

void Driver::Queue(std::function<void()> work) {
  ++works;
  if (held) {
    queued.push_back(std::move(work));
  } else {
    work();
  }
}

void Driver::RunAll() {
  for (auto& work : queued) work();
  queued.clear();
}

std::size_t Driver::UsedBytes(int device) const {
  std::size_t bytes = 0;
  for (const auto& [address, allocation] : memory) {
    if (allocation.on_device && allocation.context->device == device) bytes += allocation.bytes;
  }
  return bytes;
}

const Allocation* Driver::Find(Address address, Address* begin) const {
  const auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  const auto found = std::prev(after);
  if (address - found->first >= found->second.bytes) return nullptr;
  *begin = found->first;
  return &found->second;
}

bool Driver::MayTouch(Address address, std::size_t bytes, bool host_too) const {
  if (address == 0) return false;
  Address begin = 0;
  if (const Allocation* allocation = Find(address, &begin); allocation != nullptr) {
    return bytes <= allocation->bytes - (address - begin);
  }
  const Address first = reinterpret_cast<Address>(addresses);
  return host_too && (address < first || address >= first + kAddresses);
}

std::string Driver::LiveIn(const ContextOfDriver* context) const {
  auto counts = [&](Context of) { return context == nullptr || of == context; };
  const auto count = [&](const auto& things) {
    return static_cast<std::size_t>(std::count_if(
        things.begin(), things.end(), [&](const auto& thing) { return thing.alive && counts(thing.context); }));
  };
  const auto retained =
      std::count_if(contexts.begin(), contexts.end(), [](const ContextOfDriver& c) { return c.retained > 0; });
  const auto allocations =
      std::count_if(memory.begin(), memory.end(), [&](const auto& entry) { return counts(entry.second.context); });
  std::string text;
  for (const std::string& part :
       {Number(context == nullptr ? retained : 0, "context"), Number(count(streams), "stream"),
        Number(count(events), "event"), Number(allocations, "allocation")}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

void Driver::Release(Address address, const Allocation& allocation) {
  void* const data = reinterpret_cast<void*>(address);
  if (!allocation.on_device) {
    std::free(data);
  } else if (mmap(data, allocation.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
             MAP_FAILED) {
    std::abort();
  }
}

std::string TextOf(Memory memory) {
  if (memory.address == 0) return "null";
  Address begin = 0;
  const Allocation* allocation = TheDriver().Find(memory.address, &begin);
  if (allocation == nullptr) return "host";
  return (allocation->on_device ? "device" : "pinned") + std::to_string(allocation->number) + "+" +
         std::to_string(memory.address - begin);
}

std::string TextOf(Stream stream) {
  if (stream == nullptr) return "default";
  return IsOneOf(TheDriver().streams, stream) ? "stream" + std::to_string(stream->number) : "unknown";
}

std::string TextOf(Event event) {
  return IsOneOf(TheDriver().events, event) ? "event" + std::to_string(event->number) : "unknown";
}

std::string TextOf(Context context) {
  return context == nullptr ? "null" : "context" + std::to_string(context->device);
}

void Call::Begin(Needs needs, const std::string& arguments) {
  driver.log += name_ + "(" + arguments + ")\n";
  if (auto failure = driver.failures.find(name_); failure != driver.failures.end()) {
    if (failure->second.after-- <= 0) result = failure->second.result;
    if (result != kSuccess) return;
  }
  if (needs != Needs::kNothing && !driver.initialized) {
    Refuse(kNotInitialized, "before cuInit");
  } else if (needs == Needs::kContext && CurrentContext() == nullptr) {
    Refuse(kInvalidContext, "without a current context");
  } else if (needs == Needs::kContext && CurrentContext()->retained == 0) {
    Refuse(kInvalidContext, "in a context that was released");
  }
}

bool Call::Device(int device) {
  if (result == kSuccess && (device < 0 || device >= driver.devices)) Refuse(kInvalidDevice, "of an unknown device");
  return result == kSuccess;
}

bool Call::On(Stream stream) {
  if (result != kSuccess) return false;
  if (stream == nullptr) return true;
  if (!IsOneOf(driver.streams, stream) || !stream->alive) {
    Refuse(kInvalidHandle, "with an unknown stream");
  } else if (stream->context != CurrentContext()) {
    Refuse(kInvalidContext, "with a stream of another context");
  }
  return result == kSuccess;
}

bool Call::Of(Event event) {
  if (result != kSuccess) return false;
  if (!IsOneOf(driver.events, event) || !event->alive) Refuse(kInvalidHandle, "with an unknown event");
  return result == kSuccess;
}

bool Call::Touches(Address address, std::size_t bytes, bool host_too) {
  if (result == kSuccess && !driver.MayTouch(address, bytes, host_too)) Refuse(kInvalidValue, "with unknown memory");
  return result == kSuccess;
}

Result Call::Refuse(Result why, const std::string& text) {
  driver.mistakes += name_ + " " + text + "\n";
  return result = why;
}

}  // namespace adjoin::cuda
