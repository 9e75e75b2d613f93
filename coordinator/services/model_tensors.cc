#include "coordinator/services/model_tensors.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "proto/plan.pb.h"

namespace adjoin {

absl::Status AddModelTensors(const std::string& plan, CheckpointRead* read) {
  using google::protobuf::internal::WireFormatLite;
  const uint32_t wanted =
      WireFormatLite::MakeTag(Plan::kParameterFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(plan.data()),
                                            static_cast<int>(plan.size()));
  const absl::Status damaged = absl::DataLossError("the job's plan in the store cannot be read");
  std::string bytes;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != wanted) {
      if (!WireFormatLite::SkipField(&in, tag)) return damaged;
      continue;
    }
    uint32_t size = 0;
    ParameterPlan parameter;
    if (!in.ReadVarint32(&size) || !in.ReadString(&bytes, static_cast<int>(size))) return damaged;
    if (!parameter.ParseFromString(bytes)) return damaged;
    ModelTensor& tensor = *read->add_tensor();
    tensor.set_name(parameter.name());
    *tensor.mutable_shape() = parameter.stored_shape().empty() ? parameter.home().shape() : parameter.stored_shape();
  }
  return in.ConsumedEntireMessage() ? absl::OkStatus() : damaged;
}

}  // namespace adjoin
