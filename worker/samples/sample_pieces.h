// Goes through a whole sample in pieces, of which each is read at once.
//
//   ADJOIN_RETURN_IF_ERROR(ForEachSamplePiece(*source, sample, Box::Whole(source->ShapeOf(sample)), stop,
//                                             [&](const Box& piece, const double* cells) { ... }));
//
// The pieces follow the order of the file, so that it is read once; every rank gets the same ones. One thread.
#ifndef ADJOIN_WORKER_SAMPLES_SAMPLE_PIECES_H_
#define ADJOIN_WORKER_SAMPLES_SAMPLE_PIECES_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "primitives/geometry/box.h"
#include "worker/samples/field_source.h"

namespace adjoin {

// Most cells that are read and converted at once, unless a chunk has more: a slab of any size needs no second one of
// doubles beside it.
inline constexpr int64_t kMostCellsAtOnce = int64_t{1} << 20;

// `f` gets the cells of the piece, row-major, and may change them.
// Errors: kCancelled once `stop` is set; as FieldSource::Read; those of `f`.
absl::Status ForEachSamplePiece(FieldSource& source, int64_t sample, const Box& box, const std::atomic<bool>& stop,
                                const std::function<absl::Status(const Box& piece, double* cells)>& f);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_SAMPLES_SAMPLE_PIECES_H_
