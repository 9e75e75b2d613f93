// A pickle that PyTorch wrote, read as data: its values, in one list. Nothing in it is executed: the reader knows the
// few instructions that tensors and modules need, and the functions that rebuild them by name; anything else is
// refused.
//
//   ADJOIN_ASSIGN_OR_RETURN(const PickledValues pickled, ReadPickle(bytes, "data.pkl", PickleForm::kModules));
//   const PickleValue& model = pickled.values[pickled.root];
//   model.kind;                                  // kObject
//   pickled.values[model.items[0]].text;         // "training", the name of its first attribute
//
// Source of the format: Lib/pickletools.py of CPython (protocols 2 to 4), torch/serialization.py, torch/_utils.py and
// torch/csrc/jit/serialization/pickler.cpp of PyTorch.
#ifndef ADJOIN_IMPORTER_ARCHIVE_PICKLE_VALUES_H_
#define ADJOIN_IMPORTER_ARCHIVE_PICKLE_VALUES_H_

#include <cstddef>
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
  bool requires_grad = false;
};

// Values refer to each other by index. What is put into a dict, a list or an object may be a later value, also the
// object itself: readers bound how deep they follow.
struct PickleValue {
  enum class Kind {
    kMark,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kTuple,
    kList,
    kDict,
    kFunction,
    kStorage,
    kTensor,
    kObject
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;         // kBool, kInt; of kStorage the index of its type
  double real = 0;            // kFloat
  std::string text;           // kText; kFunction and kObject: "module name"; of kStorage its entry
  std::vector<size_t> items;  // kTuple, kList; of kDict and kObject keys and values in turn
  StoredTensor tensor;        // kTensor, without a name
};

struct PickledValues {
  std::vector<PickleValue> values;
  size_t root = 0;
};

// Which instructions and functions are known: those of a dict of tensors, or also those of torch.jit.save, with objects
// of classes below __torch__, whose attributes they are.
enum class PickleForm { kTensors, kModules };

// `where` is for messages.
// Errors: kInvalidArgument: an instruction or a function that is not known; kDataLoss: cut off, or not a pickle.
absl::StatusOr<PickledValues> ReadPickle(absl::string_view pickle, const std::string& where, PickleForm form);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_ARCHIVE_PICKLE_VALUES_H_
