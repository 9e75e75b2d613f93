// The losses of a random network, each with the layer that makes a prediction for it.
#ifndef ADJOIN_TESTS_VERIFY_RANDOM_LOSSES_H_
#define ADJOIN_TESTS_VERIFY_RANDOM_LOSSES_H_

#include "tests/verify/network_writer.h"
#include "tests/verify/random_layers.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

// One of the last value, sometimes one more of an earlier one. With `microbatches`, only losses whose mean does not
// depend on the targets.
void AddLosses(RandomJobs& random, NetworkWriter& writer, const RandomLayers& layers, bool microbatches);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VERIFY_RANDOM_LOSSES_H_
