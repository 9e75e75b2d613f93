// What one rank stores of a network's parameters and buffers: its box of the home layout of each.
//
//   ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, rank));
//   parameters.Initialise(plan.spec().seed());
//   parameters.tensor(*parameters.IndexOf("conv1.weight"));    // a leaf; shape (0, ..., 0) outside the home's mesh
//
// Values belong to global indices: any number of ranks, in any layouts, draws the same parameters from one seed.
// A value that can be moved; one thread. Copies would share the tensors, so there are none.
#ifndef ADJOIN_LAYERS_NETWORK_PARAMETERS_H_
#define ADJOIN_LAYERS_NETWORK_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace adjoin {

class Parameters {
 public:
  // Zeros everywhere, on `device`, the communicator's. Trained parameters require grad.
  // Errors: kInvalidArgument (a home layout that is none, a name twice, an init that is none).
  static absl::StatusOr<Parameters> Create(const Plan& plan, int rank, at::Device device = at::kCPU);
  Parameters(Parameters&&) = default;
  Parameters& operator=(Parameters&&) = default;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(entries_.size()); }
  // In the plan's order.
  const std::string& name(int index) const { return entries_[index].name; }
  const Layout& home(int index) const { return entries_[index].home; }
  // In files (ParameterPlan.stored_shape); home's, where that is all.
  const std::vector<int64_t>& stored_shape(int index) const { return entries_[index].stored_shape; }
  bool frozen(int index) const { return entries_[index].frozen; }
  // The local block of the home. The same leaf for the object's whole life: optimizers may keep it.
  const at::Tensor& tensor(int index) const { return entries_[index].tensor; }
  // Errors: kNotFound lists the known names.
  absl::StatusOr<int> IndexOf(const std::string& name) const;

  // As the plan's init says, or PyTorch's default (weight_init.h).
  void Initialise(uint64_t seed);

  // Takes this rank's box out of the whole tensor, of home's or the stored shape, of any type and on any device.
  // Errors: kInvalidArgument where the shape is not the parameter's.
  absl::Status SetFromGlobal(int index, const at::Tensor& global);

 private:
  struct Entry {
    std::string name;
    Layout home;
    std::vector<int64_t> stored_shape;
    int64_t fan_in;
    bool frozen;
    std::optional<Init> initial;
    at::Tensor tensor;
  };

  explicit Parameters(int rank) : rank_(rank) {}

  int rank_;
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, int> index_of_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_NETWORK_PARAMETERS_H_
