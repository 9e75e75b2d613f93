#include "cli/color.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adjoin {
namespace {

constexpr char kGreen[] = "\x1b[32m", kYellow[] = "\x1b[33m", kRed[] = "\x1b[31m", kCyan[] = "\x1b[36m";
constexpr char kMagenta[] = "\x1b[35m", kPlain[] = "\x1b[0m";
constexpr char kHeading[] = "STATE";

// The states of jobs, ranks and workers.
constexpr std::pair<const char*, const char*> kStates[] = {
    {"pending", kYellow},    {"starting", kCyan},   {"running", kGreen}, {"succeeded", kGreen}, {"failed", kRed},
    {"cancelled", kMagenta}, {"killed", kRed},      {"ready", kGreen},   {"suspect", kYellow},  {"set aside", kYellow},
    {"unfit", kRed},         {"draining", kYellow}, {"lost", kRed}};

// The line with the state at this byte painted; as it is where there is none.
std::string PaintAt(absl::string_view line, size_t begin) {
  if (begin >= line.size()) return std::string(line);
  const absl::string_view rest = line.substr(begin);
  for (const auto& [state, color] : kStates) {
    if (!absl::StartsWith(rest, state)) continue;
    const absl::string_view after = rest.substr(absl::string_view(state).size());
    if (!after.empty() && after[0] != ' ' && after[0] != ',' && after[0] != ':') continue;
    return absl::StrCat(line.substr(0, begin), color, state, kPlain, after);
  }
  return std::string(line);
}

// Where the column begins in the line of the columns' names; npos where there is none.
size_t ColumnOf(absl::string_view names) {
  for (size_t at = names.find(kHeading); at != absl::string_view::npos; at = names.find(kHeading, at + 1)) {
    const size_t end = at + sizeof(kHeading) - 1;
    const bool begins = at == 0 || names[at - 1] == ' ';
    if (begins && (end == names.size() || names[end] == ' ')) return at;
  }
  return absl::string_view::npos;
}

}  // namespace

ColorChoice ColorChoiceOf(absl::string_view name) {
  return name == "always" ? ColorChoice::kAlways : name == "never" ? ColorChoice::kNever : ColorChoice::kAuto;
}

bool UsesColor(ColorChoice choice, bool terminal, const char* no_color, const char* term) {
  if (choice != ColorChoice::kAuto) return choice == ColorChoice::kAlways;
  const bool refused = no_color != nullptr && *no_color != '\0';
  return terminal && !refused && term != nullptr && *term != '\0' && absl::string_view(term) != "dumb";
}

bool UsesColor(ColorChoice choice) {
  return UsesColor(choice, isatty(STDOUT_FILENO) != 0, getenv("NO_COLOR"), getenv("TERM"));
}

std::string PaintStates(const std::string& text) {
  std::string painted;
  size_t column = absl::string_view::npos;
  bool names = true;  // the next line may have the columns' names
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const absl::string_view line = absl::string_view(text).substr(begin, end - begin);
    if (names || line.empty()) {
      column = ColumnOf(line);
      painted.append(line.data(), line.size());
    } else {
      painted += PaintAt(line, column);
    }
    names = line.empty();
    if (end < text.size()) painted += '\n';
    begin = end + 1;
  }
  return painted;
}

std::string PaintStateAfter(absl::string_view before, const std::string& text) {
  std::string painted;
  bool done = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool here = !done && absl::StartsWith(line, absl::StrCat(before, " "));
    const size_t state = here ? line.find_first_not_of(' ', before.size()) : absl::string_view::npos;
    done = done || here;
    absl::StrAppend(&painted, here ? PaintAt(line, state) : std::string(line), "\n");
  }
  painted.pop_back();
  return painted;
}

}  // namespace adjoin
