#include "primitives/device/device_conformance.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "base/testing/test_seed.h"
#include "primitives/device/device.h"

namespace adjoin {

// Used by test programs that have no such device at all.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConformanceTest);

namespace {

char* Bytes(const DeviceAllocation& allocation) { return static_cast<char*>(allocation.data); }

void Fill(std::mt19937_64& random, char* to, std::size_t bytes) {
  std::generate_n(to, bytes, [&] { return static_cast<char>(random()); });
}

std::vector<char> Read(const DeviceAllocation& host) { return {Bytes(host), Bytes(host) + host.bytes}; }

// Waits as a program does that has other things to do: without Synchronize.
absl::Status PollUntilDone(const DeviceEvent& event) {
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  while (true) {
    ADJOIN_ASSIGN_OR_RETURN(const bool done, event.Done());
    if (done) return absl::OkStatus();
    if (deadline.Expired()) return absl::DeadlineExceededError("an event was not done after 30 s");
    std::this_thread::yield();
  }
}

absl::Status RecordAndPoll(DeviceStream& stream) {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceEvent> event, stream.Record());
  return PollUntilDone(*event);
}

class EventOfNoDevice : public DeviceEvent {
 public:
  absl::StatusOr<bool> Done() const override { return true; }
};

}  // namespace

void DeviceConformanceTest::SetUp() {
  absl::StatusOr<std::shared_ptr<Device>> device = GetParam().open();
  if (absl::IsNotFound(device.status())) {
    GTEST_SKIP() << "this machine has no such device: " << device.status().message();
  }
  ASSERT_TRUE(device.ok()) << device.status();
  device_ = *std::move(device);
}

void DeviceConformanceTest::TearDown() {
  device_ = nullptr;
  if (GetParam().mistakes != nullptr) {
    EXPECT_EQ(GetParam().mistakes(), "");
  }
}

DeviceAllocation DeviceConformanceTest::Pinned(std::size_t bytes) {
  absl::StatusOr<DeviceAllocation> allocation = device_->AllocatePinned(bytes);
  EXPECT_TRUE(allocation.ok()) << allocation.status();
  return allocation.value_or(DeviceAllocation{});
}

DeviceAllocation DeviceConformanceTest::OnDevice(std::size_t bytes) {
  absl::StatusOr<DeviceAllocation> allocation = device_->Allocate(bytes);
  EXPECT_TRUE(allocation.ok()) << allocation.status();
  return allocation.value_or(DeviceAllocation{});
}

std::shared_ptr<DeviceStream> DeviceConformanceTest::NewStream() {
  absl::StatusOr<std::shared_ptr<DeviceStream>> stream = device_->CreateStream();
  EXPECT_TRUE(stream.ok()) << stream.status();
  return stream.value_or(nullptr);
}

TEST_P(DeviceConformanceTest, SaysWhatItIs) {
  EXPECT_NE(device_->kind(), MemoryKind::kPinnedHost);
  EXPECT_GE(device_->index(), 0);
  EXPECT_NE(device_->name(), "");
  EXPECT_GT(device_->memory_bytes(), 0);
}

TEST_P(DeviceConformanceTest, KnowsItsOwnMemory) {
  const DeviceAllocation memory = OnDevice(100);
  const DeviceAllocation pinned = Pinned(100);
  ASSERT_NE(memory.data, nullptr);
  ASSERT_NE(pinned.data, nullptr);
  EXPECT_EQ(memory.bytes, 100);
  EXPECT_EQ(pinned.bytes, 100);
  std::vector<char> host(100);
  for (int offset : {0, 1, 99}) {
    EXPECT_EQ(device_->KindOf(Bytes(memory) + offset).value(), device_->kind());
    EXPECT_EQ(device_->KindOf(Bytes(pinned) + offset).value(), GetParam().pinned);
    EXPECT_EQ(device_->KindOf(host.data() + offset).value(), MemoryKind::kHost);
  }
  EXPECT_EQ(device_->KindOf(nullptr).value(), MemoryKind::kHost);
}

TEST_P(DeviceConformanceTest, GivesNullForNoBytes) {
  for (const DeviceAllocation& nothing : {OnDevice(0), Pinned(0)}) {
    EXPECT_EQ(nothing.data, nullptr);
    EXPECT_EQ(nothing.bytes, 0);
  }
}

