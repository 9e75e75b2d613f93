#include "coordinator/planning/seen_sizes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/content_hash.h"
#include "coordinator/decisions/data_checks.h"

namespace adjoin {
namespace {

// What a question may add, as a share of all that is remembered.
constexpr size_t kShare = 16;

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
  const auto with_files = std::count_if(datasets.begin(), datasets.end(),
                                        [](const Dataset& dataset) { return !SizeWithoutFiles(dataset); });
  // All of them would have to be seen again, and they would take the place of many others.
  if (static_cast<size_t>(with_files) > std::max<size_t>(1, most_ / kShare)) return;
  for (int i = 0; i < datasets.size(); ++i) {
    if (!SizeWithoutFiles(datasets.Get(i)).has_value()) Remember(HashOf(datasets.Get(i)), sizes.Get(i));
  }
}

void SeenSizes::Remember(std::string hash, const DatasetSize& size) {
  if (const auto known = by_hash_.find(hash); known != by_hash_.end()) {
    known->second->size = size;
    seen_.splice(seen_.end(), seen_, known->second);
    return;
  }
  if (seen_.size() >= most_) {
    by_hash_.erase(seen_.front().hash);
    seen_.pop_front();
  }
  seen_.push_back({hash, size});
  by_hash_[std::move(hash)] = std::prev(seen_.end());
}

std::optional<std::vector<DatasetSize>> SeenSizes::Of(const Datasets& datasets) const {
  std::vector<DatasetSize> sizes;
  for (const Dataset& dataset : datasets) {
    if (auto size = SizeWithoutFiles(dataset); size.has_value()) {
      sizes.push_back(*std::move(size));
      continue;
    }
    const auto known = by_hash_.find(HashOf(dataset));
    if (known == by_hash_.end()) return std::nullopt;
    sizes.push_back(known->second->size);
  }
  return sizes;
}

}  // namespace adjoin
