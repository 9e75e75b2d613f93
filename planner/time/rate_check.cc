#include "planner/time/rate_check.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {
namespace {

constexpr double kMostRateSeconds = 1e6, kMostWork = 1e18, kMostPerByte = 1;

absl::Status CheckText(const std::string& text, const std::string& what) {
  if (text.size() > static_cast<size_t>(kMostRateText)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", text.size(), " bytes; at most ", kMostRateText, " are allowed"));
  }
  for (const char c : text) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(absl::StrCat(what, " has characters that are not printable ASCII"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumber(double value, double most, const std::string& what) {
  // False for a NaN as well.
  if (value >= 0 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", value, "; a number from 0 to ", most, " is expected"));
}

absl::Status CheckKernel(const KernelRate& rate, const std::string& what) {
  ADJOIN_RETURN_IF_ERROR(CheckText(rate.kind(), absl::StrCat(what, ".kind")));
  if (rate.kind().empty()) return absl::InvalidArgumentError(absl::StrCat(what, ".kind is empty"));
  if (const auto type = ParseDType(rate.dtype()); !type.ok()) {
    ADJOIN_RETURN_IF_ERROR(CheckText(rate.dtype(), absl::StrCat(what, ".dtype")));
    return absl::InvalidArgumentError(absl::StrCat(what, ".dtype: ", type.status().message()));
  }
  if (rate.size_size() > kMostRateSizes) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", rate.size_size(), " sizes; at most ", kMostRateSizes, " are allowed"));
  }
  for (const int64_t size : rate.size()) {
    if (size < 0) return absl::InvalidArgumentError(absl::StrCat(what, ".size has ", size, "; sizes are 0 or more"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.flops(), kMostWork, absl::StrCat(what, ".flops")));
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.bytes(), kMostWork, absl::StrCat(what, ".bytes")));
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.forward_seconds(), kMostRateSeconds, absl::StrCat(what, ".forward_seconds")));
  if (rate.forward_seconds() < 1e-12) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".forward_seconds is ", rate.forward_seconds(), "; a kernel takes some time"));
  }
  return CheckNumber(rate.backward_seconds(), kMostRateSeconds, absl::StrCat(what, ".backward_seconds"));
}

absl::Status CheckLane(const LaneRate& rate, const std::string& what) {
  if (rate.lane() != "memory" && rate.lane() != "network") {
    ADJOIN_RETURN_IF_ERROR(CheckText(rate.lane(), absl::StrCat(what, ".lane")));
    return absl::InvalidArgumentError(
        absl::StrCat(what, ".lane is \"", rate.lane(), "\"; \"memory\" or \"network\" is expected"));
  }
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.round_seconds(), kMostRateSeconds, absl::StrCat(what, ".round_seconds")));
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.message_seconds(), kMostRateSeconds, absl::StrCat(what, ".message_seconds")));
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.byte_seconds(), kMostPerByte, absl::StrCat(what, ".byte_seconds")));
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rate.pack_byte_seconds(), kMostPerByte, absl::StrCat(what, ".pack_byte_seconds")));
  return CheckNumber(rate.add_byte_seconds(), kMostPerByte, absl::StrCat(what, ".add_byte_seconds"));
}

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::Status CheckRates(const RateTable& rates) {
  ADJOIN_RETURN_IF_ERROR(CheckText(rates.machine(), "machine"));
  ADJOIN_RETURN_IF_ERROR(CheckText(rates.software(), "software"));
  if (rates.kernel().empty()) return absl::InvalidArgumentError("the table has no kernel");
  if (rates.kernel_size() > kMostKernelRates) {
    return absl::InvalidArgumentError(
        absl::StrCat("the table has ", rates.kernel_size(), " kernels; at most ", kMostKernelRates, " are allowed"));
  }
  if (rates.lane_size() > kMostLaneRates) {
    return absl::InvalidArgumentError(
        absl::StrCat("the table has ", rates.lane_size(), " lanes; at most ", kMostLaneRates, " are allowed"));
  }
  for (int i = 0; i < rates.kernel_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(CheckKernel(rates.kernel(i), absl::StrCat("kernel[", i, "]")));
  }
  for (int i = 0; i < rates.lane_size(); ++i) {
    ADJOIN_RETURN_IF_ERROR(CheckLane(rates.lane(i), absl::StrCat("lane[", i, "]")));
  }
  ADJOIN_RETURN_IF_ERROR(CheckNumber(rates.launch_seconds(), kMostRateSeconds, "launch_seconds"));
  return CheckNumber(rates.step_seconds(), kMostRateSeconds, "step_seconds");
}

absl::StatusOr<RateTable> ParseRates(const std::string& text, const std::string& name) {
  RateTable rates;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &rates)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", error.text(), " (a table of rates is expected)"));
  }
  if (const absl::Status status = CheckRates(rates); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
  }
  return rates;
}

std::string RatesText(const RateTable& rates) {
  RateTable head = rates;
  head.clear_kernel();
  head.clear_lane();
  std::string text;
  google::protobuf::TextFormat::PrintToString(head, &text);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string line;
  for (const LaneRate& lane : rates.lane()) {
    printer.PrintToString(lane, &line);
    absl::StrAppend(&text, "lane { ", line, "}\n");
  }
  for (const KernelRate& kernel : rates.kernel()) {
    printer.PrintToString(kernel, &line);
    absl::StrAppend(&text, "kernel { ", line, "}\n");
  }
  return text;
}

}  // namespace adjoin
