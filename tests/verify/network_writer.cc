#include "tests/verify/network_writer.h"

#include "absl/strings/str_cat.h"

namespace adjoin {

std::string NetworkWriter::Layout(const std::vector<int64_t>& shape) {
  const std::string name = absl::StrCat("l", layouts_made_++);
  layouts_ += random_.AnyLayout(name, shape, ranks_, /*copies=*/true);
  return name;
}

Value NetworkWriter::Field(const std::string& name, const std::vector<int64_t>& shape, const std::string& source) {
  Target(name, {shape.begin() + 1, shape.end()}, source);
  return {name, shape, /*field=*/true};
}

void NetworkWriter::Target(const std::string& name, const std::vector<int64_t>& sample, const std::string& source) {
  absl::StrAppend(&fields_, "  field { name: \"", name, "\" ", source,
                  sample.empty() ? "" : " shape: " + ListText(sample), " }\n");
}

std::string NetworkWriter::Marks(const LayerTraits& traits) {
  std::string marks;
  if (recompute_ && random_.OneIn(2)) {
    marks += " recompute: true";
    Drawn("recompute");
  }
  if (!traits.parameters) return marks;
  if (!traits.weights_of.empty()) return absl::StrCat(marks, " weights_of: \"", traits.weights_of, "\"");
  if (cut_ && random_.OneIn(2)) {
    const std::string home = random_.Of<std::string>({"OWNER", "REPLICATED", "SHARDED"});
    marks += " home: " + home;
    Drawn("home " + home);
    if (home == "OWNER" && random_.OneIn(2)) absl::StrAppend(&marks, " owner: ", random_.Between(0, ranks_ - 1));
  }
  if (!traits.trained && random_.OneIn(10)) {
    marks += " frozen: true";
    Drawn("frozen");
  }
  return marks;
}

Value NetworkWriter::Add(const std::string& kind, const std::string& arguments, const std::vector<Value>& inputs,
                         const std::vector<int64_t>& shape, const LayerTraits& traits) {
  const std::string name = NextName();
  ++layers_made_;
  absl::StrAppend(&layers_, "layer { name: \"", name, "\"");
  bool reads_field = false;
  const bool named = cut_ && traits.keeps_layout && random_.OneIn(3);
  for (const Value& input : inputs) {
    absl::StrAppend(&layers_, " input: \"", input.name, "\"");
    reads_field |= input.field;
  }
  if ((reads_field && cut_) || named) {
    for (const Value& input : inputs) {
      const bool any = input.field || random_.OneIn(2);
      absl::StrAppend(&layers_, " x: \"", any ? Layout(input.shape) : "", "\"");
    }
  }
  if (cut_ && !traits.weight.empty() && random_.OneIn(4)) {
    absl::StrAppend(&layers_, " w: \"", Layout(traits.weight), "\"");
    Drawn("w of " + kind);
  }
  if (cut_ && (kind == "repartition" || random_.OneIn(4))) absl::StrAppend(&layers_, " y: \"", Layout(shape), "\"");
  absl::StrAppend(&layers_, Marks(traits), " ", kind, " ", arguments, " }\n");
  Drawn("layer " + kind);
  if (!traits.weights_of.empty()) Drawn("weights_of " + kind);
  return {name, shape};
}

void NetworkWriter::Loss(const std::string& kind, const std::string& text) {
  absl::StrAppend(&losses_, "loss { kind: \"", kind, "\" ", text, " }\n");
  Drawn("loss " + kind);
}

}  // namespace adjoin
