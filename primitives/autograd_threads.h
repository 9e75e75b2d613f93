// Which thread runs a backward pass.
#ifndef ADJOIN_PRIMITIVES_AUTOGRAD_THREADS_H_
#define ADJOIN_PRIMITIVES_AUTOGRAD_THREADS_H_

namespace adjoin {

// From now on backward passes that this thread begins run in it, also where their tensors are on a device: LibTorch
// would give them to one thread per device. The movements of two ranks that share a device would then wait for each
// other in one thread, and a rank's deadlines and its current stream would not be those of the thread that computes.
// Nothing to do with LibTorch 1.13, which cannot be told, and for the CPU, whose passes never leave their thread.
void RunBackwardInThisThread();

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_AUTOGRAD_THREADS_H_
