#include "tests/harness/node_network.h"

#include <stdlib.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/security/tls.h"
#include "base/status_macros.h"
#include "tests/harness/child_process.h"

namespace adjoin {
namespace {

constexpr char kIp[] = "/usr/sbin/ip";
constexpr char kTc[] = "/usr/sbin/tc";
constexpr char kIptables[] = "/usr/sbin/iptables";

int made = 0;  // networks of this process

bool Shell(const std::string& command) { return system((command + " 2>/dev/null >/dev/null").c_str()) == 0; }

}  // namespace

NodeNetwork::NodeNetwork()
    : id_(absl::StrCat("ad", getpid() % 100000, "t", made++)),
      subnet_(absl::StrCat("10.", 64 + getpid() % 128, ".", getpid() / 128 % 250)) {}

NodeNetwork::~NodeNetwork() {
  // The kernel takes its time over a namespace: its cable would be there when the next test makes one.
  for (int node = 0; node < nodes_; ++node) {
    Shell(absl::StrCat(kIp, " link del ", Cable(node)));
    Shell(absl::StrCat(kIp, " netns del ", Space(node)));
  }
  if (nodes_ > 0) Shell(absl::StrCat(kIp, " link del ", Bridge()));
}

bool NodeNetwork::Make(int nodes) {
  if (geteuid() != 0 || access(kIp, X_OK) != 0) return false;
  nodes_ = nodes;
  bool ok = Shell(absl::StrCat(kIp, " link add ", Bridge(), " type bridge")) &&
            Shell(absl::StrCat(kIp, " addr add ", Address(), "/24 dev ", Bridge())) &&
            Shell(absl::StrCat(kIp, " link set ", Bridge(), " up"));
  for (int node = 0; ok && node < nodes; ++node) {
    ok =
        Shell(absl::StrCat(kIp, " netns add ", Space(node))) &&
        Shell(absl::StrCat(kIp, " link add ", Cable(node), " type veth peer name ", kDevice, " netns ", Space(node))) &&
        Shell(absl::StrCat(kIp, " link set ", Cable(node), " master ", Bridge(), " up")) &&
        In(node, absl::StrCat(kIp, " addr add ", AddressOf(node), "/24 dev ", kDevice)) &&
        In(node, absl::StrCat(kIp, " link set ", kDevice, " up")) && In(node, absl::StrCat(kIp, " link set lo up"));
  }
  return ok;
}

bool NodeNetwork::In(int node, const std::string& command) const {
  return Shell(absl::StrCat(kIp, " netns exec ", Space(node), " ", command));
}

bool NodeNetwork::SetLink(int node, bool up) const {
  return Shell(absl::StrCat(kIp, " link set ", Cable(node), up ? " up" : " down"));
}

bool NodeNetwork::LimitRate(int from, int to, int megabits_per_second) const {
  const std::string tc = absl::StrCat(kTc, " ");
  const std::string on_device = absl::StrCat(" dev ", kDevice);
  return In(from, absl::StrCat(tc, "qdisc add", on_device, " root handle 1: htb default 10")) &&
         In(from, absl::StrCat(tc, "class add", on_device, " parent 1: classid 1:10 htb rate 100gbit")) &&
         In(from, absl::StrCat(tc, "class add", on_device, " parent 1: classid 1:20 htb rate ", megabits_per_second,
                               "mbit burst 4k")) &&
         In(from,
            absl::StrCat(kIptables, " -t mangle -A POSTROUTING -d ", AddressOf(to), " -j CLASSIFY --set-class 1:20"));
}

absl::StatusOr<LocalClusterOptions> NodeNetwork::ClusterOptions(const std::string& folder) const {
  std::string make =
      absl::StrCat(Runfile("tools/make-certs"), " ", folder, " --server ", Address(), " --client admin tester");
  for (int node = 0; node < nodes_; ++node) absl::StrAppend(&make, " --client worker worker-", node);
  if (!Shell(make)) return absl::UnavailableError(absl::StrCat("no certificates are made by: ", make));
  const std::string own = folder + "/admin-tester", server = folder + "/server", authority = folder + "/ca.pem";
  LocalClusterOptions options;
  options.environment = {"UCX_TLS=tcp,self"};
  options.listen = Address() + ":0";
  ADJOIN_ASSIGN_OR_RETURN(
      options.credentials,
      MakeChannelCredentials({Address(), 1}, {authority, own + ".pem", own + ".key"}, /*token_file=*/""));
  options.cli_flags = {"--tls-ca", authority, "--tls-cert", own + ".pem", "--tls-key", own + ".key"};
  options.coordinator.flags = {"--tls-ca", authority, "--tls-cert", server + ".pem", "--tls-key", server + ".key"};
  for (int node = 0; node < nodes_; ++node) {
    const std::string name = absl::StrCat(folder, "/worker-worker-", node);
    options.worker[node].prefix = {kIp, "netns", "exec", Space(node)};
    options.worker[node].flags = {"--tls-ca",  authority,     "--tls-cert",   name + ".pem",
                                  "--tls-key", name + ".key", "--net-device", kDevice};
  }
  return options;
}

std::string NodeNetwork::Address() const { return subnet_ + ".254"; }
std::string NodeNetwork::AddressOf(int node) const { return absl::StrCat(subnet_, ".", node + 1); }
std::string NodeNetwork::Space(int node) const { return absl::StrCat(id_, "n", node); }
std::string NodeNetwork::Bridge() const { return id_ + "b"; }
std::string NodeNetwork::Cable(int node) const { return absl::StrCat(id_, "c", node); }

}  // namespace adjoin
