// A random job around one layer whose output is a tensor of another shape with as many dims: where the input lies,
// where it comes from, and where the output is to lie.
//
//   JobParts job = RandomLayerJob(random, "pool { ... }", /*ranks=*/4, {2, 3, 9}, {2, 3, 4});
//   EXPECT_EQ(CompareLayer(job, random, x, {}, y, TransportKind::kInMemoryDelayed), "");
#ifndef ADJOIN_TESTS_VS_SERIAL_RANDOM_LAYER_JOB_H_
#define ADJOIN_TESTS_VS_SERIAL_RANDOM_LAYER_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

// Layer "y" reads the field in layout "x", which may have copies, or, moved there, in another one; its result is cut as
// its rule says, at other places, or in another way altogether. Any dim may be cut, unevenly and into empty parts.
JobParts RandomLayerJob(RandomJobs& random, const std::string& op, int64_t ranks, const std::vector<int64_t>& x_shape,
                        const std::vector<int64_t>& y_shape);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VS_SERIAL_RANDOM_LAYER_JOB_H_
