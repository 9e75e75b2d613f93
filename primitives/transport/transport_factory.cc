#include "primitives/transport/transport_factory.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "primitives/transport/device_transport.h"
#include "primitives/transport/in_memory_transport.h"
#include "primitives/transport/ucx_transport.h"

namespace adjoin {
namespace {

absl::StatusOr<std::unique_ptr<Transport>> OpenUcx(const TransportOptions& options) {
  UcxTransport::Options ucx;
  ucx.rank = options.rank;
  ucx.size = options.size;
  ucx.shared_memory = options.shared_memory;
  // A device's memory is not the host's, and both ends must send alike.
  ucx.shared_channels = options.shared_channels && options.device == nullptr;
  ucx.other_nodes = options.other_nodes;
  ucx.net_devices = options.net_devices;
  ucx.port_range = options.port_range;
  const bool cuda = options.device != nullptr && options.device->kind() == MemoryKind::kCuda;
  ucx.cuda = cuda && options.gpu_direct != GpuDirect::kOff && UcxTransport::KnowsCuda();
  return UcxTransport::Create(ucx);
}

// Several ranks share an InMemoryFabric, which this process cannot hand to another.
absl::StatusOr<std::unique_ptr<Transport>> OpenInMemory(const TransportOptions& options) {
  if (options.size != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("transport \"in-memory\" connects the threads of one process: a process that is one of ",
                     options.size, " ranks cannot use it"));
  }
  ADJOIN_ASSIGN_OR_RETURN(const auto fabric, InMemoryFabric::Create(1, {}));
  return fabric->CreateTransport(options.rank);
}

struct Entry {
  const char* name;
  absl::StatusOr<std::unique_ptr<Transport>> (*open)(const TransportOptions&);
};

constexpr Entry kTransports[] = {
    {"ucx", &OpenUcx},
    {"in-memory", &OpenInMemory},
};

// Lets a transport move the memory of the device, directly where it can and may.
absl::StatusOr<std::unique_ptr<Transport>> OnDevice(std::unique_ptr<Transport> transport,
                                                    const TransportOptions& options) {
  const MemoryKind kind = options.device->kind();
  const bool direct = options.gpu_direct != GpuDirect::kOff && transport->Moves(kind);
  if (!direct && options.gpu_direct == GpuDirect::kRequired) {
    return absl::FailedPreconditionError(absl::StrCat("transport \"", options.name, "\" cannot move ", ToString(kind),
                                                      " of ", options.device->name(),
                                                      options.name == "ucx" ? ": this UCX was built without CUDA" : "",
                                                      "; allow that it is staged through the host's memory"));
  }
  return DeviceTransport::Create(std::move(transport), options.device, {.staged = !direct});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const TransportOptions& options) {
  std::vector<std::string> names;
  for (const Entry& entry : kTransports) {
    names.push_back(entry.name);
    if (options.name != entry.name) continue;
    ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, entry.open(options));
    return options.device != nullptr ? OnDevice(std::move(transport), options) : std::move(transport);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no transport \"", options.name, "\"; there are: ", absl::StrJoin(names, ", ")));
}

}  // namespace adjoin
