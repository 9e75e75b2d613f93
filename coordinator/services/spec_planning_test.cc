#include "coordinator/services/spec_planning.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(SpecPlanning, APlanThatIsTooLargeIsRefused) {
  JobSpec spec;
  spec.set_ranks(4096);
  spec.add_layer();
  EXPECT_EQ(CheckPlanSize(256 << 20, spec), absl::OkStatus());
  const absl::Status refused = CheckPlanSize((256 << 20) + 1, spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.message()),
            "the job's plan has 268435457 bytes, for 1 layers on 4096 ranks; at most 268435456 are possible: take "
            "fewer ranks,"
            " or fewer layers");
}

}  // namespace
}  // namespace adjoin
