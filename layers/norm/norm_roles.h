// The roles of normalisations, beside weight and bias.
#ifndef ADJOIN_LAYERS_NORM_NORM_ROLES_H_
#define ADJOIN_LAYERS_NORM_NORM_ROLES_H_

namespace adjoin {

inline constexpr char kRoleMean[] = "mean";              // sums of each set's elements
inline constexpr char kRoleDeviations[] = "deviations";  // sums of each set's squared deviations
inline constexpr char kRoleStatistics[] = "statistics";  // batch normalisation: count, mean and deviations of each part
// Batch normalisation's state, as in PyTorch's state_dict.
inline constexpr char kRoleRunningMean[] = "running_mean";
inline constexpr char kRoleRunningVar[] = "running_var";
inline constexpr char kRoleBatchesTracked[] = "num_batches_tracked";

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NORM_NORM_ROLES_H_
