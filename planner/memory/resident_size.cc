#include "planner/memory/resident_size.h"

#include <algorithm>

#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "planner/memory/tensor_bytes.h"
#include "primitives/geometry/layout.h"

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
  size.program += static_cast<int64_t>(kHeapHolds * heap * static_cast<double>(memory.bytes));
  size.total = size.program + memory.bytes;
  return size;
}

}  // namespace adjoin
