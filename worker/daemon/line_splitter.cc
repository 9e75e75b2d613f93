#include "worker/daemon/line_splitter.h"

#include <algorithm>
#include <utility>

#include "base/printable_text.h"

namespace adjoin {

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
  std::string line = PrintableText(std::exchange(partial_, {}), kMaxLine);
  if (std::exchange(cut_, false)) line += "...";
  return line;
}

}  // namespace adjoin
