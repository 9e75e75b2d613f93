#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace adjoin {
namespace {

constexpr int kUsualWidth = 80;
constexpr int kUsualHeight = 24;
constexpr char kCut[] = "\u2026";

winsize Size() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

}  // namespace

int TerminalWidth() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  const winsize size = Size();
  return size.ws_col > 0 ? size.ws_col : kUsualWidth;
}

int TerminalHeight() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  const winsize size = Size();
  return size.ws_row > 0 ? size.ws_row : kUsualHeight;
}

std::string FirstLines(const std::string& text, size_t height) {
  size_t end = 0;
  for (size_t line = 0; line < height; ++line) {
    const size_t next = text.find('\n', end);
    if (next == std::string::npos) return text;
    end = next + 1;
  }
  return height == 0 ? text : text.substr(0, end);
}

std::string CutLines(const std::string& text, size_t width) {
  if (width == 0) return text;
  std::string cut;
  size_t characters = 0, keep = 0;  // of this line; the bytes of `cut` to which it is cut where it is too long
  for (char byte : text) {
    if (byte == '\n') {
      characters = 0;
      cut += byte;
      continue;
    }
    if (BeginsCharacter(byte)) {
      ++characters;
      if (characters == width) keep = cut.size();
      if (characters == width + 1) {
        cut.resize(keep);
        cut += kCut;
      }
    }
    if (characters <= width) cut += byte;
  }
  return cut;
}

}  // namespace adjoin
