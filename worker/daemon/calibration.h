// How fast this node is: measured by ranks that run side by side, and kept in the daemon's state folder.
//
//   ADJOIN_ASSIGN_OR_RETURN(const RateTable rates, MeasureRates({.rank_binary = binary, .ranks = 2, .folder =
//   folder})); ADJOIN_RETURN_IF_ERROR(SaveRates(state_dir, rates)); ADJOIN_ASSIGN_OR_RETURN(const
//   std::optional<RateTable> known, LoadRates(state_dir));
#ifndef ADJOIN_WORKER_DAEMON_CALIBRATION_H_
#define ADJOIN_WORKER_DAEMON_CALIBRATION_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rates.pb.h"
#include "worker/daemon/process_spawner.h"

namespace adjoin {

struct CalibrationOptions {
  std::string rank_binary;   // absolute
  std::optional<User> user;  // absent: the caller's
  int ranks = 2;             // side by side
  absl::Duration seconds = absl::Seconds(30);
  std::function<bool()> stops = {};  // asked several times a second; true: no more is measured
};

// Starts the ranks, waits for them, and returns the mean of what they have measured. `machine` is that of this node.
// Errors: kUnavailable (no processes, no temporary folder), kNotFound, kPermissionDenied (Spawn), kDeadlineExceeded,
// kCancelled (`stops`), kDataLoss (a rank ended without a whole table: with its last words).
absl::StatusOr<RateTable> MeasureRates(const CalibrationOptions& options);

// Its file below the daemon's state folder.
inline constexpr char kRatesFile[] = "rates.textproto";

// Errors: as WriteFileAtomically.
absl::Status SaveRates(const std::string& state_dir, const RateTable& rates);

// Absent where nothing was measured. Errors: kInvalidArgument (the file is damaged: names it, the place in it, and what
// to do), kUnavailable (it cannot be read).
absl::StatusOr<std::optional<RateTable>> LoadRates(const std::string& state_dir);

// A table that people can read: each kernel with its time and its rates.
std::string RatesForPeople(const RateTable& rates);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_CALIBRATION_H_
