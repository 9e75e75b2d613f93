// What a movement allocates beside its result, on every rank: a bounded number of bytes in flight, however large the
// tensors.
//
// Every rank is a thread over UCX's shared memory, and everything that its thread takes from the heap during an
// execution is counted: LibTorch's tensors, the engine's staging and bookkeeping, UCX's requests (counted_memory.h).
// Memory that UCX maps itself is not counted: it holds messages that arrived before their receive was posted. They are
// the transport's, at most those of two executions. The in-memory transport would be no better: it copies what is sent
// into the heap. The most that lives at one time may exceed the result by
//   - what was packed and is not sent, and what came and is not taken in: kStagedBytes each, or all there is if less.
//   What
//     travels in place, a run of the tensor where nothing is combined, needs none;
//   - in a collective, kAhead + 1 messages that will be combined, and kSegments segments where a rank that passes sums
//   on
//     has no result of its own to gather them in;
//   - kSlack and kSlackPerMessage for requests, and for UCX.
// A source that is not contiguous may be copied once: the lists and collectives work on contiguous memory.
// Tensors are so large that a copy of a source or result beside them exceeds the bound.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/all_gather.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/all_to_all.h"
#include "primitives/broadcast.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/compiled_movement.h"
#include "primitives/comm/direct_execution.h"
#include "primitives/comm/local_memory.h"
#include "primitives/extreme_reduce.h"
#include "primitives/gather.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/window.h"
#include "primitives/halo_exchange.h"
#include "primitives/movement.h"
#include "primitives/redistribute.h"
#include "primitives/reduce_scatter.h"
#include "primitives/scatter.h"
#include "primitives/send_receive.h"
#include "primitives/status_exception.h"
#include "primitives/sum_reduce.h"
#include "primitives/tape.h"
#include "primitives/transport/transport_ranks.h"
#include "tests/adjoint/counted_memory.h"

