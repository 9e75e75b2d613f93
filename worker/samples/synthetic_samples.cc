#include "worker/samples/synthetic_samples.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/data/box_runs.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<FieldSource>> SyntheticSamples::Create(const std::string& dataset, const Field& field,
                                                                      const std::vector<int64_t>& sample_shape,
                                                                      uint64_t seed) {
  const std::string& named = field.synthetic().kind();
  Kind kind;
  if (named == "normal") {
    kind = Kind::kNormal;
  } else if (named == "uniform") {
    kind = Kind::kUniform;
  } else if (named == "index") {
    kind = Kind::kIndex;
  } else if (named == "constant") {
    kind = Kind::kConstant;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"", field.name(), "\": synthetic.kind \"", named,
                     "\" is not one of \"normal\", \"uniform\", \"index\", \"constant\""));
  }
  // Names have no '/'.
  const std::string name = absl::StrCat(dataset, "/", field.name());
  const RandomStream stream(seed, kPurposeSynthetic, XXH64(name.data(), name.size(), 0));
  return std::unique_ptr<FieldSource>(new SyntheticSamples(field.synthetic(), kind, sample_shape, stream));
}

double SyntheticSamples::ValueAt(uint64_t index) const {
  switch (kind_) {
    case Kind::kNormal: {
      const double radius = std::sqrt(-2 * std::log(1 - stream_.UniformAt(2 * index)));
      return radius * std::cos(2 * M_PI * stream_.UniformAt(2 * index + 1));
    }
    case Kind::kUniform:
      // Rounding may reach `high`, which is not among the values.
      return std::min(spec_.low() + stream_.UniformAt(index) * (spec_.high() - spec_.low()),
                      std::nextafter(spec_.high(), spec_.low()));
    case Kind::kIndex:
      return spec_.low() +
             static_cast<double>(stream_.BelowAt(index, static_cast<uint64_t>(spec_.high() - spec_.low())));
    case Kind::kConstant: break;
  }
  return spec_.low();
}

absl::Status SyntheticSamples::Read(int64_t sample, int64_t count, const Box& box, double* out) {
  if (sample < 0 || count < 0 || count > spec_.samples() - sample) {
    return absl::OutOfRangeError(absl::StrCat("no synthetic samples ", sample, " to ", sample + count - 1,
                                              "; there are ", spec_.samples(), " from 0"));
  }
  const std::vector<CellRun> runs = RunsOf(sample_shape_, box);
  const uint64_t cells = static_cast<uint64_t>(VolumeOf(sample_shape_));
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t begin = static_cast<uint64_t>(sample + i) * cells;
    for (const CellRun& run : runs) {
      for (int64_t cell = run.first; cell < run.first + run.count; ++cell) *out++ = ValueAt(begin + cell);
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
