// Regions of a contiguous local tensor, to and from a message in which they follow each other without gaps.
//
//   ADJOIN_RETURN_IF_ERROR(Pack(memory, dtype, shape, transfer.regions, tensor, message));
//   ADJOIN_RETURN_IF_ERROR(Unpack(memory, dtype, std::nullopt, shape, transfer.regions, message, tensor));
//
// Shapes, offsets and sizes are in elements; row-major. Tensors and messages are in `memory`. Any thread.
#ifndef ADJOIN_PRIMITIVES_COMM_PACK_H_
#define ADJOIN_PRIMITIVES_COMM_PACK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "primitives/comm/local_memory.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"
#include "primitives/geometry/layout.h"

namespace adjoin {

// The offset of the run of elements that the regions, one after the other, are; absent where they are not one run. A
// message of one run needs no packing.
std::optional<int64_t> RunOf(const std::vector<int64_t>& shape, const std::vector<Region>& regions);

// Errors: the memory's.
absl::Status Pack(LocalMemory& memory, DType dtype, const std::vector<int64_t>& shape,
                  const std::vector<Region>& regions, const void* tensor, void* message);
// Copies what the message holds into the regions, or combines it with what they hold where `op` is one.
// Errors: the memory's.
absl::Status Unpack(LocalMemory& memory, DType dtype, std::optional<ReduceOp> op, const std::vector<int64_t>& shape,
                    const std::vector<Region>& regions, const void* message, void* tensor);

// From the regions of one tensor to those of another, in order, without a message between.
// Errors: kInternal where the regions differ in number or size; the memory's.
absl::Status CopyRegions(LocalMemory& memory, DType dtype, std::optional<ReduceOp> op,
                         const std::vector<int64_t>& from_shape, const std::vector<Region>& from_regions,
                         const void* from, const std::vector<int64_t>& to_shape, const std::vector<Region>& to_regions,
                         void* to);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_PACK_H_
