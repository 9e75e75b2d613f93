#include "primitives/autograd_threads.h"

#include "primitives/libtorch_versions.h"

namespace adjoin {

void RunBackwardInThisThread() { AllowBackwardInOtherThreads(false); }

}  // namespace adjoin
