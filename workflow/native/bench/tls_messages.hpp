// Handshakes of TLS 1.3 (RFC 8446), and of TLS 1.2 with a pre-shared key (RFC 5246, RFC 4279), as TCP
// payloads.
#pragma once

#include "byte_vector.hpp"

namespace acapella::bench {

struct TlsHandshake {
    ByteVector client_hello;
    ByteVector server_hello;     // including the following messages of the server
    ByteVector client_finished;  // the client's last message of the handshake
};

TlsHandshake tls_handshake(Random& random, bool version_13);

// The header of an application data record.
inline constexpr std::size_t kTlsRecordHead = 5;
// The maximum plaintext of 16 KiB plus the overhead of AEAD and TLS 1.3.
inline constexpr std::uint32_t kTlsRecordBody = 16384 + 17;

void put_tls_record_head(std::uint8_t* at);

}  // namespace acapella::bench
