#include "base/man_page.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/version.h"

namespace adjoin {
namespace {

// Text that roff sets as it is, also at the beginning of a line.
std::string Roff(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"'", "\\(aq"}, {"`", "\\(ga"}, {"^", "\\(ha"}, {"~", "\\(ti"}});
  if (absl::StartsWith(escaped, ".")) escaped.insert(0, "\\&");
  return escaped;
}

std::string Bold(absl::string_view text) { return absl::StrCat("\\fB", Roff(text), "\\fR"); }
std::string Italic(absl::string_view text) { return absl::StrCat("\\fI", Roff(text), "\\fR"); }

// Prose, with `code` in bold, as sentences.
std::string Prose(absl::string_view text) {
  std::string prose;
  bool code = false;
  for (const absl::string_view part : absl::StrSplit(text, '`')) {
    absl::StrAppend(&prose, code ? Bold(part) : Roff(part));
    code = !code;
  }
  const absl::string_view stripped = absl::StripAsciiWhitespace(text);
  if (!stripped.empty() && !absl::StrContains(".:!?", stripped.back())) prose += '.';
  return prose;
}

// CLI11 writes checks after a type: "FLOAT:FLOAT in [0.1 - 10]" has a range, "UINT:SIZE" a better name. "HOST:PORT" is
// one name.
struct Type {
  std::string name, range;
};
Type TypeOf(const CLI::Option& option) {
  const std::string full = option.get_type_name();
  const std::vector<std::string> parts = absl::StrSplit(full, ':');
  if (parts.size() < 2) return {full, ""};
  static constexpr absl::string_view kPlain[] = {"TEXT", "INT", "UINT", "FLOAT"};
  if (std::find(std::begin(kPlain), std::end(kPlain), parts[0]) == std::end(kPlain)) return {full, ""};
  const size_t in = parts[1].find(" in [");
  if (in == std::string::npos) return {parts[1], ""};
  return {parts[0], parts[1].substr(in + 5, parts[1].size() - in - 6)};
}

std::string NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(Bold("-" + name));
  for (const std::string& name : option.get_lnames()) names.push_back(Bold("--" + name));
  return absl::StrJoin(names, ", ");
}

std::string OptionText(const CLI::Option& option) {
  const Type type = TypeOf(option);
  std::string text = ".TP\n";
  if (option.get_positional()) {
    absl::StrAppend(&text, Italic(option.get_name(/*positional=*/true)));
    if (absl::StrContains(type.name, '|')) absl::StrAppend(&text, " (", Roff(type.name), ")");
  } else {
    absl::StrAppend(&text, NamesOf(option));
    const bool optional = option.get_expected_min() == 0;
    if (option.get_items_expected_max() > 0) {
      absl::StrAppend(&text, " ", optional ? "[" : "", Italic(type.name), optional ? "]" : "");
    }
  }
  absl::StrAppend(&text, "\n", Prose(option.get_description()));
  if (!type.range.empty())
    absl::StrAppend(&text, "\nBetween ", Roff(absl::StrReplaceAll(type.range, {{" - ", " and "}})), ".");
  if (!option.get_default_str().empty()) absl::StrAppend(&text, "\nDefault: ", Roff(option.get_default_str()), ".");
  if (!option.get_envname().empty()) absl::StrAppend(&text, "\nEnvironment: ", Bold(option.get_envname()), ".");
  if (option.get_required() && !option.get_positional()) absl::StrAppend(&text, "\nRequired.");
  return text + "\n";
}

std::vector<const CLI::Option*> ShownOptions(const CLI::App& app, bool positional) {
  return app.get_options([positional](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == positional;
  });
}

std::string Positionals(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : ShownOptions(app, /*positional=*/true)) {
    const std::string name = Italic(option->get_name(/*positional=*/true));
    absl::StrAppend(&text, " ", option->get_required() ? name : absl::StrCat("[", name, "]"));
  }
  return text;
}

std::vector<const CLI::App*> ShownCommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

// A heading for each command that takes arguments, `token create` as well as `submit`.
std::string CommandsText(const CLI::App& app, const std::string& above) {
  std::string text;
  for (const CLI::App* command : ShownCommands(app)) {
    const std::string name = absl::StrCat(above, command->get_name());
    if (ShownCommands(*command).empty()) {
      absl::StrAppend(&text, ".SS ", Bold(name), Positionals(*command), "\n", Prose(command->get_description()), "\n");
      for (const bool positional : {true, false}) {
        for (const CLI::Option* option : ShownOptions(*command, positional)) {
          if (option != command->get_help_ptr()) absl::StrAppend(&text, OptionText(*option));
        }
      }
    }
    absl::StrAppend(&text, CommandsText(*command, name + " "));
  }
  return text;
}

}  // namespace

std::string ManPage(const CLI::App& app, const ManPageOptions& options) {
  // "adjoin verify" has the page adjoin-verify.
  const std::string page = absl::StrReplaceAll(app.get_name(), {{" ", "-"}});
  const bool has_commands = !ShownCommands(app).empty();
  std::string text =
      absl::StrCat(".TH \"", Roff(absl::AsciiStrToUpper(page)), "\" \"", options.section, "\" \"\" \"Adjoin ", kVersion,
                   "\" \"", options.section == 8 ? "System Administration" : "User Commands",
                   // Names of options and variables are not hyphenated.
                   "\"\n.nh\n.ad l\n");
  absl::StrAppend(&text, ".SH NAME\n", Roff(page), " \\- ", Roff(app.get_description()), "\n");
  absl::StrAppend(
      &text, ".SH SYNOPSIS\n", Bold(app.get_name()), " [", Italic("OPTION"), "]...",
      has_commands ? absl::StrCat(" ", Italic("COMMAND"), " [", Italic("ARGUMENT"), "]...") : Positionals(app),
      "\n.SH DESCRIPTION\n", Prose(app.get_description()), "\n");
  for (const absl::string_view line : absl::StrSplit(app.get_footer(), '\n', absl::SkipWhitespace())) {
    absl::StrAppend(&text, ".PP\n", Prose(line), "\n");
  }
  absl::StrAppend(&text, ".SH OPTIONS\n");
  if (has_commands) absl::StrAppend(&text, "These may be given before and after the command.\n");
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : ShownOptions(app, positional)) absl::StrAppend(&text, OptionText(*option));
  }
  if (has_commands) absl::StrAppend(&text, ".SH COMMANDS\n", CommandsText(app, ""));
  if (app.get_config_ptr() != nullptr) {
    absl::StrAppend(
        &text, ".SH CONFIGURATION\nThe command line wins over the environment, the environment over the file that ",
        Bold("--config"), " names.\n");
  }
  if (!options.see_also.empty()) {
    std::vector<std::string> pages;
    for (const std::string& other : options.see_also) {
      const size_t bracket = other.find('(');
      pages.push_back(absl::StrCat(Bold(other.substr(0, bracket)), other.substr(bracket)));
    }
    absl::StrAppend(&text, ".SH SEE ALSO\n", absl::StrJoin(pages, ",\n"), "\n");
  }
  return text;
}

}  // namespace adjoin
