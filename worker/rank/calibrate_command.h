// `adjoin-rank --calibrate`: one of the ranks of a calibration, which `adjoin-worker --calibrate` starts side by side.
//
//   adjoin-rank --calibrate --rank 0 --ranks 2 --folder DIR --seconds 30
//
// Prints the table of rates that it has measured (planner/time/rate_check.h), and "end".
#ifndef ADJOIN_WORKER_RANK_CALIBRATE_COMMAND_H_
#define ADJOIN_WORKER_RANK_CALIBRATE_COMMAND_H_

namespace adjoin {

// Ends the process.
int RunCalibrateCommand(int argc, char** argv);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_CALIBRATE_COMMAND_H_
