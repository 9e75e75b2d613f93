// The memory that a plain list of messages needs beside the tensors.
#include "primitives/comm/direct_execution.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/comm/communicator.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/distribution.h"
#include "primitives/geometry/layout.h"
#include "primitives/geometry/mesh.h"
#include "primitives/geometry/movement_plan.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

// Host memory that counts what is allocated at the same time.
class CountedMemory : public HostMemory {
 public:
  absl::StatusOr<Buffer> Allocate(int64_t bytes) override {
    ADJOIN_ASSIGN_OR_RETURN(Buffer buffer, HostMemory::Allocate(bytes));
    live_ += bytes;
    highest_ = std::max(highest_, live_);
    buffer.keepalive =
        std::shared_ptr<void>(buffer.data, [this, bytes, kept = buffer.keepalive](void*) { live_ -= bytes; });
    return buffer;
  }
  int64_t highest() const { return highest_; }

 private:
  int64_t live_ = 0;
  int64_t highest_ = 0;
};

// Messages of several lengths take turns: however the buffers fit, no more of them are kept than are in flight.
TEST(DirectExecutionTest, KeepsStagingWithinItsBound) {
  constexpr int64_t kRows = 200;
  const std::vector<int64_t> columns = {60000, 50000, 40000, 30000, 20000};
  const std::vector<int64_t> shape = {kRows, 200000};
  const Layout owner = Layout::Owner(shape, DType::kUInt8, 0);
  const Layout split = *Layout::Create(shape, DType::kUInt8, Mesh::Create({5}, {1, 2, 3, 4, 5}).value(),
                                       {Placement::Split(1)}, {{1, columns}});
  for (const bool gather : {false, true}) {
    const absl::Status status =
        RunRanks(6, TransportKind::kInMemoryDelayed, 11, [&](Transport& transport) -> absl::Status {
          CountedMemory memory;
          {
            Communicator communicator(&transport, &memory, {0, absl::Seconds(40)});
            const MovementPlan plan = *MovementPlan::Build(Distribution::Of(gather ? split : owner),
                                                           Distribution::Of(gather ? owner : split), transport.rank());
            std::vector<uint8_t> x(VolumeOf(plan.direct().from_shape()), 1);
            std::vector<uint8_t> y(VolumeOf(plan.direct().to_shape()));
            Buffer source, destination;
            source.data = x.data();
            source.bytes = x.size();
            destination.data = y.data();
            destination.bytes = y.size();
            ADJOIN_RETURN_IF_ERROR(communicator.Execute({1, "x"}, plan, source, destination));
            if (y != std::vector<uint8_t>(y.size(), 1)) return absl::InternalError("wrong cells");
          }
          if (memory.highest() <= DirectExecution::kStagedBytes + kSegmentBytes) return absl::OkStatus();
          return absl::InternalError(absl::StrCat(memory.highest(), " bytes of staging"));
        });
    EXPECT_TRUE(status.ok()) << status << (gather ? ", receiving" : ", sending");
  }
}

}  // namespace
}  // namespace adjoin
