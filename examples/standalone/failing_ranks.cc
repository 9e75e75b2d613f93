// For the test: four ranks of which rank 2 goes wrong as FAILURE says, while the others wait for it in a movement.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include <torch/torch.h>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "examples/standalone/launch.h"
#include "primitives/all_sum_reduce.h"
#include "primitives/geometry/layout.h"

using namespace adjoin;

namespace {

absl::Status Fail(Communicator& communicator) {
  const std::string failure = std::getenv("FAILURE");
  std::ofstream(std::string(std::getenv("PIDS")) + "/" + std::to_string(getpid())) << "";
  ADJOIN_ASSIGN_OR_RETURN(const Layout everywhere, Layout::Replicated({1}, DType::kFloat32, {0, 1, 2, 3}));
  ADJOIN_ASSIGN_OR_RETURN(const Layout parts, everywhere.Dual());
  ADJOIN_ASSIGN_OR_RETURN(const auto sum, AllSumReduce::Create(&communicator, parts, {1, "sum"}));
  sum->Forward(torch::ones({1}));  // all are there
  if (communicator.rank() == 2) {
    if (failure == "status") return absl::DataLossError("as asked");
    if (failure == "exception") throw std::runtime_error("as asked");
    if (failure == "exit") _exit(7);
    if (failure == "kill") raise(SIGKILL);
    if (failure == "stop") raise(SIGSTOP);
  }
  sum->Forward(torch::ones({1}));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) { return Launch(argc, argv, /*ranks=*/4, Fail); }
