#include "planner/memory/resident_size.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "planner/memory/tensor_bytes.h"
#include "planner/plan/gradient_buckets.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/traffic.h"

namespace adjoin {
namespace {

// Measured with LibTorch 1.13, UCX 1.13 and gRPC 1.51 of Debian 12 on x86-64: ranks of 0.1 to 0.8 MiB of tensors have
// 188 MiB, of which 123 MiB are pages of programs and libraries, and with 15 other ranks 192 to 194 MiB.
constexpr int64_t kProgram = int64_t{188} << 20;
constexpr int64_t kPeer = int64_t{384} << 10;
// Beyond that, pages of a connection that is not used are never touched.
constexpr int64_t kMostPeers = 512;
// The driver's own, of a process that uses a GPU: an estimate, not measured.
constexpr int64_t kDriver = int64_t{1} << 30;
// Tensors from here on have memory of their own that the next ones use (kLargeTensorBytes in
// primitives/tensor_memory.h); smaller ones are on the heap, which small objects between them keep from being used
// again.
constexpr int64_t kOwnMemory = int64_t{32} << 20;
constexpr double kHeapHolds = 1.0;  // of the tensors on the heap

// A rank has at most so much memory that others of its node share (SharedArena::kBytes), and what it gets from one of
// them in an execution goes that way up to so many bytes (SharedRoutes::kMostBytes), in two slots of whole lines
// (SharedChannel::BytesFor).
constexpr int64_t kArena = int64_t{64} << 20;
constexpr int64_t kMostShared = int64_t{256} << 10;
constexpr int64_t kLinesOfMessage = 5 * 64;

// What messages of one execution take of an arena, at most, with so many other ranks. How many bytes are of which pair
// of ranks is not asked.
int64_t SharedBytes(int64_t bytes, int64_t messages, int64_t others) {
  const int64_t pairs = std::min(messages, others);
  if (pairs <= 0) return 0;
  // Where all together have more than pairs may, one of them at least has too much.
  const int64_t shared = bytes <= pairs * kMostShared ? bytes : (pairs - 1) * kMostShared;
  return shared == 0 ? 0 : 2 * shared + messages * kLinesOfMessage;
}

// What the busiest rank touches of its own arena and of those of others. Ranks send no more than others' arenas take,
// so on average both stop at one arena.
struct ArenaUse {
  int64_t own = 0, others = 0;

  void Add(const RankTraffic& busiest, int64_t ranks) {
    own = std::min(kArena, own + SharedBytes(busiest.bytes_received, busiest.messages_received, ranks - 1));
    others = std::min(kArena, others + SharedBytes(busiest.bytes_sent, busiest.messages_sent, ranks - 1));
  }
};

absl::Status AddArenaUse(const OperatorPlan& op, int64_t ranks, ArenaUse& use) {
  ADJOIN_ASSIGN_OR_RETURN(const MovementEnds ends, MovementEndsOf(op));
  ADJOIN_ASSIGN_OR_RETURN(const BusiestTraffic traffic,
                          BusiestTrafficOf({.from = ends.from,
                                            .to = ends.to,
                                            .readings = ends.readings,
                                            .read = ends.read.has_value() ? *ends.read : ends.from,
                                            .source = ends.source}));
  use.Add(traffic.forward, ranks);
  if (op.differentiable()) use.Add(traffic.adjoint, ranks);
  return absl::OkStatus();
}

// Movements that are executed again and again: those of every program, and the sums of gradients.
absl::StatusOr<int64_t> SharedMemory(const Plan& plan) {
  const int64_t ranks = plan.spec().ranks();
  if (ranks < 2) return 0;
  ArenaUse use;
  bool trains = false;
  for (const ProgramPlan& program : plan.program()) {
    trains = trains || program.training();
    for (const OperatorPlan& op : program.op()) ADJOIN_RETURN_IF_ERROR(AddArenaUse(op, ranks, use));
  }
  if (trains) {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<GradientSum> sums, GradientSums(plan));
    for (const GradientSum& sum : sums) ADJOIN_RETURN_IF_ERROR(AddArenaUse(sum.movement, ranks, use));
  }
  return use.own + use.others;
}

// Returns the share of the first program's values, by bytes, that are on the heap of the rank.
absl::StatusOr<double> HeapShare(const Plan& plan, int rank) {
  double all = 0, on_heap = 0;
  if (plan.program().empty()) return 0;
  for (const ValuePlan& value : plan.program(0).value()) {
    ADJOIN_ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(value.layout()));
    const int64_t bytes = BytesOf(layout.LocalShape(rank), layout.dtype());
    all += static_cast<double>(bytes);
    if (bytes < kOwnMemory) on_heap += static_cast<double>(bytes);
  }
  return all > 0 ? on_heap / all : 0;
}

}  // namespace

absl::StatusOr<ResidentSize> PredictResidentSize(const Plan& plan, const RankMemory& memory) {
  const int64_t peers = int64_t{plan.spec().ranks()} - 1;
  ResidentSize size;
  size.program = kProgram + kPeer * std::clamp<int64_t>(peers, 0, kMostPeers);
  if (plan.spec().resources().gpus() > 0) {
    size.program += kDriver;
    size.total = size.program;
    return size;
  }
  ADJOIN_ASSIGN_OR_RETURN(const double heap, HeapShare(plan, memory.rank));
  ADJOIN_ASSIGN_OR_RETURN(size.shared, SharedMemory(plan));
  size.program += size.shared;
  size.program += static_cast<int64_t>(kHeapHolds * heap * static_cast<double>(memory.bytes));
  size.total = size.program + memory.bytes;
  return size;
}

}  // namespace adjoin
