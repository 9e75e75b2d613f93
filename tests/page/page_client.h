// A browser's requests to the coordinator's page, over real sockets, one connection each.
//
//   PageClient client(PagePort(*cluster), files);
//   absl::StatusOr<PageResponse> jobs = client.Get("/api/jobs");
//   EXPECT_EQ(jobs->status, 200);
//
// One thread.
#ifndef ADJOIN_TESTS_PAGE_PAGE_CLIENT_H_
#define ADJOIN_TESTS_PAGE_PAGE_CLIENT_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/security/tls.h"
#include "base/unique_fd.h"

namespace adjoin {

struct PageResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
};

class PageClient {
 public:
  using Headers = std::map<std::string, std::string>;

  // Plain HTTP on 127.0.0.1.
  explicit PageClient(int port) : port_(port) {}
  // HTTPS; the client's certificate is shown where `files` has one.
  PageClient(int port, TlsFiles files) : port_(port), tls_(true), files_(std::move(files)) {}

  absl::StatusOr<PageResponse> Get(const std::string& path, const Headers& headers = {}) const {
    return Send("GET", path, headers, "");
  }
  // Errors: kUnavailable (no connection, no answer within 30 s, an answer that is no HTTP).
  absl::StatusOr<PageResponse> Send(const std::string& method, const std::string& path, const Headers& headers,
                                    const std::string& body) const;

  // A connection without a word, or -1.
  static UniqueFd Connect(int port);

 private:
  absl::StatusOr<std::string> Exchange(int socket, const std::string& request) const;

  const int port_;
  const bool tls_ = false;
  const TlsFiles files_;
};

// Where the page of a coordinator is that was started with --page-listen 127.0.0.1:0; 0: it has none. `log`: its
// standard error.
int PagePortIn(const std::string& log);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_PAGE_PAGE_CLIENT_H_
