#include "coordinator/planning/seen_sizes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "base/content_hash.h"

namespace adjoin {
namespace {

std::string HashOf(const Dataset& dataset) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    dataset.SerializeToCodedStream(&coded);
  }
  return ContentHash::Of(bytes);
}

}  // namespace

void SeenSizes::Add(const Datasets& datasets, const Sizes& sizes) {
  if (datasets.size() != sizes.size()) return;
  for (int i = 0; i < datasets.size(); ++i) {
    if (datasets.Get(i).name() != sizes.Get(i).name()) return;
  }
  for (int i = 0; i < datasets.size(); ++i) {
    // Those that are in use are soon seen again.
    if (sizes_.size() >= most_) sizes_.clear();
    sizes_[HashOf(datasets.Get(i))] = sizes.Get(i);
  }
}

std::optional<std::vector<DatasetSize>> SeenSizes::Of(const Datasets& datasets) const {
  std::vector<DatasetSize> sizes;
  for (const Dataset& dataset : datasets) {
    const auto seen = sizes_.find(HashOf(dataset));
    if (seen == sizes_.end()) return std::nullopt;
    sizes.push_back(seen->second);
  }
  return sizes;
}

}  // namespace adjoin
