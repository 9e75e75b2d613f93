#include "worker/daemon/line_splitter.h"

#include <algorithm>
#include <utility>

namespace adjoin {
namespace {

// Bytes of the well-formed UTF-8 character at the start of `bytes` (not empty), 0 where there is none.
size_t CharacterLength(absl::string_view bytes) {
  unsigned char lead = bytes[0];
  size_t length = 0;
  if (lead < 0x80) length = 1;
  if (lead >= 0xc2 && lead < 0xe0) length = 2;
  if (lead >= 0xe0 && lead < 0xf0) length = 3;
  if (lead >= 0xf0 && lead < 0xf5) length = 4;
  if (length == 0 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(bytes[i]) & 0xc0) != 0x80) return 0;
  }
  unsigned char second = length > 1 ? bytes[1] : 0;
  bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  bool beyond = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

}  // namespace

std::string CleanText(absl::string_view bytes) {
  std::string clean;
  clean.reserve(bytes.size());
  while (!bytes.empty()) {
    size_t length = CharacterLength(bytes);
    if (length == 0) {
      clean += '?';
      bytes.remove_prefix(1);
    } else if (length == 1) {
      unsigned char c = bytes[0];
      clean += (c < 0x20 && c != '\t') || c == 0x7f ? ' ' : static_cast<char>(c);
      bytes.remove_prefix(1);
    } else {
      clean.append(bytes.data(), length);
      bytes.remove_prefix(length);
    }
  }
  return clean;
}

std::vector<std::string> LineSplitter::Add(absl::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    size_t end = bytes.find('\n');
    absl::string_view part = bytes.substr(0, end);
    size_t room = kMaxLine - std::min(kMaxLine, partial_.size());
    partial_.append(part.data(), std::min(room, part.size()));
    cut_ = cut_ || part.size() > room;
    if (end == absl::string_view::npos) break;
    lines.push_back(TakeLine());
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string> LineSplitter::Finish() {
  if (partial_.empty()) return {};
  return {TakeLine()};
}

std::string LineSplitter::TakeLine() {
  if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
  std::string line = CleanText(std::exchange(partial_, {}));
  if (std::exchange(cut_, false)) line += "...";
  return line;
}

}  // namespace adjoin