TEST_P(DeviceConformanceTest, RefusesMoreThanItHas) {
  const absl::Status status = device_->Allocate(static_cast<std::size_t>(device_->memory_bytes()) * 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(OnDevice(16).data, nullptr);  // there is still memory for others
}

TEST_P(DeviceConformanceTest, CopiesSpans) {
  std::mt19937_64 random(TestSeed(1));
  const std::shared_ptr<DeviceStream> stream = NewStream();
  for (std::size_t bytes : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{1000003}}) {
    const std::size_t at = random() % 64;
    const DeviceAllocation from = Pinned(bytes + 64), one = OnDevice(bytes + 64), two = OnDevice(bytes + 64),
                           to = Pinned(bytes + 64);
    Fill(random, Bytes(from), from.bytes);
    std::memset(to.data, 0, to.bytes);
    ASSERT_TRUE(stream->Copy(Bytes(one) + at, Bytes(from), bytes).ok());
    ASSERT_TRUE(stream->Copy(Bytes(two), Bytes(one) + at, bytes).ok());
    ASSERT_TRUE(stream->Copy(Bytes(to) + at, Bytes(two), bytes).ok());
    ASSERT_EQ(RecordAndPoll(*stream), absl::OkStatus());
    std::vector<char> expected(to.bytes);
    std::copy_n(Bytes(from), bytes, expected.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_TRUE(Read(to) == expected) << bytes << " bytes at " << at;
  }
}

TEST_P(DeviceConformanceTest, CopiesRows) {
  std::mt19937_64 random(TestSeed(2));
  const std::shared_ptr<DeviceStream> stream = NewStream();
  for (int round = 0; round < 40; ++round) {
    const std::size_t rows = 1 + random() % 20;
    const std::size_t row_bytes = 1 + random() % 70;
    const std::size_t from_pitch = row_bytes + random() % 3 * (random() % 30);
    const std::size_t to_pitch = row_bytes + random() % 3 * (random() % 30);
    const DeviceAllocation from = Pinned(rows * from_pitch), one = OnDevice(rows * from_pitch),
                           two = OnDevice(rows * to_pitch), to = Pinned(rows * to_pitch);
    Fill(random, Bytes(from), from.bytes);
    ASSERT_TRUE(stream->Copy(one.data, from.data, from.bytes).ok());
    ASSERT_TRUE(stream->Set(two.data, 0x5a, two.bytes).ok());
    const absl::Status copied = stream->CopyRows(two.data, to_pitch, one.data, from_pitch, row_bytes, rows);
    ASSERT_EQ(copied, absl::OkStatus());
    ASSERT_TRUE(stream->Copy(to.data, two.data, to.bytes).ok());
    ASSERT_EQ(RecordAndPoll(*stream), absl::OkStatus());
    std::vector<char> expected(to.bytes, 0x5a);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < row_bytes; ++i) expected[row * to_pitch + i] = Bytes(from)[row * from_pitch + i];
    }
    EXPECT_TRUE(Read(to) == expected) << rows << " rows of " << row_bytes << ", pitches " << from_pitch << " and "
                                      << to_pitch;
  }
}

TEST_P(DeviceConformanceTest, CopiesRowsToAndFromPinnedMemory) {
  std::mt19937_64 random(TestSeed(3));
  const std::shared_ptr<DeviceStream> stream = NewStream();
  const DeviceAllocation from = Pinned(7 * 32), on_device = OnDevice(7 * 20), to = Pinned(7 * 48);
  Fill(random, Bytes(from), from.bytes);
  std::memset(to.data, 1, to.bytes);
  ASSERT_EQ(stream->CopyRows(on_device.data, 20, from.data, 32, 16, 7), absl::OkStatus());
  ASSERT_EQ(stream->CopyRows(to.data, 48, on_device.data, 20, 16, 7), absl::OkStatus());
  ASSERT_EQ(RecordAndPoll(*stream), absl::OkStatus());
  std::vector<char> expected(to.bytes, 1);
  for (int row = 0; row < 7; ++row) std::copy_n(Bytes(from) + row * 32, 16, expected.begin() + row * 48);
  EXPECT_TRUE(Read(to) == expected);
}

