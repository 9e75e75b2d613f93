#include "primitives/autograd_threads.h"

#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#include <c10/core/AutogradState.h>
#endif

namespace adjoin {

void RunBackwardInThisThread() {
#if TORCH_VERSION_MAJOR >= 2
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
#endif
}

}  // namespace adjoin
