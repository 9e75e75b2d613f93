#include "cli/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace adjoin {
namespace {

constexpr int kUsualWidth = 80;
constexpr int kUsualHeight = 24;
constexpr char kEllipsis[] = "\u2026", kPoints[] = "...";

winsize Size() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

size_t CharactersIn(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

// True of "de_DE.UTF-8", "C.utf8" and "de_DE.UTF-8@euro".
bool IsUtf8(absl::string_view locale) {
  const size_t point = locale.find('.');
  if (point == absl::string_view::npos) return false;
  const absl::string_view characters = locale.substr(point + 1, locale.find('@', point) - point - 1);
  return absl::EqualsIgnoreCase(characters, "UTF-8") || absl::EqualsIgnoreCase(characters, "UTF8");
}

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

std::string CutMark(const char* lc_all, const char* lc_ctype, const char* lang) {
  for (const char* locale : {lc_all, lc_ctype, lang}) {
    if (locale != nullptr && *locale != '\0') return IsUtf8(locale) ? kEllipsis : kPoints;
  }
  return kPoints;
}

std::string CutMark() { return CutMark(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")); }

std::string CutLines(const std::string& text, size_t width, const std::string& mark) {
  if (width == 0) return text;
  // A mark of several characters is ASCII: where it does not fit, its first bytes are its first characters.
  const std::string end = CharactersIn(mark) <= width ? mark : mark.substr(0, width);
  const size_t kept = width - CharactersIn(end);
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
      if (characters == kept + 1) keep = cut.size();
      if (characters == width + 1) {
        cut.resize(keep);
        cut += end;
      }
    }
    if (characters <= width) cut += byte;
  }
  return cut;
}

}  // namespace adjoin
