// What `adjoin-rank --calibrate` and the daemon that starts it agree on.
#ifndef ADJOIN_WORKER_RANK_CALIBRATE_FLAGS_H_
#define ADJOIN_WORKER_RANK_CALIBRATE_FLAGS_H_

namespace adjoin {

inline constexpr char kCalibrate[] = "--calibrate";
// The last line: a table that was cut off lacks it.
inline constexpr char kCalibrationEnd[] = "# end\n";

}  // namespace adjoin

#endif  // ADJOIN_WORKER_RANK_CALIBRATE_FLAGS_H_
