// The text of a network that grows by a layer at a time. Each gets marks at random: layouts and a home, where the
// network is to have any, and others.
//
//   NetworkWriter writer(random, /*ranks=*/4, /*rows=*/2);
//   Value x = writer.Field("x", {2, 3, 8}, "synthetic { kind: \"normal\" samples: 4 }");
//   Value y = writer.Add("activation", "{ fn: \"relu\" }", {x}, {2, 3, 8});
#ifndef ADJOIN_TESTS_VERIFY_NETWORK_WRITER_H_
#define ADJOIN_TESTS_VERIFY_NETWORK_WRITER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {

struct Value {
  std::string name;
  std::vector<int64_t> shape;  // with the batch
  bool field = false;
};

// What a kind of layer has and can have.
struct LayerTraits {
  bool parameters = false;
  bool trained = false;              // always, never frozen
  bool keeps_layout = true;          // reads an input in any layout that `x` names
  std::vector<int64_t> weight = {};  // the shape that a layout `w` is of; empty: none
  std::string weights_of = "";       // the layer whose weights it uses, earlier or later
};

class NetworkWriter {
 public:
  // `rows`: samples that go through the network at once. Without `cut`, no layouts and no homes.
  NetworkWriter(RandomJobs& random, int64_t ranks, int64_t rows, bool cut = true)
      : random_(random), ranks_(ranks), rows_(rows), cut_(cut), recompute_(random.OneIn(2)) {}

  Value Field(const std::string& name, const std::vector<int64_t>& shape, const std::string& source);
  // Adds a field that only a loss reads; its shape has no batch and may be empty.
  void Target(const std::string& name, const std::vector<int64_t>& sample, const std::string& source);
  Value Add(const std::string& kind, const std::string& arguments, const std::vector<Value>& inputs,
            const std::vector<int64_t>& shape, const LayerTraits& traits = {});
  // The name of the layer that is added next, or so many after it.
  std::string NextName(int after = 0) const { return absl::StrCat("a", layers_made_ + after); }
  void Loss(const std::string& kind, const std::string& text);
  void Drawn(const std::string& what) { drawn_.insert(what); }

  int64_t rows() const { return rows_; }
  bool cut() const { return cut_; }
  const std::string& layouts() const { return layouts_; }
  const std::string& layers() const { return layers_; }
  const std::string& losses() const { return losses_; }
  const std::string& fields() const { return fields_; }
  const std::set<std::string>& drawn() const { return drawn_; }

 private:
  std::string Layout(const std::vector<int64_t>& shape);
  std::string Marks(const LayerTraits& traits);

  RandomJobs& random_;
  const int64_t ranks_, rows_;
  const bool cut_;
  const bool recompute_;
  int layouts_made_ = 0, layers_made_ = 0;
  std::string layouts_, layers_, losses_, fields_;
  std::set<std::string> drawn_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VERIFY_NETWORK_WRITER_H_
