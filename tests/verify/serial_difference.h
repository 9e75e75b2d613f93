// Whether a job computes what one rank and plain LibTorch compute: what tests of random networks ask of each.
//
//   EXPECT_EQ(DifferenceFromSerial(parsed, seed), "");
#ifndef ADJOIN_TESTS_VERIFY_SERIAL_DIFFERENCE_H_
#define ADJOIN_TESTS_VERIFY_SERIAL_DIFFERENCE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "planner/spec/spec_parser.h"

namespace adjoin {

// Returns "" where `verify` finds no difference from serial LibTorch, and the job, run as a whole with its data set
// "data" and its output folder "out", makes the two steps that it makes on one rank without recomputation,
// micro-batches and a loss scale: losses and norms of the gradients in float64, and roughly in its own type. Otherwise
// what is wrong; "refused: ..." where it cannot be planned.
std::string DifferenceFromSerial(const ParsedSpec& parsed, uint64_t seed);

// Returns a message's first line with '#' for each number, to count how often one comes.
std::string KindOfMessage(absl::string_view message);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VERIFY_SERIAL_DIFFERENCE_H_
