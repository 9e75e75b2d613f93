#include "primitives/transport/transport_ranks.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/device/cuda_device.h"
#include "primitives/device/cuda_driver.h"
#include "primitives/device/fake_device.h"
#include "primitives/transport/device_transport.h"
#include "primitives/transport/in_memory_transport.h"
#include "primitives/transport/rank_threads.h"
#include "primitives/transport/transport_factory.h"

namespace adjoin {
namespace {

std::vector<absl::Status> RunAll(int n, TransportKind kind, uint64_t seed, RankFunction fn, absl::Duration timeout,
                                 int* first) {
  auto transports = OpenTransports(n, kind, seed);
  if (!transports.ok()) {
    *first = 0;
    return std::vector<absl::Status>(n, transports.status());
  }
  return RunConnectedRankThreads(*std::move(transports), std::move(fn), timeout, first);
}

}  // namespace

std::string ToString(TransportKind kind) {
  switch (kind) {
    case TransportKind::kInMemory: return "InMemory";
    case TransportKind::kInMemoryDelayed: return "InMemoryDelayed";
    case TransportKind::kUcxSharedMemory: return "UcxSharedMemory";
    case TransportKind::kUcxTcp: return "UcxTcp";
    case TransportKind::kDeviceDirect: return "DeviceDirect";
    case TransportKind::kDeviceStaged: return "DeviceStaged";
    case TransportKind::kUcxStaged: return "UcxStaged";
    case TransportKind::kCudaStaged: return "CudaStaged";
    case TransportKind::kCudaUcx: return "CudaUcx";
  }
  return "Unknown";
}

namespace {

absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice() {
  ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<const CudaDriver> driver, CudaDriver::Open());
  return CudaDevice::Open(std::move(driver), 0);
}

}  // namespace

TransportKind ChosenTransport(TransportKind kind) {
  static const char* const name = std::getenv("ADJOIN_TEST_TRANSPORT");
  if (name == nullptr || kind != TransportKind::kInMemoryDelayed) return kind;
  for (const TransportKind other :
       {TransportKind::kInMemory, TransportKind::kUcxSharedMemory, TransportKind::kUcxTcp, TransportKind::kDeviceDirect,
        TransportKind::kDeviceStaged, TransportKind::kUcxStaged, TransportKind::kCudaStaged, TransportKind::kCudaUcx}) {
    if (ToString(other) == name) return other;
  }
  std::fprintf(stderr, "ADJOIN_TEST_TRANSPORT=%s is not the name of a transport, such as DeviceStaged\n", name);
  std::abort();
}

absl::StatusOr<std::shared_ptr<Device>> DeviceOfRank(TransportKind kind, int rank, uint64_t seed) {
  switch (ChosenTransport(kind)) {
    case TransportKind::kDeviceDirect:
    case TransportKind::kDeviceStaged:
    case TransportKind::kUcxStaged: {
      FakeDevice& device = FakeDevice::Get(rank % FakeDevice::kCount);
      device.SetDelays(seed, absl::Microseconds(200));
      return std::shared_ptr<Device>(std::shared_ptr<void>(), &device);
    }
    case TransportKind::kCudaStaged:
    case TransportKind::kCudaUcx: {
      // Open to the end of the process, as in a rank's: UCX keeps what it knows of a context that is gone.
      static const auto* const device = new absl::StatusOr<std::shared_ptr<Device>>(OpenCudaDevice());
      return *device;
    }
    default: return std::shared_ptr<Device>();
  }
}

absl::StatusOr<std::vector<std::unique_ptr<Transport>>> OpenTransports(int n, TransportKind kind, uint64_t seed) {
  kind = ChosenTransport(kind);
  const bool ucx = kind == TransportKind::kUcxSharedMemory || kind == TransportKind::kUcxTcp ||
                   kind == TransportKind::kUcxStaged || kind == TransportKind::kCudaUcx;
  std::vector<std::unique_ptr<Transport>> transports;
  if (ucx) {
    TransportOptions options;
    options.size = n;
    options.shared_memory = kind != TransportKind::kUcxTcp;
    options.other_nodes = !options.shared_memory;
    if (kind == TransportKind::kCudaUcx) options.gpu_direct = GpuDirect::kRequired;
    for (options.rank = 0; options.rank < n; ++options.rank) {
      ADJOIN_ASSIGN_OR_RETURN(options.device, DeviceOfRank(kind, options.rank, seed));
      ADJOIN_ASSIGN_OR_RETURN(auto transport, MakeTransport(options));
      transports.push_back(std::move(transport));
    }
    return transports;
  }
  InMemoryFabric::Options in_memory;
  in_memory.seed = seed;
  in_memory.delay = kind != TransportKind::kInMemory;
  in_memory.view_kind = MemoryKind::kFakeDevice;
  in_memory.view = FakeDevice::ViewOf;
  ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(n, in_memory));
  for (int r = 0; r < n; ++r) {
    ADJOIN_ASSIGN_OR_RETURN(auto transport, fabric->CreateTransport(r));
    ADJOIN_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, DeviceOfRank(kind, r, seed));
    if (device != nullptr) {
      const DeviceTransport::Options options{.staged = kind != TransportKind::kDeviceDirect};
      ADJOIN_ASSIGN_OR_RETURN(transport, DeviceTransport::Create(std::move(transport), std::move(device), options));
    }
    transports.push_back(std::move(transport));
  }
  return transports;
}

absl::Status RunRanks(int n, TransportKind kind, uint64_t seed, RankFunction fn, absl::Duration timeout) {
  int first = -1;
  const std::vector<absl::Status> statuses = RunAll(n, kind, seed, std::move(fn), timeout, &first);
  if (first < 0) return absl::OkStatus();
  return absl::Status(statuses[first].code(), absl::StrCat("rank ", first, ": ", statuses[first].message()));
}

std::vector<absl::Status> RunRanksCollect(int n, TransportKind kind, uint64_t seed, RankFunction fn,
                                          absl::Duration timeout) {
  int first = -1;
  return RunAll(n, kind, seed, std::move(fn), timeout, &first);
}

}  // namespace adjoin
