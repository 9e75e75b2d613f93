#include "primitives/moved_tensor.h"

#include <memory>
#include <sstream>

namespace adjoin {

Buffer TensorBuffer(const at::Tensor& tensor, MemoryKind kind) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.data = tensor.data_ptr();
  buffer.bytes = tensor.nbytes();
  buffer.keepalive = std::make_shared<at::Tensor>(tensor);
  return buffer;
}

std::string TensorText(c10::ScalarType type, at::IntArrayRef shape) {
  std::ostringstream text;
  text << c10::toString(type) << " " << shape;
  return text.str();
}

}  // namespace adjoin
