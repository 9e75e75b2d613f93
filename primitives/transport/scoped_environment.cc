#include "primitives/transport/scoped_environment.h"

#include <cstdlib>

namespace adjoin {
namespace {

std::mutex& EnvironmentMutex() {
  static std::mutex* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

ScopedEnvironment::ScopedEnvironment(const std::function<Variables()>& variables) : lock_(EnvironmentMutex()) {
  for (const auto& [name, value] : variables()) {
    if (std::getenv(name.c_str()) != nullptr) continue;
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
}

ScopedEnvironment::~ScopedEnvironment() {
  for (const std::string& name : set_) unsetenv(name.c_str());
}

}  // namespace adjoin
