// adjoin-worker with faults in its RPCs, from the seed in ADJOIN_RPC_SEED. At its end it writes what it met to the file
// named by ADJOIN_RPC_REPORT: a line "METHOD FAULT" for each.
#include <stdlib.h>

#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "tests/harness/rpc_faults.h"
#include "worker/daemon/daemon_command.h"

int main(int argc, char** argv) {
  uint64_t seed = 0;
  const char* text = getenv("ADJOIN_RPC_SEED");
  const char* report = getenv("ADJOIN_RPC_REPORT");
  // The daemon starts its own program, without this environment, to check data files.
  if (text == nullptr && report == nullptr) return adjoin::RunWorkerCommand(argc, argv, {});
  if (text == nullptr || report == nullptr || !absl::SimpleAtoi(text, &seed)) return 2;
  adjoin::RpcFaults faults(seed);
  const int code = adjoin::RunWorkerCommand(argc, argv, {.interceptors = [&faults] { return faults.MakeFactories(); }});
  std::ofstream file(report);
  for (const auto& [method, counts] : faults.Injected()) {
    for (const auto& [fault, count] : counts) file << method << " " << adjoin::ToString(fault) << "\n";
  }
  return file.flush() ? code : 3;
}
