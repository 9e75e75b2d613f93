#include "base/flags.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "base/printable_text.h"
#include "base/shell_completion.h"
#include "base/version.h"

namespace adjoin {
namespace {

bool IsSet(const std::string& variable) {
  const char* value = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

// CLI11 prefers the file to the environment: what the environment has is therefore dropped from the file.
class EnvironmentFirst : public CLI::ConfigBase {
 public:
  explicit EnvironmentFirst(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigBase::from_config(input);
    auto overridden = [this](const CLI::ConfigItem& item) {
      const CLI::Option* option = app_.get_option_no_throw("--" + item.name);
      return option != nullptr && IsSet(option->get_envname());
    };
    items.erase(std::remove_if(items.begin(), items.end(), overridden), items.end());
    return items;
  }

 private:
  const CLI::App& app_;
};

// How many letters have to be changed, put in or left out, to make one word of the other.
size_t Distance(const std::string& from, const std::string& to) {
  std::vector<size_t> above(to.size() + 1);  // for one letter of `from` less
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    std::vector<size_t> row = {i + 1};
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t changed =
          above[j] +
          (std::tolower(static_cast<unsigned char>(from[i])) == std::tolower(static_cast<unsigned char>(to[j])) ? 0
                                                                                                                : 1);
      row.push_back(std::min({changed, above[j + 1] + 1, row[j] + 1}));
    }
    above = std::move(row);
  }
  return above.back();
}

// "; did you mean 'submit'?", or "" where no name is near.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return Distance(word, a) < Distance(word, b);
  });
  if (nearest == names.end() || Distance(word, *nearest) > std::max<size_t>(1, word.size() / 3)) return "";
  return "; did you mean '" + *nearest + "'?";
}

// The command that was given last: `adjoin token` for `adjoin token crate`.
const CLI::App& GivenCommand(const CLI::App& app) {
  const CLI::App* given = &app;
  while (!given->get_subcommands().empty()) given = given->get_subcommands().back();
  return *given;
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::string FullName(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : FullName(*command.get_parent()) + " " + command.get_name();
}

// What is wrong with the command line, in our words where CLI11's do not name it.
std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = GivenCommand(app);
  if (command.get_allow_extras()) return error.what();
  std::vector<std::string> unknown = command.remaining();
  if (unknown.empty()) unknown = app.remaining(/*recurse=*/true);
  const bool is_option = !unknown.empty() && unknown[0].size() > 1 && unknown[0][0] == '-';
  if (is_option) {
    const std::string name = unknown[0].substr(0, unknown[0].find('='));
    return "unknown option '" + name + "'" + DidYouMean(name, OptionNames(command));
  }
  const bool wants_command = command.get_require_subcommand_min() > 0 && command.get_subcommands().empty();
  if (!wants_command) return error.what();
  std::vector<std::string> names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(each->get_name());
  }
  if (!unknown.empty()) return "unknown command '" + unknown[0] + "'" + DidYouMean(unknown[0], names);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return "a command is missing: " + list;
}

// Thrown by the options that print something and end.
class CallForText : public CLI::Success {
 public:
  explicit CallForText(std::string text)
      : CLI::Success("CallForText", "", CLI::ExitCodes::Success), text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddTextFlags(CLI::App& app, const ManPageOptions& page) {
  app.set_version_flag("--version", app.get_name() + " " + kVersion, "Show the version and end");
  app.add_flag_callback(
      "--man-page", [&app, page] { throw CallForText(ManPage(app, page)); },
      "Print the page of the manual, in roff, and end");
  const auto print_script = [&app](const std::string& shell) {
    std::string program = app.get_name();
    std::replace(program.begin(), program.end(), ' ', '-');
    const absl::StatusOr<std::string> script = CompletionScript(program, shell);
    if (!script.ok()) throw CLI::ValidationError("--completion", std::string(script.status().message()));
    throw CallForText(*script);
  };
  app.add_option_function<std::string>("--completion", print_script, "Print the completion for this shell and end")
      ->type_name(kShells);
}

// What a shell asks on Tab. The settings of the line count before those of the environment and the file, as always.
std::string AnswerShell(CLI::App& app, const std::vector<std::string>& arguments, const CompletionSources& sources) {
  CompletionSources read = sources;
  if (sources.values) {
    read.values = [&](const std::string& type, const std::vector<std::string>& settings) -> std::vector<Suggestion> {
      try {
        app.require_subcommand(0);
        app.parse(std::vector<std::string>(settings.rbegin(), settings.rend()));
      } catch (const CLI::Error&) {
        return {};
      }
      return sources.values(type, settings);
    };
  }
  return CompletionAnswer(app, arguments, read);
}

}  // namespace

CLI::Option* OneOf(CLI::Option* option, const std::vector<std::string>& choices) {
  return option->check(CLI::IsMember(choices).description(""))->type_name(absl::StrJoin(choices, "|"));
}

void AddConfigSources(CLI::App& app, const std::string& environment_prefix) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_envname().empty() || option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    std::string name = environment_prefix;
    for (char c : option->get_lnames()[0]) {
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    option->envname(name);
  }
  // CLI11 reads the file before it looks at the environment, so the file's name is looked up here.
  const std::string variable = environment_prefix + "CONFIG";
  bool given = IsSet(variable);
  app.config_formatter(std::make_shared<EnvironmentFirst>(app));
  app.set_config("--config", given ? std::getenv(variable.c_str()) : "",
                 "A file with a line `name = value` for each option; also from " + variable, given)
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
}

std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv, const ManPageOptions& page,
                              const CompletionSources& sources) {
  AddTextFlags(app, page);
  if (argc > 1 && std::string(argv[1]) == kCompleteFlag) {
    std::cout << AnswerShell(app, {argv + 2, argv + argc}, sources);
    return 0;
  }
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CallForText& call) {
    std::cout << call.text();
    return std::cout.flush() ? 0 : 1;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::cout << app.help("", CLI::AppFormatMode::All);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": error: " << PrintableText(Explain(app, error)) << " (see "
              << FullName(GivenCommand(app)) << " --help)\n";
    return 2;
  }
}

}  // namespace adjoin
