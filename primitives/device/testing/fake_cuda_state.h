// What the fake CUDA driver knows: contexts, memory, streams, events, and the calls so far (fake_cuda_driver.cc).
//
// Work on streams is done at once, or, while it is held back, in the order in which it was queued on all streams
// together: an order that is right whichever streams wait for which.
#ifndef ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_STATE_H_
#define ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "primitives/device/cuda_functions.h"

namespace adjoin::cuda {

constexpr std::size_t kDeviceBytes = std::size_t{1} << 30;
constexpr std::size_t kAddresses = std::size_t{1} << 36;  // of all devices: none is used twice before a reset

struct ContextOfDriver {
  int device = 0;
  int retained = 0;
};

struct StreamOfDriver {
  Context context = nullptr;
  int number = 0;
  bool alive = true;
};

struct EventOfDriver {
  Context context = nullptr;
  int number = 0;
  bool alive = true;
  int64_t recorded = 0;  // pieces of work queued before it
};

struct Allocation {
  std::size_t bytes = 0;
  bool on_device = false;
  int number = 0;
  Context context = nullptr;
};

struct Failure {
  Result result = kSuccess;
  int after = 0;
};

// All but the threads' current contexts. `mutex` guards it all; methods are called with it held.
struct Driver {
  std::mutex mutex;
  int generation = 0;  // counts resets
  int devices = 0;
  bool initialized = false;
  std::map<int, int> attributes;
  std::vector<ContextOfDriver> contexts;
  std::deque<StreamOfDriver> streams;  // destroyed ones too, so that their handles are known
  std::deque<EventOfDriver> events;
  std::map<Address, Allocation> memory;
  char* addresses = nullptr;  // kAddresses bytes, of which the host may touch what is allocated
  std::size_t addresses_used = 0;
  int device_allocations = 0;
  int pinned_allocations = 0;

  bool held = false;
  std::deque<std::function<void()>> queued;
  int64_t works = 0;  // queued so far

  std::map<std::string, Failure> failures;
  std::string log;
  std::string mistakes;

  bool IsDone(const EventOfDriver& event) const;
  void Queue(std::function<void()> work);
  void RunAll();
  std::size_t UsedBytes(int device) const;
  // The allocation in which `address` lies, and its beginning; null for none.
  const Allocation* Find(Address address, Address* begin) const;
  // True for a span within one allocation, or, with host_too, in other host memory.
  bool MayTouch(Address address, std::size_t bytes, bool host_too) const;
  // What is there in one context, or in all (null): "1 context, 2 streams".
  std::string LiveIn(const ContextOfDriver* context) const;
  void Release(Address address, const Allocation& allocation);  // gives the memory itself back
};

Driver& TheDriver();
Context& CurrentContext();  // the calling thread's

// An address, where a number would be taken for a number.
struct Memory {
  Address address;
};

// As the log shows them.
std::string TextOf(Memory memory);
std::string TextOf(Stream stream);
std::string TextOf(Event event);
std::string TextOf(Context context);
inline std::string TextOf(std::size_t number) { return std::to_string(number); }
inline std::string TextOf(int number) { return std::to_string(number); }
inline std::string TextOf(unsigned int number) { return std::to_string(number); }

enum class Needs { kNothing, kInit, kContext };

// One call: holds the lock, is in the log, and has the result so far.
class Call {
 public:
  template <typename... Arguments>
  Call(const char* name, Needs needs, const Arguments&... arguments)
      : driver(TheDriver()), lock_(driver.mutex), name_(name) {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + TextOf(arguments)), ...);
    Begin(needs, text);
  }

  // Each of these returns true where nothing is wrong up to now, and otherwise leaves what is wrong in `result`.
  bool Device(int device);
  bool On(Stream stream);
  bool Of(Event event);
  bool Touches(Address address, std::size_t bytes, bool host_too);

  // Returns `why`, after it has noted the mistake.
  Result Refuse(Result why, const std::string& text);

  Driver& driver;
  Result result = kSuccess;

 private:
  void Begin(Needs needs, const std::string& arguments);

  std::lock_guard<std::mutex> lock_;
  const std::string name_;
};

}  // namespace adjoin::cuda

#endif  // ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_STATE_H_
