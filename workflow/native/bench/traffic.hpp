// Generates frames of many TCP connections, as seen on a mirrored port. The frames depend only on the
// options.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "byte_vector.hpp"

namespace acapella::bench {

enum class Profile : std::uint8_t { fabric, iperf, plain, vlan, mpls, pw, single };

struct Options {
    std::uint64_t frames = 1'000'000;
    std::uint32_t flows = 6000;  // directions; a connection has two
    Profile profile = Profile::fabric;
    std::uint32_t snaplen = 200;
    std::uint64_t seed = 1;
    std::uint32_t first = 0;  // number of the first connection, which determines addresses and ports
    std::uint64_t start_ns = 1'700'000'000'000'000'000;
};

// One direction of a connection: its headers and sequence number.
struct Direction {
    std::array<std::uint8_t, 112> headers{};
    std::uint32_t seq = 0;
    std::uint16_t ip_id = 0;
    std::uint32_t record_left = 0;  // bytes until the next TLS record begins
};

struct Connection {
    std::array<Direction, 2> directions;  // 0: from the client
    std::uint32_t step = 0;               // of the handshake, then of the cycle data, data, acknowledgment
    std::uint8_t sender = 1;              // the direction that carries the data
    bool tls = false;
    bool tls_13 = false;
};

class Traffic {
  public:
    explicit Traffic(const Options& options);

    // Length of the longest record that next() writes.
    static constexpr std::size_t kMaxBytes = 16 + 65536;

    // Writes the next frame as a record of a little-endian nanosecond pcap and returns its size.
    std::size_t next(std::uint8_t* into);

  private:
    struct Segment {
        std::uint8_t direction;
        std::uint8_t flags;
        std::uint32_t payload;              // bytes on the wire
        const ByteVector* bytes = nullptr;  // the payload, if it is not application data
    };

    void prepare(Connection& connection, std::uint32_t number);
    void write_headers(Direction& direction, std::uint32_t number, bool from_client);
    void select_connection();
    Segment next_segment(Connection& connection);
    const ByteVector& handshake_message(const Connection& connection, std::uint32_t step);
    void write_payload(std::uint8_t* at, std::uint32_t captured, Connection& connection,
                       const Segment& segment);

    Options options_;
    Random random_;
    std::vector<Connection> connections_;
    std::vector<ByteVector> handshakes_;  // three messages of TLS 1.2, three of TLS 1.3
    ByteVector pool_;                     // random bytes for payloads
    std::uint32_t headers_ = 0;           // bytes before the payload
    std::uint32_t ip_at_ = 0;
    std::uint64_t ts_ns_;
    std::uint32_t current_ = 0;
    std::uint32_t burst_ = 0;  // frames left before another connection sends
    bool began_ = false;
};

}  // namespace acapella::bench
