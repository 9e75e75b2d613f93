// A rank that gets no memory says so in one message, for people: sessions that run into a limit of their process.
#include "worker/session/out_of_memory.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/process_memory.h"
#include "primitives/tensor_memory.h"
#include "worker/session/session_fixture.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMiB = int64_t{1} << 20;

// On one rank. "up" returns [1, 1, 5120, 5120], 100 MiB, as do "first" and "second", whose outputs the backward pass
// needs.
constexpr char kLarge[] = R"(
name: "small" kind: TRAIN ranks: 1 seed: 3
layer { name: "conv" input: "image" conv { out_channels: 1 window { kernel: 3 pad_lo: 1 } } }
layer { name: "up" upsample { mode: "nearest" size: [5120, 5120] } }
layer { name: "first" activation { fn: "sigmoid" } }
layer { name: "second" activation { fn: "sigmoid" } }
layer { name: "global" pool { mode: "avg" adaptive_size: 1 } }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 2 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset { name: "set"
  field { name: "image" idx { path: "images" } shape: [1, 6, 6] scale: 0.0039 }
  field { name: "label" idx { path: "labels" } dtype: "int64" } }
train { dataset: "set" batch: 1 steps: 1 optimizer { sgd { lr: 0.1 } } }
output_dir: "out/small"
)";

class OutOfMemoryTest : public SessionTest {
 protected:
  // As in the process of a rank.
  void SetUp() override {
    SessionTest::SetUp();
    ReuseTensorMemory();
    ASSERT_EQ(Run(), absl::OkStatus());  // libraries now have what they keep
  }
  // The error of the session where the process may have so much more memory than it has now.
  std::string ErrorWith(int64_t more) {
    rlimit before = {};
    EXPECT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
    const absl::Cleanup restore = [&before] { setrlimit(RLIMIT_DATA, &before); };
    const absl::StatusOr<RankFunction> run = Prepared([this, more, before](int, SessionOptions&) {
      limit_ = ProcessMemoryInUse().data - TensorMemoryInUse().idle + more;
      const rlimit limited = {static_cast<rlim_t>(limit_), before.rlim_max};
      setrlimit(RLIMIT_DATA, &limited);
    });
    EXPECT_TRUE(run.ok()) << run.status();
    const absl::Status status = RunRanks(1, TransportKind::kInMemoryDelayed, 4, *run);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    return std::string(status.message());
  }

  int64_t limit_ = 0;
};

TEST_F(OutOfMemoryTest, TheForwardPassNamesItsLayerLimitAndTheLargest) {
  spec_ = ParseSpec(kLarge, "job").value().spec;
  spec_.mutable_resources()->set_memory_bytes(64 * kMiB);
  const std::string error = ErrorWith(150 * kMiB);
  EXPECT_THAT(error, HasSubstr("out of memory: layer \"first\" asked for 100 MiB more than there is; limit: "));
  EXPECT_THAT(error, AllOf(HasSubstr("(resources.memory_bytes: 64.0 MiB, and "), HasSubstr(" for the program itself)"),
                           ContainsRegex("; in use: [0-9.]+ [MG]iB"),
                           HasSubstr("; the largest outputs of layers on this rank: \"first\" 100 MiB, \"second\" 100"
                                     " MiB, \"up\" 100 MiB, \"conv\" 144 bytes, \"fc\" 8 bytes; what helps: ")));
  EXPECT_THAT(error, AllOf(HasSubstr("train.microbatches, recompute: true in large layers"), HasSubstr("more ranks"),
                           HasSubstr("a larger resources.memory_bytes")));
  EXPECT_THAT(error, AllOf(Not(HasSubstr("enforce")), Not(HasSubstr("alloc_cpu")), Not(HasSubstr("\n"))));
  EXPECT_LT(error.size(), 1000u);
}

TEST_F(OutOfMemoryTest, TheBackwardPassNamesItsLayerToo) {
  spec_ = ParseSpec(kLarge, "job").value().spec;
  EXPECT_THAT(ErrorWith(260 * kMiB), AllOf(HasSubstr("out of memory: the backward pass of layer \""),
                                           HasSubstr("asked for 100 MiB more than there is")));
}

TEST_F(OutOfMemoryTest, WithEnoughMemoryTheSameJobRuns) {
  spec_ = ParseSpec(kLarge, "job").value().spec;
  EXPECT_EQ(Run(), absl::OkStatus());
}

TEST_F(OutOfMemoryTest, ErrorsOfAllAllocatorsAreUnderstood) {
  ASSERT_TRUE(Prepared(nullptr).ok());
  MemoryLimits memory;
  memory.process.most_resident = 3 * kMiB;
  memory.machine = {.total = 1024 * kMiB, .available = 5 * kMiB};
  const auto explained = [&](const absl::Status& status) {
    EXPECT_TRUE(IsOutOfMemory(status)) << status;
    return std::string(ExplainOutOfMemory(status, plan_, 1, memory).message());
  };
  EXPECT_THAT(
      explained(absl::InternalError(
          "layer \"relu\" on rank 1: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't "
          "allocate memory: you tried to allocate 2097152 bytes. Error code 12 (Cannot allocate memory)")),
      AllOf(StartsWith("out of memory: layer \"relu\" asked for 2.00 MiB more than there is; limit: none; the "
                       "machine has 1.00 GiB, of which 5.00 MiB are free now; in use: 3.00 MiB at the most so far; "),
            HasSubstr("or a machine with more memory")));
  EXPECT_THAT(explained(absl::InternalError("no memory for a tensor of 1048576 bytes; the process uses 7340032 bytes")),
              AllOf(StartsWith("out of memory: the rank, outside of the layers, asked for 1.00 MiB more"),
                    HasSubstr("; in use: 7.00 MiB; ")));
  EXPECT_THAT(explained(absl::ResourceExhaustedError("out of memory")), HasSubstr("asked for more than there is;"));
  // All rank 1 has of the network; the other layers are rank 0's as well.
  EXPECT_THAT(explained(absl::ResourceExhaustedError("out of memory")), HasSubstr("\"together\""));

  EXPECT_FALSE(IsOutOfMemory(absl::OkStatus()));
  EXPECT_FALSE(IsOutOfMemory(absl::ResourceExhaustedError("'x': No space left on device")));
  EXPECT_FALSE(IsOutOfMemory(absl::InternalError("CUDA out of memory. Tried to allocate 20 MiB")));
  EXPECT_FALSE(IsOutOfMemory(absl::InternalError("layer \"fc\" on rank 0: CUDA error: out of memory")));
  EXPECT_FALSE(IsOutOfMemory(absl::InternalError("layer \"out of memory\" on rank 0: the shapes differ")));
  EXPECT_THAT(explained(absl::InternalError("layer \"CUDA out of memory\" on rank 1: out of memory")),
              StartsWith("out of memory: layer \"CUDA out of memory\" asked for"));
  EXPECT_FALSE(IsOutOfMemory(absl::AbortedError("rank 0 failed: out of memory: ...")));
  const absl::Status once = ExplainOutOfMemory(absl::ResourceExhaustedError("out of memory"), plan_, 1, memory);
  EXPECT_FALSE(IsOutOfMemory(once)) << "it is said once";
}

}  // namespace
}  // namespace adjoin
