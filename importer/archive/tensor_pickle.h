// The pickle of a file that torch.save wrote, read as data: a dict of tensors by name. Nothing in it is executed: the
// reader knows the few instructions that tensors need, and the five functions that rebuild them by name; anything else
// is refused.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors, ReadTensorPickle(pickle, "serialized_state_dict.pt"));
//   tensors[0].name;          // "conv1.weight"
//   tensors[0].storage;       // "0": the entry "data/0" beside the pickle
//
// Source of the format: Lib/pickletools.py of CPython (protocols 2 to 4), torch/serialization.py and torch/_utils.py of
// PyTorch.
#ifndef ADJOIN_IMPORTER_ARCHIVE_TENSOR_PICKLE_H_
#define ADJOIN_IMPORTER_ARCHIVE_TENSOR_PICKLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

// A tensor as a view of a storage. Nothing about it has been checked against the storage.
struct StoredTensor {
  std::string name;
  std::string storage;  // the name of its entry
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape, stride;  // of elements; equally many
  int64_t offset = 0;                  // of its first element in the storage, in elements
};

// In the order of the dict. `where` is for messages.
// Errors: kInvalidArgument: an instruction or a function that tensors do not need, a value that is no tensor, a name
// that comes twice; kDataLoss: cut off, or not a pickle.
absl::StatusOr<std::vector<StoredTensor>> ReadTensorPickle(absl::string_view pickle, const std::string& where);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_TENSOR_PICKLE_H_
