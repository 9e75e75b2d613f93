#include "primitives/comm/shared_channel.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "gtest/gtest.h"

namespace adjoin {
namespace {

// Memory that a forked child shares.
class SharedPages {
 public:
  explicit SharedPages(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    void* const data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    data_ = data == MAP_FAILED ? nullptr : static_cast<char*>(data);
  }
  ~SharedPages() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_ = nullptr;
};

template <class Condition>
bool Await(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
  }
  const Deadline deadline = Deadline::After(absl::Seconds(60));
  while (!condition()) {
    if (deadline.Expired()) return false;
    sched_yield();
  }
  return true;
}

// Every word of message n, so that one of another message is found wherever it is.
uint64_t Contents(int64_t n, int64_t word) {
  return static_cast<uint64_t>(n) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(word);
}

bool Send(const SharedChannel& channel, int64_t n) {
  if (!Await([&] { return channel.MayWrite(n); })) return false;
  char* const payload = channel.Payload(n);
  for (int64_t i = 0; i < channel.message_bytes() / 8; ++i) {
    const uint64_t word = Contents(n, i);
    std::memcpy(payload + 8 * i, &word, 8);
  }
  channel.Publish(n);
  return true;
}

bool Receive(const SharedChannel& channel, int64_t n) {
  if (!Await([&] { return channel.Arrived(n); })) return false;
  const char* const payload = channel.Payload(n);
  bool right = true;
  for (int64_t i = 0; i < channel.message_bytes() / 8; ++i) {
    uint64_t word;
    std::memcpy(&word, payload + 8 * i, 8);
    right = right && word == Contents(n, i);
  }
  channel.Release(n);
  return right;
}

// How both ends are in turn: a ring of two messages, one each way, as a halo.
struct Ends {
  SharedChannel there, back;
  bool First(int64_t rounds) const {
    for (int64_t n = 0; n < rounds; ++n) {
      if (!Send(there, n) || !Receive(back, n)) return false;
    }
    return true;
  }
  bool Second(int64_t rounds) const {
    for (int64_t n = 0; n < rounds; ++n) {
      if (!Send(back, n) || !Receive(there, n)) return false;
    }
    return true;
  }
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kRounds = 100'000;
#else
constexpr int64_t kRounds = 1'000'000;
#endif

TEST(SharedChannelTest, IsAsLongAsItSays) {
  for (const int64_t bytes : {1, 8, 55, 56, 57, 64, 120, 121, 1000, 262144}) {
    const int64_t length = SharedChannel::BytesFor(bytes);
    EXPECT_EQ(length % SharedChannel::kLine, 0);
    alignas(64) static char memory[600000];
    const SharedChannel channel(memory, bytes);
    for (int64_t n = 0; n < 4; ++n) {
      EXPECT_GE(channel.Payload(n), memory + 72) << bytes;
      EXPECT_LE(channel.Payload(n) + bytes, memory + length) << bytes;
      EXPECT_EQ(channel.Payload(n), channel.Payload(n + 2)) << bytes;
      EXPECT_GE(reinterpret_cast<const char*>(&channel.published(n)), memory + 64);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(channel.Payload(n)) % (bytes <= 56 ? 8 : 64), 0u);
    }
    const int64_t apart = channel.Payload(1) - channel.Payload(0);
    EXPECT_GE(apart, bytes + 8) << "the slots meet";
  }
}

TEST(SharedChannelTest, KeepsTheSenderTwoMessagesAhead) {
  alignas(64) char memory[SharedChannel::kLine * 8] = {};
  const SharedChannel channel(memory, 8);
  for (int64_t n = 0; n < 100; n += 2) {
    EXPECT_FALSE(channel.Arrived(n));
    ASSERT_TRUE(channel.MayWrite(n));
    channel.Publish(n);
    ASSERT_TRUE(channel.MayWrite(n + 1));
    channel.Publish(n + 1);
    EXPECT_FALSE(channel.MayWrite(n + 2));
    EXPECT_TRUE(channel.Arrived(n));
    EXPECT_TRUE(channel.Arrived(n + 1));
    channel.Release(n + 1);  // in any order
    EXPECT_FALSE(channel.MayWrite(n + 2));
    channel.Release(n);
  }
}

// The litmus test of the words' order: two threads, which a sanitizer sees.
TEST(SharedChannelTest, PayloadIsWholeBetweenThreads) {
  for (const int64_t bytes : {56, 1024}) {
    const int64_t length = SharedChannel::BytesFor(bytes);
    const SharedPages pages(2 * length);
    const Ends ends{{pages.data(), bytes}, {pages.data() + length, bytes}};
    bool second = false;
    std::thread other([&] { second = ends.Second(kRounds); });
    EXPECT_TRUE(ends.First(kRounds)) << bytes;
    other.join();
    EXPECT_TRUE(second) << bytes;
  }
}

TEST(SharedChannelTest, PayloadIsWholeBetweenProcesses) {
  for (const int64_t bytes : {56, 8192}) {
    const int64_t length = SharedChannel::BytesFor(bytes);
    const SharedPages pages(2 * length);
    const Ends ends{{pages.data(), bytes}, {pages.data() + length, bytes}};
    const int64_t rounds = bytes > 1000 ? kRounds / 4 : kRounds;
    const pid_t child = fork();
    if (child == 0) _exit(ends.Second(rounds) ? 0 : 1);
    EXPECT_TRUE(ends.First(rounds)) << bytes;
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << bytes;
  }
}

}  // namespace
}  // namespace adjoin
