// Records of an event file: TFRecord's framing, which checks length and content by themselves.
//
//   file += EventRecord("brain...");
//
// A record is the content's length as 8 bytes, the masked CRC-32C of these, the content, and its masked CRC-32C, all in
// little endian (TensorFlow, "TFRecord and tf.train.Example": TFRecords format details).
#ifndef ADJOIN_WORKER_TENSORBOARD_EVENT_RECORD_H_
#define ADJOIN_WORKER_TENSORBOARD_EVENT_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace adjoin {

// The cyclic redundancy check of Castagnoli's polynomial, as in RFC 3720.
uint32_t Crc32c(absl::string_view bytes);

std::string EventRecord(absl::string_view content);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_TENSORBOARD_EVENT_RECORD_H_
