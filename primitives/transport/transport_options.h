// What a program chooses when it opens a transport, whichever it is.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_OPTIONS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_OPTIONS_H_

#include <memory>
#include <string>

#include "primitives/device/device.h"

namespace adjoin {

enum class GpuDirect { kOff, kAuto, kRequired };

struct TransportOptions {
  std::string name = "ucx";  // which transport: a name in transport_factory.cc
  int rank = 0;
  int size = 1;
  bool shared_memory = true;  // ranks of one node may share memory; off: they use the network
  // With shared_memory: short messages of movements go through memory that both ranks map, without the transport's
  // library (shared_peers.h). The environment's ADJOIN_SHARED_CHANNELS=off turns it off as well.
  bool shared_channels = true;
  bool other_nodes = true;         // some rank may be on another node; off: no network
  std::string net_devices = "lo";  // the network interfaces to use, e.g. "eth0"; empty: all
  // The device whose memory is moved, too; null: host memory only. `gpu_direct` says how: kRequired refuses to stage it
  // through the host's memory, kOff always does, kAuto where the transport cannot move it itself.
  std::shared_ptr<Device> device = nullptr;
  GpuDirect gpu_direct = GpuDirect::kAuto;
  std::string port_range;  // the ports to listen on, e.g. "41000-41999"; empty: any
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_OPTIONS_H_
