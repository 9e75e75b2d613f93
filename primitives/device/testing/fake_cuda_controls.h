// What the fake CUDA driver (libfake_cuda_driver.so) has beside the functions of the real one. FakeCuda calls these.
#ifndef ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_CONTROLS_H_
#define ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_CONTROLS_H_

// X(result, name, parameters)
#define ADJOIN_FAKE_CUDA_CONTROLS(X)                               \
  X(void, FakeCudaReset, (int devices))                            \
  X(void, FakeCudaFail, (const char* call, int result, int after)) \
  X(void, FakeCudaSetAttribute, (int attribute, int value))        \
  X(void, FakeCudaHold, (int hold))                                \
  X(const char*, FakeCudaLog, ())                                  \
  X(const char*, FakeCudaMistakes, ())                             \
  X(const char*, FakeCudaLive, ())

#endif  // ADJOIN_PRIMITIVES_DEVICE_TESTING_FAKE_CUDA_CONTROLS_H_
