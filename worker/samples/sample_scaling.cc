#include "worker/samples/sample_scaling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/spec/augment.h"
#include "worker/data/running_sum.h"
#include "worker/samples/order_statistics.h"
#include "worker/samples/sample_pieces.h"

namespace adjoin {
namespace {

// A sample of at most so many cells is read once; a larger one, once for each time that its values are gone through.
constexpr int64_t kMostHeld = int64_t{1} << 22;
// So many channels are gone through together: they may lie beside each other in the file.
constexpr int64_t kMostChannels = 8;
// How many samples' scalings are kept.
constexpr size_t kMostScalingsKept = size_t{1} << 18;

absl::Status CheckFinite(const FieldSource& source, int64_t sample, const Box& box, const double* cells) {
  const int64_t count = box.Volume();
  const double* const wrong = std::find_if(cells, cells + count, [](double value) { return !std::isfinite(value); });
  if (wrong == cells + count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source.NameOf(sample), ": position [", absl::StrJoin(box.CellAt(wrong - cells), ", "), "] is ",
                   *wrong, "; normalize and clip_percentile need finite values in the whole sample"));
}

}  // namespace

SampleScaling::SampleScaling(const Dataset& dataset, const Field& field, FieldSource* source)
    : zscore_(field.normalize() == "zscore"),
      percentages_(field.clip_percentile().begin(), field.clip_percentile().end()),
      channels_(HasChannels(dataset, field)),
      source_(source) {}

absl::StatusOr<const std::vector<ChannelScaling>*> SampleScaling::Of(int64_t sample, const std::atomic<bool>& stop) {
  const auto known = found_.find(sample);
  if (known != found_.end()) return &known->second;
  const Box whole = Box::Whole(source_->ShapeOf(sample));
  std::vector<double> held;
  if (whole.Volume() <= kMostHeld) {
    if (stop.load()) return absl::CancelledError("reading was stopped");
    held.resize(static_cast<size_t>(whole.Volume()));
    ADJOIN_RETURN_IF_ERROR(source_->Read(sample, 1, whole, held.data()));
    ADJOIN_RETURN_IF_ERROR(CheckFinite(*source_, sample, whole, held.data()));
  }
  const int64_t channels = channels_ ? whole[0].size() : 1;
  std::vector<ChannelScaling> scalings(channels);
  for (int64_t channel = 0; channel < channels; channel += kMostChannels) {
    Box group = whole;
    if (channels_) group[0] = {channel, std::min(channel + kMostChannels, channels)};
    if (!percentages_.empty()) ADJOIN_RETURN_IF_ERROR(FindLimits(sample, group, held, stop, scalings));
    if (zscore_) ADJOIN_RETURN_IF_ERROR(FindMoments(sample, group, held, stop, scalings));
  }
  for (const ChannelScaling& scaling : scalings) ADJOIN_RETURN_IF_ERROR(CheckFound(sample, scaling));
  if (found_.size() >= kMostScalingsKept) found_.erase(found_.begin());
  return &(found_[sample] = std::move(scalings));
}

absl::Status SampleScaling::ForEachValue(int64_t sample, const Box& group, const std::vector<double>& held,
                                         const std::atomic<bool>& stop, const ChannelValues& f) const {
  const auto by_channel = [&](const Box& box, const double* cells) {
    if (!channels_) return f(0, cells, box.Volume());
    const int64_t each = box.Volume() / box[0].size();
    for (int64_t channel = box[0].lo; channel < box[0].hi; ++channel, cells += each) f(channel, cells, each);
  };
  if (held.empty()) {
    return ForEachSamplePiece(*source_, sample, group, stop, [&](const Box& piece, double* cells) -> absl::Status {
      ADJOIN_RETURN_IF_ERROR(CheckFinite(*source_, sample, piece, cells));
      by_channel(piece, cells);
      return absl::OkStatus();
    });
  }
  by_channel(group, held.data() + (channels_ ? group[0].lo * (group.Volume() / group[0].size()) : 0));
  return absl::OkStatus();
}

