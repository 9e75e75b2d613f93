#include "worker/session/session_environment.h"

#include "primitives/comm/communicator.h"

namespace adjoin {

bool SessionEnvironment::writes() const { return communicator->rank() == 0; }

bool SessionEnvironment::stop_asked() const { return options.drain != nullptr && options.drain->load(); }

void SessionEnvironment::Log(const std::string& line) const {
  if (options.log) options.log(line);
}

DataFolder SessionEnvironment::Data() const {
  DataFolder data(options.data_root);
  data.cache_dir = options.cache_dir;
  data.cache_bytes = options.cache_bytes;
  data.warn = [this](const std::string& line) { Log(line); };
  return data;
}

}  // namespace adjoin