namespace adjoin {
namespace {

constexpr int kRanks = 4;
constexpr DType kType = DType::kFloat32;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kSlack = 1 * kMiB;
constexpr int64_t kSlackPerMessage = 2 << 10;

using Create = std::function<absl::StatusOr<std::shared_ptr<Movement>>(Communicator*, Movement::Options)>;

struct AllocationCase {
  std::string name;
  Create create;
  bool differentiable = true;
};

void PrintTo(const AllocationCase& c, std::ostream* out) { *out << c.name; }

Layout Parts(std::vector<int64_t> shape, std::vector<int64_t> partition) {
  return *Layout::Partition(std::move(shape), kType, std::move(partition), {0, 1, 2, 3});
}

Layout Everywhere(std::vector<int64_t> shape, Placement placement) {
  return *Layout::Create(std::move(shape), kType, *Mesh::Create({kRanks}), {placement});
}

template <typename Primitive>
AllocationCase Between(std::string name, const Layout& x, const Layout& y) {
  return {std::move(name), [=](Communicator* communicator, Movement::Options options) {
            return Primitive::Create(communicator, x, y, std::move(options));
          }};
}

std::vector<AllocationCase> Cases() {
  const std::vector<int64_t> large = {2048, 8192};  // 64 MiB: a rank's part is 16 MiB
  const std::vector<int64_t> middle = {512, 8192};  // 16 MiB
  const Layout owner = Layout::Owner(large, kType, 0);
  const Layout rows = Parts(large, {4, 1});
  const Layout columns = Parts(large, {1, 4});
  const Layout copies = Everywhere(middle, Placement::Broadcast());
  const Layout partials = Everywhere(middle, Placement::Partial());
  const Window window = *Window::Create({.kernel = 5, .pad_lo = 2, .pad_hi = 2});
  const Layout uneven = *Layout::Partition(large, kType, {2, 2}, {3, 1, 0, 2}, {{0, {500, 1548}}, {1, {5000, 3192}}});
  const Layout split_rows = Everywhere(middle, Placement::Split(0));
  const Layout split_columns = Everywhere(middle, Placement::Split(1));
  std::vector<AllocationCase> cases = {
      Between<Broadcast>("Broadcast", Layout::Owner(middle, kType, 1), copies),
      Between<SumReduce>("SumReduce", partials, Layout::Owner(middle, kType, 2)),
      Between<Scatter>("ScatterOfRows", owner, rows),
      Between<Scatter>("ScatterOfColumns", owner, columns),
      Between<Gather>("GatherOfRows", rows, owner),
      Between<Gather>("GatherOfColumns", columns, owner),
      Between<AllGather>("AllGatherOfRows", split_rows, copies),
      Between<AllGather>("AllGatherOfColumns", split_columns, copies),
      Between<ReduceScatter>("ReduceScatterOfRows", partials, split_rows),
      Between<ReduceScatter>("ReduceScatterOfColumns", partials, split_columns),
      Between<AllToAll>("AllToAll", Everywhere(large, Placement::Split(0)), Everywhere(large, Placement::Split(1))),
      Between<SendReceive>("SendReceive", Layout::Owner(middle, kType, 3), Layout::Owner(middle, kType, 1)),
      Between<Redistribute>("Repartition", Parts(large, {2, 2}), uneven),
      Between<Redistribute>("RepartitionOfColumns", columns, Parts(large, {2, 2})),
  };
  cases.push_back({"AllSumReduce", [=](Communicator* communicator, Movement::Options options) {
                     return AllSumReduce::Create(communicator, partials, std::move(options));
                   }});
  cases.push_back({"AllMaxReduce",
                   [=](Communicator* communicator, Movement::Options options) {
                     return AllMaxReduce::Create(communicator, Everywhere(middle, Placement::Partial(ReduceOp::kMax)),
                                                 std::move(options));
                   },
                   /*differentiable=*/false});
  cases.push_back(
      {"HaloExchange", [=](Communicator* communicator, Movement::Options options) {
         const Layout image = Parts({1, 4, 2048, 2048}, {1, 1, 2, 2});
         return HaloExchange::Create(communicator, image, {{2, window}, {3, window}}, image, std::move(options));
       }});
  return cases;
}

// What an execution of `plan` may use beside the source and the result.
int64_t BytesInFlight(const MovementPlan& plan) {
  const CompiledMovement program = CompiledMovement::Compile(plan);
  const int64_t size = SizeOf(program.dtype);
  int64_t packed = 0, staged = 0, bytes = kSlack;
  for (const ListedMessage& message : program.sends) {
    bytes += kSlackPerMessage;
    if (!message.run.has_value()) packed += message.elements * size;
  }
  for (const ListedMessage& message : program.receives) {
    bytes += kSlackPerMessage;
    if (!message.run.has_value() || program.combines) staged += message.elements * size;
  }
  bytes += std::min(packed, DirectExecution::kStagedBytes) + std::min(staged, DirectExecution::kStagedBytes);
  for (const CompiledCollective& collective : program.collectives) {
    const int64_t most = (CompiledCollective::kAhead + 1) * collective.longest_combined +
                         (collective.works_in_destination ? 0 : CompiledCollective::kSegments * collective.segment);
    bytes += std::min<int64_t>(most * size,
                               (CompiledCollective::kAhead + 1 + CompiledCollective::kSegments) * kSegmentBytes);
    bytes += static_cast<int64_t>(collective.steps.size()) * kSlackPerMessage;
  }
  return bytes;
}

// A contiguous tensor, or the same shape with its memory in another order.
at::Tensor Source(const std::vector<int64_t>& shape, bool strided) {
  if (!strided) return at::ones(shape, at::kFloat);
  std::vector<int64_t> reversed(shape.rbegin(), shape.rend());
  return at::ones(reversed, at::kFloat).permute([&] {
    std::vector<int64_t> dims(shape.size());
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(dims.size() - 1 - i);
    return dims;
  }());
}

// One rank's check of one movement.
class Checker {
 public:
  Checker(const AllocationCase& c, Movement* f, int rank) : case_(c), f_(f), rank_(rank) {}

  absl::Status Check(bool strided) {
    const at::Tensor x = Source(f_->forward_plan().direct().from_shape(), strided);
    // The first one also compiles the operator's program; from the third on a sender waits for credits.
    const int executions = strided ? 1 : 3;
    for (int execution = 0; execution < executions; ++execution) {
      ADJOIN_RETURN_IF_ERROR(Expect("forward", f_->forward_plan(), x, strided, [&] { return f_->Forward(x); }));
    }
    Tape tape;
    ADJOIN_RETURN_IF_ERROR(Expect("start and wait", f_->forward_plan(), x, strided, [&] {
      const at::NoGradGuard no_grad;
      return f_->Start(x, tape)->Wait(tape);
    }));
    if (!case_.differentiable) return absl::OkStatus();
    const at::Tensor y = Source(f_->adjoint_plan().direct().from_shape(), strided);
    for (int execution = 0; execution < executions; ++execution) {
      ADJOIN_RETURN_IF_ERROR(Expect("adjoint", f_->adjoint_plan(), y, strided, [&] { return f_->Adjoint(y); }));
    }
    return CheckAutograd(x, y, strided);
  }

