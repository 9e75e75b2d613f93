// Messages whose length does not fit 31 or 32 bits, over UCX. Takes about 9 GiB of memory.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "primitives/transport/buffer.h"
#include "primitives/transport/tag.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_ranks.h"

namespace adjoin {
namespace {

constexpr size_t kWords = (size_t{4} << 27) + 12345;  // 4 GiB and a little

class UcxLargeMessageTest : public testing::TestWithParam<TransportKind> {};

TEST_P(UcxLargeMessageTest, Arrives) {
  const absl::Status status = RunRanks(
      2, GetParam(), 0,
      [](Transport& t) -> absl::Status {
        const Deadline deadline = Deadline::After(absl::Minutes(4));
        const Tag tag = *Tag::Make({0, 1, 0, Direction::kForward, 0, 0});
        std::vector<uint64_t> data(kWords);
        Buffer buffer;
        buffer.data = data.data();
        buffer.bytes = data.size() * sizeof(uint64_t);
        if (t.rank() == 0) {
          for (size_t i = 0; i < kWords; ++i) data[i] = i * 0x9e3779b97f4a7c15;
          ADJOIN_ASSIGN_OR_RETURN(Handle send, t.StartSend(1, tag, buffer));
          ADJOIN_RETURN_IF_ERROR(t.Wait(send, deadline));
          return t.BytesSent() == static_cast<int64_t>(buffer.bytes) ? absl::OkStatus()
                                                                     : absl::InternalError("bytes miscounted");
        }
        ADJOIN_ASSIGN_OR_RETURN(Handle receive, t.StartRecv(0, tag, buffer));
        ADJOIN_RETURN_IF_ERROR(t.Wait(receive, deadline));
        for (size_t i = 0; i < kWords; ++i) {
          if (data[i] != i * 0x9e3779b97f4a7c15) return absl::InternalError(absl::StrCat("word ", i, " differs"));
        }
        return absl::OkStatus();
      },
      absl::Minutes(5));
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Ucx, UcxLargeMessageTest,
                         testing::Values(TransportKind::kUcxSharedMemory, TransportKind::kUcxTcp),
                         [](const testing::TestParamInfo<TransportKind>& info) { return ToString(info.param); });

}  // namespace
}  // namespace adjoin
