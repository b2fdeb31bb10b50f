#include "tls_messages.hpp"

namespace acapella::bench {
namespace {

constexpr std::uint32_t kTls10 = 0x0301;
constexpr std::uint32_t kTls12 = 0x0303;
constexpr std::uint32_t kTls13 = 0x0304;
constexpr std::uint32_t kX25519 = 0x001d;
constexpr std::uint32_t kAes128Gcm = 0x1301;     // TLS_AES_128_GCM_SHA256
constexpr std::uint32_t kPskAes128Gcm = 0x00a8;  // TLS_PSK_WITH_AES_128_GCM_SHA256
constexpr std::size_t kFinishedSealed = 40;  // Finished of TLS 1.2 in AES-GCM: 8 nonce, 16 message, 16 tag

enum ContentType : std::uint8_t { kChangeCipherSpec = 20, kHandshake = 22, kApplicationData = 23 };
enum HandshakeType : std::uint8_t {
    kClientHello = 1,
    kServerHello = 2,
    kServerHelloDone = 14,
    kClientKeyExchange = 16
};

ByteVector record(ContentType type, std::uint32_t version, const ByteVector& body) {
    ByteVector out;
    add16(add8(out, type), version);
    return add(add16(out, static_cast<std::uint32_t>(body.size())), body);
}

ByteVector message(HandshakeType type, const ByteVector& body) {
    ByteVector out;
    add8(out, type);
    add8(out, 0);
    return add(add16(out, static_cast<std::uint32_t>(body.size())), body);
}

void add_extension(ByteVector& out, std::uint32_t type, const ByteVector& body) {
    add16(add16(out, type), static_cast<std::uint32_t>(body.size()));
    add(out, body);
}

ByteVector server_name() {
    constexpr std::string_view kName = "data.example.org";
    ByteVector out;
    add16(out, kName.size() + 3);
    add16(add8(out, 0), kName.size());
    return add(out, kName);
}

ByteVector key_share(Random& random) {
    ByteVector out;
    return add_random(add16(add16(out, kX25519), 32), random, 32);
}

ByteVector with_length16(const ByteVector& body) {
    ByteVector out;
    return add(add16(out, static_cast<std::uint32_t>(body.size())), body);
}

ByteVector client_hello(Random& random, const ByteVector& session, bool version_13) {
    ByteVector body;
    add_random(add16(body, kTls12), random, 32);
    add(add8(body, static_cast<std::uint32_t>(session.size())), session);
    add16(add16(add16(body, 4), kAes128Gcm), kPskAes128Gcm);
    add8(add8(body, 1), 0);
    ByteVector extensions;
    add_extension(extensions, 0, server_name());
    ByteVector groups;
    add_extension(extensions, 10, add16(add16(groups, 2), kX25519));
    ByteVector signatures;
    add_extension(extensions, 13, add16(add16(signatures, 2), 0x0403));  // ecdsa_secp256r1_sha256
    if (version_13) {
        ByteVector versions;
        add_extension(extensions, 43, add16(add16(add8(versions, 4), kTls13), kTls12));
        add_extension(extensions, 51, with_length16(key_share(random)));
    }
    add(body, with_length16(extensions));
    return record(kHandshake, kTls10, message(kClientHello, body));
}

ByteVector server_hello(Random& random, const ByteVector& session, bool version_13) {
    ByteVector body;
    add_random(add16(body, kTls12), random, 32);
    add(add8(body, static_cast<std::uint32_t>(session.size())), session);
    add8(add16(body, version_13 ? kAes128Gcm : kPskAes128Gcm), 0);
    if (version_13) {
        ByteVector extensions;
        ByteVector version;
        add_extension(extensions, 43, add16(version, kTls13));
        add_extension(extensions, 51, key_share(random));
        add(body, with_length16(extensions));
    }
    return record(kHandshake, kTls12, message(kServerHello, body));
}

ByteVector sealed(ContentType type, Random& random, std::size_t size) {
    ByteVector body;
    return record(type, kTls12, add_random(body, random, size));
}

}  // namespace

TlsHandshake tls_handshake(Random& random, bool version_13) {
    ByteVector session;
    add_random(session, random, 32);
    const ByteVector change_cipher_spec = record(kChangeCipherSpec, kTls12, {1});
    TlsHandshake out;
    out.client_hello = client_hello(random, session, version_13);
    out.server_hello = server_hello(random, session, version_13);
    if (version_13) {
        add(out.server_hello, change_cipher_spec);
        add(out.server_hello, sealed(kApplicationData, random, 800));  // EncryptedExtensions to Finished
        out.client_finished = change_cipher_spec;
        add(out.client_finished, sealed(kApplicationData, random, 53));
        return out;
    }
    add(out.server_hello, record(kHandshake, kTls12, message(kServerHelloDone, {})));
    ByteVector identity;
    add(add16(identity, 6), "client");
    out.client_finished = record(kHandshake, kTls12, message(kClientKeyExchange, identity));
    add(out.client_finished, change_cipher_spec);
    add(out.client_finished, sealed(kHandshake, random, kFinishedSealed));
    return out;
}

void put_tls_record_head(std::uint8_t* at) {
    at[0] = kApplicationData;
    put16(at + 1, kTls12);
    put16(at + 3, kTlsRecordBody);
}

}  // namespace acapella::bench
