// How openssl makes a certificate that has expired.
//
//   Shell(absl::StrCat("openssl x509 -req -in x.csr ... ", kExpired, " -out expired.pem"));
#ifndef ADJOIN_BASE_TESTING_EXPIRED_CERTIFICATE_H_
#define ADJOIN_BASE_TESTING_EXPIRED_CERTIFICATE_H_

namespace adjoin {

// Options of `openssl x509`, for a shell: from OpenSSL 3.4 on it refuses a number of days below 0, and takes dates.
inline constexpr char kExpired[] =
    "$(openssl x509 -help 2>&1 | grep -q not_after && echo -not_before 20250101000000Z -not_after 20250102000000Z || "
    "echo -days -1)";

}  // namespace adjoin

#endif  // ADJOIN_BASE_TESTING_EXPIRED_CERTIFICATE_H_
