// The pickle of a file that torch.save wrote, read as data: a dict of tensors by name. Nothing in it is executed: the
// reader knows the few instructions that tensors need, and the five functions that rebuild them by name; anything else
// is refused.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<StoredTensor> tensors, ReadTensorPickle(pickle, "serialized_state_dict.pt"));
//   tensors[0].name;          // "conv1.weight"
//   tensors[0].storage;       // "0": the entry "data/0" beside the pickle
//
// Errors and bounds are those of ReadPickle.
#ifndef ADJOIN_IMPORTER_ARCHIVE_TENSOR_PICKLE_H_
#define ADJOIN_IMPORTER_ARCHIVE_TENSOR_PICKLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "importer/archive/pickle_values.h"

namespace adjoin {

// In the order of the dict. `where` is for messages.
// Errors: kInvalidArgument: an instruction or a function that tensors do not need, a value that is no tensor, a name
// that comes twice; kDataLoss: cut off, or not a pickle.
absl::StatusOr<std::vector<StoredTensor>> ReadTensorPickle(absl::string_view pickle, const std::string& where);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_TENSOR_PICKLE_H_