 private:
  absl::Status CheckAutograd(const at::Tensor& x, const at::Tensor& y, bool strided) {
    const at::Tensor leaf = x.detach().requires_grad_();
    Tape tape;
    at::Tensor Fx;
    ADJOIN_RETURN_IF_ERROR(Expect("apply", f_->forward_plan(), x, strided, [&] { return Fx = f_->Apply(leaf, tape); }));
    return Expect("backward", f_->adjoint_plan(), y, strided, [&] { return tape.Grad({Fx}, {leaf}, {y})[0]; });
  }

  absl::Status Expect(const char* what, const MovementPlan& plan, const at::Tensor& source, bool strided,
                      const std::function<at::Tensor()>& run) {
    MemoryCount count;
    const at::Tensor result = run();
    const int64_t copy = strided && !source.is_contiguous() ? static_cast<int64_t>(source.nbytes()) : 0;
    const int64_t allowed = static_cast<int64_t>(result.nbytes()) + copy + BytesInFlight(plan);
    const int64_t highest = count.highest();
    if (highest <= allowed) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(what, strided ? " of a strided source" : "", ": ", highest,
                                            " bytes at a time, expected at most ", allowed, ": the result's ",
                                            result.nbytes(), ", ", copy, " for the source, ", BytesInFlight(plan),
                                            " in flight; ", plan.Describe()));
  }

  const AllocationCase& case_;
  Movement* f_;
  int rank_;
};

class AllocationTest : public testing::TestWithParam<AllocationCase> {};

TEST_P(AllocationTest, AllocatesOnlyTheResultAndMessagesInFlight) {
  if (!MemoryCount::kWorks) GTEST_SKIP() << "the sanitizer has its own malloc";
  at::set_num_threads(1);
  const AllocationCase& c = GetParam();
  for (const bool strided : {false, true}) {
    const absl::Status status =
        RunRanks(kRanks, TransportKind::kUcxSharedMemory, 0, [&](Transport& transport) -> absl::Status {
          HostMemory memory;
          Communicator communicator(&transport, &memory, {0, absl::Seconds(30)});
          ADJOIN_ASSIGN_OR_RETURN(
              const std::shared_ptr<Movement> f,
              c.create(&communicator, {.id = 1, .name = c.name, .differentiable = c.differentiable}));
          try {
            return Checker(c, f.get(), transport.rank()).Check(strided);
          } catch (...) {
            return StatusFromCurrentException();
          }
        });
    EXPECT_TRUE(status.ok()) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AllocationTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// All ways to ask for memory and to give it back.
TEST(MemoryCountTest, CountsEveryKindOfAllocation) {
  if (!MemoryCount::kWorks) GTEST_SKIP() << "the sanitizer has its own malloc";
  const auto expect = [](const char* what, const std::function<void()>& allocate) {
    MemoryCount count;
    allocate();
    EXPECT_GE(count.highest(), 16 * kMiB) << what;
    EXPECT_LT(count.highest(), 17 * kMiB) << what;
    EXPECT_LT(count.live(), kMiB) << what;
  };
  expect("a tensor", [] { at::empty({16 * kMiB}, at::kByte); });
  expect("a vector", [] { std::vector<char>(16 * kMiB, 'a'); });
  expect("staging", [] { HostMemory().Allocate(16 * kMiB).IgnoreError(); });
  // Through a variable that the compiler may not think away.
  void* volatile block = nullptr;
  expect("calloc", [&] {
    block = calloc(16, kMiB);
    free(block);
  });
  expect("realloc", [&] {
    block = malloc(1000);
    block = realloc(block, 16 * kMiB);
    free(block);
  });
  expect("given back elsewhere", [] {
    std::vector<char> bytes(16 * kMiB, 'a');
    std::thread([&] { std::vector<char>().swap(bytes); }).join();
  });
}

}  // namespace
}  // namespace adjoin