absl::Status SampleScaling::FindLimits(int64_t sample, const Box& group, const std::vector<double>& held,
                                       const std::atomic<bool>& stop, std::vector<ChannelScaling>& scalings) const {
  const Interval channels = channels_ ? group[0] : Interval{0, 1};
  std::vector<Percentiles> limits(channels.size(), Percentiles(group.Volume() / channels.size(), percentages_));
  const auto all_done = [&] {
    return std::all_of(limits.begin(), limits.end(), [](const Percentiles& one) { return one.done(); });
  };
  while (!all_done()) {
    ADJOIN_RETURN_IF_ERROR(
        ForEachValue(sample, group, held, stop, [&](int64_t channel, const double* values, int64_t count) {
          limits[channel - channels.lo].Add(values, count);
        }));
    for (Percentiles& one : limits) {
      if (one.done()) continue;
      const absl::Status status = one.EndPass();
      if (!status.ok())
        return absl::Status(status.code(), absl::StrCat(source_->NameOf(sample), ": ", status.message()));
    }
  }
  for (int64_t channel = channels.lo; channel < channels.hi; ++channel) {
    const std::vector<double> found = limits[channel - channels.lo].Found();
    scalings[channel].low = found[0];
    scalings[channel].high = found[1];
  }
  return absl::OkStatus();
}

absl::Status SampleScaling::FindMoments(int64_t sample, const Box& group, const std::vector<double>& held,
                                        const std::atomic<bool>& stop, std::vector<ChannelScaling>& scalings) const {
  struct Sums {
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();
    RunningSum values, squares;
  };
  const Interval channels = channels_ ? group[0] : Interval{0, 1};
  const auto each = static_cast<double>(group.Volume() / channels.size());
  std::vector<Sums> sums(channels.size());
  ADJOIN_RETURN_IF_ERROR(
      ForEachValue(sample, group, held, stop, [&](int64_t channel, const double* values, int64_t count) {
        Sums& of = sums[channel - channels.lo];
        for (int64_t i = 0; i < count; ++i) {
          const double value = scalings[channel].Clipped(values[i]);
          of.values.Add(value);
          of.least = std::min(of.least, value);
          of.most = std::max(of.most, value);
        }
      }));
  for (int64_t channel = channels.lo; channel < channels.hi; ++channel) {
    const Sums& of = sums[channel - channels.lo];
    // Rounding would else make a mean that no value has, and of the difference a standard deviation.
    scalings[channel].mean = of.least == of.most ? of.least : of.values.value() / each;
  }
  ADJOIN_RETURN_IF_ERROR(
      ForEachValue(sample, group, held, stop, [&](int64_t channel, const double* values, int64_t count) {
        const ChannelScaling& scaling = scalings[channel];
        for (int64_t i = 0; i < count; ++i) {
          const double difference = scaling.Clipped(values[i]) - scaling.mean;
          sums[channel - channels.lo].squares.Add(difference * difference);
        }
      }));
  for (int64_t channel = channels.lo; channel < channels.hi; ++channel) {
    const double std = std::sqrt(sums[channel - channels.lo].squares.value() / each);
    scalings[channel].std = std == 0 ? 1 : std;
  }
  return absl::OkStatus();
}

absl::Status SampleScaling::CheckFound(int64_t sample, const ChannelScaling& scaling) const {
  // Without clipping, the limits are infinite.
  const bool finite = std::isfinite(scaling.mean) && std::isfinite(scaling.std) &&
                      (percentages_.empty() || (std::isfinite(scaling.low) && std::isfinite(scaling.high)));
  if (finite) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source_->NameOf(sample),
                   ": its values are too large: their mean, standard deviation or percentiles are beyond"
                   " float64; normalize and clip_percentile need smaller ones"));
}

absl::Status SampleScaling::Apply(int64_t sample, int64_t count, const Box& box, const std::atomic<bool>& stop,
                                  double* cells) {
  if (!any() || box.empty()) return absl::OkStatus();
  const Interval channels = channels_ ? box[0] : Interval{0, 1};
  const int64_t per_channel = box.Volume() / channels.size();
  for (int64_t i = 0; i < count; ++i) {
    ADJOIN_ASSIGN_OR_RETURN(const std::vector<ChannelScaling>* const scalings, Of(sample + i, stop));
    for (int64_t channel = channels.lo; channel < channels.hi; ++channel) {
      const ChannelScaling& scaling = (*scalings)[channel];
      for (int64_t cell = 0; cell < per_channel; ++cell, ++cells) {
        *cells = (scaling.Clipped(*cells) - scaling.mean) / scaling.std;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace adjoin
