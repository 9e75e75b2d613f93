// Regions of a contiguous local tensor, to and from a message in which they lie back to back.
//
//   Pack(SizeOf(dtype), shape, transfer.regions, tensor, message);
//   Unpack(SizeOf(dtype), shape, transfer.regions, message, tensor);
//
// Shapes, offsets and sizes are in elements; row-major. Host memory. Any thread.
#ifndef ADJOIN_PRIMITIVES_COMM_PACK_H_
#define ADJOIN_PRIMITIVES_COMM_PACK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "primitives/comm/reducer.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/exchange_schedule.h"

namespace adjoin {

// The offset of the run of elements that the regions, one after the other, are; absent where they are not one run. A
// message of one run needs no packing.
std::optional<int64_t> RunOf(const std::vector<int64_t>& shape, const std::vector<Region>& regions);

void Pack(int64_t element_bytes, const std::vector<int64_t>& shape, const std::vector<Region>& regions,
          const void* tensor, void* message);
void Unpack(int64_t element_bytes, const std::vector<int64_t>& shape, const std::vector<Region>& regions,
            const void* message, void* tensor);
// Adds what the message holds to the regions. Errors: the reducer's.
absl::Status UnpackAdd(Reducer& reducer, DType dtype, const std::vector<int64_t>& shape,
                       const std::vector<Region>& regions, const void* message, void* tensor);

// From the regions of one tensor to those of another, in order, without a message between; `add` adds.
// Errors: kInternal where the regions differ in number or size; the reducer's.
absl::Status CopyRegions(Reducer& reducer, DType dtype, bool add, const std::vector<int64_t>& from_shape,
                         const std::vector<Region>& from_regions, const void* from,
                         const std::vector<int64_t>& to_shape, const std::vector<Region>& to_regions, void* to);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_COMM_PACK_H_
