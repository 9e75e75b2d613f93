#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/time_text.h"

namespace adjoin {

absl::StatusOr<int> RunTokenCreate(const CommandOptions& options, const std::string& user, const std::string& role,
                                   const std::string& valid_for) {
  ADJOIN_ASSIGN_OR_RETURN(absl::Duration valid, ReadDuration(valid_for));
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(CreateTokenResponse answer, client.CreateToken(user, role, absl::ToDoubleHours(valid)));
  if (options.format != Format::kTable) {
    std::cout << Formatted(answer, options.format) << std::flush;
    return 0;
  }
  const TokenSummary& token = answer.summary();
  std::cout << TextTable({{"token", answer.token()},
                          {"id", token.id()},
                          {"user", token.user()},
                          {"role", token.role()},
                          {"expires", TimeText(token.expires_unix_ms())}})
            << std::flush;
  std::cerr << "The token is shown this once: the coordinator keeps only its hash." << std::endl;
  return 0;
}

absl::StatusOr<int> RunTokenList(const CommandOptions& options) {
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(ListTokensResponse list, client.ListTokens());
  if (options.format != Format::kTable) {
    std::cout << Formatted(list, options.format) << std::flush;
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"TOKEN", "USER", "ROLE", "CREATED", "EXPIRES"}};
  for (const TokenSummary& token : list.token()) {
    rows.push_back(
        {token.id(), token.user(), token.role(), TimeText(token.created_unix_ms()), TimeText(token.expires_unix_ms())});
  }
  std::cout << (list.token().empty() ? "no tokens\n" : TextTable(rows)) << std::flush;
  return 0;
}

absl::StatusOr<int> RunTokenRevoke(const CommandOptions& options, const std::string& id) {
  CoordinatorClient client(options.client);
  ADJOIN_RETURN_IF_ERROR(client.RevokeToken(id));
  std::cout << (options.format == Format::kTable ? absl::StrCat("token ", id, " is revoked\n")
                                                 : Formatted(RevokeTokenResponse(), options.format))
            << std::flush;
  return 0;
}

}  // namespace adjoin
