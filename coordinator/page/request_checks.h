// Which requests of a browser are answered at all: not those that another site made it send.
//
//   ADJOIN_RETURN_IF_ERROR(CheckHost(request));
//   ADJOIN_RETURN_IF_ERROR(CheckNotCrossSite(request));      // of data
//   ADJOIN_RETURN_IF_ERROR(CheckSameOrigin(request));        // of what changes something
//
// Pure.
#ifndef ADJOIN_COORDINATOR_PAGE_REQUEST_CHECKS_H_
#define ADJOIN_COORDINATOR_PAGE_REQUEST_CHECKS_H_

#include "absl/status/status.h"
#include "coordinator/page/http_server.h"
#include "coordinator/services/access.h"

namespace adjoin {

// The cookie that sign-in sets. Browsers take one of this prefix over TLS only, for this host and all of it.
inline constexpr char kTokenCookie[] = "__Host-adjoin-token";
// Every request that changes something has it. A browser lets a script of another site send it only if this server
// agreed first, which it never does.
inline constexpr char kActionHeader[] = "x-adjoin-action";

// What the request shows: a token in its header "Authorization" or in the cookie, else the client's certificate.
Credentials CredentialsOf(const HttpRequest& request);
// Whether CredentialsOf is the token of the cookie.
bool ShowsCookie(const HttpRequest& request);
// The client's certificate alone; nothing where it showed none.
Credentials CertificateOf(const HttpRequest& request);

// Over plain HTTP only loopback may be meant: else a site whose name comes to mean 127.0.0.1 could read along with the
// browser of this machine. Errors: kPermissionDenied.
absl::Status CheckHost(const HttpRequest& request);

// Errors: kPermissionDenied (another site's page sent it, as the browser says).
absl::Status CheckNotCrossSite(const HttpRequest& request);

// Errors: kPermissionDenied (as above; Origin is missing or is another one).
absl::Status CheckSameOrigin(const HttpRequest& request);

// Likewise, of a request by a script of this page: kActionHeader is there, too. Programs that are no browsers have no
// origin; they show a certificate or the header "Authorization", which no other site can make a browser send.
absl::Status CheckAction(const HttpRequest& request);

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_REQUEST_CHECKS_H_
