#include "importer/archive/tensor_pickle.h"

#include <cstddef>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "importer/archive/shown_name.h"

namespace adjoin {

absl::StatusOr<std::vector<StoredTensor>> ReadTensorPickle(absl::string_view pickle, const std::string& where) {
  const auto refused = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": its pickle is not one of tensors alone: ", what, "; nothing in it was executed"));
  };
  ADJOIN_ASSIGN_OR_RETURN(const PickledValues pickled, ReadPickle(pickle, where, PickleForm::kTensors));
  const std::vector<PickleValue>& values = pickled.values;
  if (values[pickled.root].kind != PickleValue::Kind::kDict) return refused("it is no dict");
  const std::vector<size_t>& items = values[pickled.root].items;
  std::vector<StoredTensor> tensors;
  std::set<std::string> names;
  for (size_t i = 0; i < items.size(); i += 2) {
    const PickleValue &key = values[items[i]], &value = values[items[i + 1]];
    if (key.kind != PickleValue::Kind::kText) return refused("a key of its dict is no name");
    const std::string shown = PrintableText(key.text, kMaxShownName);
    if (value.kind != PickleValue::Kind::kTensor) return refused(absl::StrCat(shown, " is no tensor"));
    if (!names.insert(key.text).second) return refused(absl::StrCat(shown, " is there twice"));
    tensors.push_back(value.tensor);
    tensors.back().name = key.text;
  }
  return tensors;
}

}  // namespace adjoin
