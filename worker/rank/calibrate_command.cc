#include "worker/rank/calibrate_command.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "planner/time/rate_check.h"
#include "primitives/tensor_memory.h"
#include "primitives/transport/rendezvous.h"
#include "primitives/transport/transport.h"
#include "worker/calibration/calibrate.h"
#include "worker/rank/calibrate_flags.h"

namespace adjoin {
namespace {

constexpr absl::Duration kMeeting = absl::Seconds(30);

struct Flags {
  int rank = 0, ranks = 1;
  std::string folder;
  double seconds = 30;
};

absl::StatusOr<RateTable> RunCalibration(const Flags& flags) {
  TransportOptions options;
  options.rank = flags.rank;
  options.size = flags.ranks;
  options.other_nodes = false;
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<Transport> transport,
                          ConnectThroughFolder({flags.folder, "calibration"}, options, Deadline::After(kMeeting)));
  ReuseTensorMemory();  // as the ranks of a job do
  ADJOIN_ASSIGN_OR_RETURN(RateTable rates, Calibrate(*transport, absl::Seconds(flags.seconds),
                                                     [](const std::string& line) { std::cerr << line << "\n"; }));
  ADJOIN_RETURN_IF_ERROR(transport->Close(Deadline::After(kMeeting)));
  return rates;
}

}  // namespace

int RunCalibrateCommand(int argc, char** argv) {
  Flags flags;
  bool calibrate = false;
  CLI::App app("Measures how fast this node computes; started by adjoin-worker --calibrate", "adjoin-rank");
  app.add_flag(kCalibrate, calibrate, "Measure")->required();
  app.add_option("--rank", flags.rank, "This rank's number")->required()->check(CLI::Range(0, 100000));
  app.add_option("--ranks", flags.ranks, "How many measure side by side")->required()->check(CLI::Range(1, 100000));
  app.add_option("--folder", flags.folder, "Where they meet")->required();
  app.add_option("--seconds", flags.seconds, "For all kernels together")->check(CLI::Range(0.01, 3600.0));
  int code = 1;
  if (std::optional<int> wrong = ParseFlags(app, argc, argv)) {
    code = *wrong;
  } else if (const absl::StatusOr<RateTable> rates = RunCalibration(flags); rates.ok()) {
    std::cout << RatesText(*rates) << kCalibrationEnd;
    code = 0;
  } else {
    std::cerr << "failed: " << rates.status().message() << "\n";
  }
  std::cout << std::flush;
  // As RunRankCommand: without the destructors of libraries.
  _exit(code);
}

}  // namespace adjoin
