#include "primitives/device/testing/fake_cuda.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adjoin {

FakeCuda::FakeCuda() {
  void* const library = dlopen(path().c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded, as the real one
  if (library == nullptr) {
    std::fprintf(stderr, "the fake CUDA driver: %s\n", dlerror());
    std::abort();
  }
#define ADJOIN_FAKE_CUDA_LOAD(result, name, parameters)                     \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));           \
  if (name == nullptr) {                                                    \
    std::fprintf(stderr, "%s has no function %s\n", path().c_str(), #name); \
    std::abort();                                                           \
  }
  ADJOIN_FAKE_CUDA_CONTROLS(ADJOIN_FAKE_CUDA_LOAD)
#undef ADJOIN_FAKE_CUDA_LOAD
}

FakeCuda& FakeCuda::Reset(int devices) {
  static FakeCuda* fake = new FakeCuda;
  fake->FakeCudaReset(devices);
  return *fake;
}

std::string FakeCuda::PathOf(const std::string& library) {
  const char* const root = getenv("TEST_SRCDIR");
  const char* const workspace = getenv("TEST_WORKSPACE");
  return absl::StrCat(root == nullptr ? "." : root, "/", workspace == nullptr ? "" : workspace,
                      "/primitives/device/testing/", library);
}

std::vector<std::string> FakeCuda::AllCalls() const { return absl::StrSplit(FakeCudaLog(), '\n', absl::SkipEmpty()); }

std::vector<std::string> FakeCuda::Calls() const {
  std::vector<std::string> calls;
  for (std::string& call : AllCalls()) {
    if (!absl::StartsWith(call, "cuCtxGetCurrent(") && !absl::StartsWith(call, "cuGetError")) {
      calls.push_back(std::move(call));
    }
  }
  return calls;
}

}  // namespace adjoin
