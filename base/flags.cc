#include "base/flags.h"

#include <cctype>
#include <iostream>

namespace adjoin {

void AddConfigSources(CLI::App& app, const std::string& environment_prefix) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_envname().empty() || option->get_lnames().empty() || option->get_lnames()[0] == "help") continue;
    std::string name = environment_prefix;
    for (char c : option->get_lnames()[0]) {
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    option->envname(name);
  }
  app.set_config("--config", "", "A file with a line `name = value` for each option")
      ->envname(environment_prefix + "CONFIG");
  app.allow_config_extras(CLI::config_extras_mode::error);
}

std::optional<int> ParseFlags(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::cout << app.help("", CLI::AppFormatMode::All);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": error: " << error.what() << " (see " << app.get_name() << " --help)\n";
    return 2;
  }
}

}  // namespace adjoin