TEST_P(DeviceConformanceTest, RefusesRowsThatOverlap) {
  const std::shared_ptr<DeviceStream> stream = NewStream();
  const DeviceAllocation a = OnDevice(64), b = OnDevice(64);
  for (const auto& [to_pitch, from_pitch] : {std::pair{15, 16}, std::pair{16, 15}}) {
    const absl::Status status = stream->CopyRows(a.data, to_pitch, b.data, from_pitch, 16, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_EQ(stream->CopyRows(a.data, 0, b.data, 0, 16, 1), absl::OkStatus());  // a single row has no pitch
  EXPECT_EQ(RecordAndPoll(*stream), absl::OkStatus());
}

TEST_P(DeviceConformanceTest, SetsBytes) {
  const std::shared_ptr<DeviceStream> stream = NewStream();
  const DeviceAllocation memory = OnDevice(1000), host = Pinned(1000);
  ASSERT_TRUE(stream->Set(memory.data, 0, 1000).ok());
  ASSERT_TRUE(stream->Set(Bytes(memory) + 3, 0xfe, 501).ok());
  ASSERT_TRUE(stream->Copy(host.data, memory.data, 1000).ok());
  ASSERT_EQ(RecordAndPoll(*stream), absl::OkStatus());
  std::vector<char> expected(1000);
  std::fill_n(expected.begin() + 3, 501, static_cast<char>(0xfe));
  EXPECT_TRUE(Read(host) == expected);
}

TEST_P(DeviceConformanceTest, DoesNothingForNoBytes) {
  const std::shared_ptr<DeviceStream> stream = NewStream();
  EXPECT_EQ(stream->Copy(nullptr, nullptr, 0), absl::OkStatus());
  EXPECT_EQ(stream->CopyRows(nullptr, 0, nullptr, 0, 0, 5), absl::OkStatus());
  EXPECT_EQ(stream->CopyRows(nullptr, 8, nullptr, 8, 8, 0), absl::OkStatus());
  EXPECT_EQ(stream->Set(nullptr, 1, 0), absl::OkStatus());
  EXPECT_EQ(RecordAndPoll(*stream), absl::OkStatus());
}

TEST_P(DeviceConformanceTest, CopiesAnyHostMemory) {
  if (!GetParam().copies_any_host_memory) GTEST_SKIP() << "this device copies pinned memory only";
  std::mt19937_64 random(TestSeed(4));
  const std::shared_ptr<DeviceStream> stream = NewStream();
  std::vector<char> from(6000), to(6000), rows(6000);
  Fill(random, from.data(), from.size());
  const DeviceAllocation on_device = OnDevice(6000);
  ASSERT_EQ(stream->Copy(on_device.data, from.data(), from.size()), absl::OkStatus());
  ASSERT_EQ(stream->Copy(to.data(), on_device.data, to.size()), absl::OkStatus());
  ASSERT_EQ(stream->CopyRows(rows.data(), 60, on_device.data, 60, 50, 100), absl::OkStatus());
  ASSERT_EQ(RecordAndPoll(*stream), absl::OkStatus());
  EXPECT_TRUE(to == from);
  for (int row = 0; row < 100; ++row) std::fill_n(from.begin() + row * 60 + 50, 10, 0);
  EXPECT_TRUE(rows == from);
}

TEST_P(DeviceConformanceTest, WorksOnTheDefaultStream) {
  absl::StatusOr<std::shared_ptr<DeviceStream>> stream = device_->StreamOf(nullptr);
  ASSERT_TRUE(stream.ok()) << stream.status();
  const DeviceAllocation memory = OnDevice(64), host = Pinned(64);
  ASSERT_EQ((*stream)->Set(memory.data, 9, 64), absl::OkStatus());
  ASSERT_EQ((*stream)->Copy(host.data, memory.data, 64), absl::OkStatus());
  ASSERT_EQ(RecordAndPoll(**stream), absl::OkStatus());
  EXPECT_TRUE(Read(host) == std::vector<char>(64, 9));
}

TEST_P(DeviceConformanceTest, HasEventsOfStreamsWithoutWork) {
  const std::shared_ptr<DeviceStream> stream = NewStream();
  EXPECT_EQ(RecordAndPoll(*stream), absl::OkStatus());
}

// Each stream copies what the one before it copied. Without a wait some round copies too early.
TEST_P(DeviceConformanceTest, WaitsForEventsOfOtherStreams) {
  std::mt19937_64 random(TestSeed(5));
  constexpr int kStreams = 4;
  std::vector<std::shared_ptr<DeviceStream>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(NewStream());
  for (int round = 0; round < 25; ++round) {
    const std::size_t bytes = 1 + random() % 200000;
    const DeviceAllocation from = Pinned(bytes), to = Pinned(bytes);
    Fill(random, Bytes(from), bytes);
    std::vector<DeviceAllocation> stations{from};
    for (int i = 0; i + 1 < kStreams; ++i) stations.push_back(OnDevice(bytes));
    stations.push_back(to);
    for (int i = 0; i < kStreams; ++i) {
      ASSERT_EQ(streams[i]->Copy(stations[i + 1].data, stations[i].data, bytes), absl::OkStatus());
      absl::StatusOr<std::shared_ptr<DeviceEvent>> copied = streams[i]->Record();
      ASSERT_TRUE(copied.ok()) << copied.status();
      ASSERT_EQ(streams[(i + 1) % kStreams]->WaitFor(**copied), absl::OkStatus());
      // The event goes here, waited for or not: another round may use it again.
    }
    ASSERT_EQ(RecordAndPoll(*streams[0]), absl::OkStatus());
    EXPECT_TRUE(Read(to) == Read(from)) << "round " << round;
  }
  EXPECT_EQ(device_->synchronizations(), 0);
}

TEST_P(DeviceConformanceTest, RefusesEventsOfOtherKindsOfDevice) {
  const std::shared_ptr<DeviceStream> stream = NewStream();
  const absl::Status status = stream->WaitFor(EventOfNoDevice());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST_P(DeviceConformanceTest, CountsSynchronizations) {
  const std::shared_ptr<DeviceStream> one = NewStream(), two = NewStream();
  const DeviceAllocation memory = OnDevice(64), host = Pinned(64);
  ASSERT_EQ(one->Set(memory.data, 4, 64), absl::OkStatus());
  ASSERT_EQ(one->Copy(host.data, memory.data, 64), absl::OkStatus());
  absl::StatusOr<std::shared_ptr<DeviceEvent>> copied = one->Record();
  ASSERT_TRUE(copied.ok());
  EXPECT_EQ(device_->synchronizations(), 0);
  EXPECT_EQ(one->Synchronize(), absl::OkStatus());
  EXPECT_TRUE((*copied)->Done().value());
  EXPECT_TRUE(Read(host) == std::vector<char>(64, 4));
  EXPECT_EQ(two->Synchronize(), absl::OkStatus());
  EXPECT_EQ(device_->synchronizations(), 2);
}

TEST_P(DeviceConformanceTest, LetsStreamsGoBeforeTheirWorkIsDone) {
  std::shared_ptr<DeviceStream> stream = NewStream();
  const DeviceAllocation memory = OnDevice(1 << 20), host = Pinned(1 << 20);
  ASSERT_EQ(stream->Set(memory.data, 77, memory.bytes), absl::OkStatus());
  ASSERT_EQ(stream->Copy(host.data, memory.data, host.bytes), absl::OkStatus());
  absl::StatusOr<std::shared_ptr<DeviceEvent>> copied = stream->Record();
  ASSERT_TRUE(copied.ok());
  stream = nullptr;
  ASSERT_EQ(PollUntilDone(**copied), absl::OkStatus());
  EXPECT_TRUE(Read(host) == std::vector<char>(1 << 20, 77));
}

TEST_P(DeviceConformanceTest, LetsTheDeviceGoFirst) {
  std::shared_ptr<DeviceStream> stream = NewStream();
  DeviceAllocation memory = OnDevice(64), pinned = Pinned(64);
  std::shared_ptr<DeviceEvent> event = stream->Record().value();
  device_ = nullptr;
  std::memset(pinned.data, 3, 64);
  event = nullptr;
  memory = {};
  stream = nullptr;
  EXPECT_TRUE(Read(pinned) == std::vector<char>(64, 3));
  // In a thread that has never heard of the device.
  std::thread([last = std::move(pinned)]() mutable { last = {}; }).join();
}

TEST_P(DeviceConformanceTest, ServesManyThreads) {
  constexpr int kThreads = 4;
  const std::shared_ptr<DeviceStream> shared = NewStream();
  std::vector<absl::Status> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      results[t] = [&]() -> absl::Status {
        std::mt19937_64 random(static_cast<uint64_t>(t));
        ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceStream> own, device_->CreateStream());
        for (int round = 0; round < 50; ++round) {
          const std::size_t bytes = 1 + random() % 5000;
          ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation from, device_->AllocatePinned(bytes));
          ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation on_device, device_->Allocate(bytes));
          ADJOIN_ASSIGN_OR_RETURN(DeviceAllocation to, device_->AllocatePinned(bytes));
          Fill(random, Bytes(from), bytes);
          ADJOIN_RETURN_IF_ERROR(own->Copy(on_device.data, from.data, bytes));
          ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<DeviceEvent> there, own->Record());
          ADJOIN_RETURN_IF_ERROR(shared->WaitFor(*there));
          ADJOIN_RETURN_IF_ERROR(shared->Copy(to.data, on_device.data, bytes));
          ADJOIN_RETURN_IF_ERROR(RecordAndPoll(*shared));
          if (Read(to) != Read(from)) return absl::DataLossError(absl::StrCat("round ", round, " has other bytes"));
        }
        return absl::OkStatus();
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

}  // namespace adjoin
