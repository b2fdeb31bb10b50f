#include "traffic.hpp"

#include <algorithm>

#include "tls_messages.hpp"

namespace acapella::bench {
namespace {

constexpr std::uint32_t kPayload = 1448;  // MTU 1500 minus IPv4 header, TCP header and timestamps
constexpr std::uint32_t kIpHeader = 20;
constexpr std::uint32_t kTcpHeader = 32;
constexpr std::uint32_t kMeanGapNs = 1000;
constexpr std::uint32_t kLongestBurst = 8;
constexpr std::uint32_t kHandshakeSteps = 3;     // SYN, SYN and ACK, ACK
constexpr std::uint32_t kTlsHandshakeSteps = 6;  // TCP handshake and three TLS messages
constexpr std::size_t kPoolSize = std::size_t{64} << 10U;

constexpr std::uint8_t kSyn = 0x02;
constexpr std::uint8_t kAck = 0x10;
constexpr std::uint8_t kPushAck = 0x18;

std::uint32_t address(std::uint32_t number, bool client) {
    // Network 10/8, half for clients and half for servers; 250 hosts per subnet.
    return 0x0a000000U | (client ? 0U : 0x00800000U) | ((number / 250) << 8U) | (number % 250 + 1);
}

void add_ethernet(ByteVector& out, std::uint32_t oui, std::uint32_t to, std::uint32_t from,
                  std::uint32_t type) {
    add8(out, oui >> 16U);
    add8(add16(out, oui & 0xffffU), 0);
    add16(out, to);
    add8(out, oui >> 16U);
    add8(add16(out, oui & 0xffffU), 0);
    add16(add16(out, from), type);
}

// Adds an Ethernet header, a VLAN tag, and one or two MPLS labels, which differ between the directions.
void add_labels(ByteVector& out, std::uint32_t number, bool from_client, bool has_two_labels) {
    constexpr std::uint32_t kBottom = 0x100;
    constexpr std::uint32_t kTtl = 64;
    constexpr std::uint32_t kLabels = 1U << 20U;
    constexpr std::uint32_t kMin = 16;        // lower labels are reserved (RFC 3032)
    constexpr std::uint32_t kItdm = 0x99887;  // tshark does not decode a pseudowire after it
    add_ethernet(out, 0x00562b, from_client ? 2 : 1, from_client ? 1 : 2, 0x8100);
    add16(add16(out, 100 + number % 3900), 0x8847);
    const std::uint32_t direction = from_client ? 0 : 1;
    if (has_two_labels) {
        add32(out, (kMin + 2 * (number % 200) + direction) << 12U | kTtl);
    }
    std::uint32_t label = kMin + (500'000 - kMin + 2 * number + direction) % (kLabels - kMin);
    if (label == kItdm) label = 499'999;  // the last label that a connection would have
    add32(out, label << 12U | kBottom | kTtl);
}

// Adds the headers before IP: FABRIC's encapsulation if the profile has it, then Ethernet except in profile
// mpls.
void add_link(ByteVector& out, Profile profile, std::uint32_t number, bool from_client) {
    constexpr std::uint32_t kOpenStack = 0xfa163e;  // MAC prefix of OpenStack's virtual machines
    const bool has_two_labels = profile == Profile::fabric || profile == Profile::single;
    const bool pseudowire = has_two_labels || profile == Profile::pw;
    if (pseudowire || profile == Profile::mpls) {
        add_labels(out, number, from_client, has_two_labels);
    }
    if (profile == Profile::mpls) {
        return;
    }
    if (pseudowire) {
        add32(out, 0);  // control word (RFC 4448)
    }
    const bool tagged = profile == Profile::vlan;
    const std::uint32_t client = number & 0x7fffU;
    add_ethernet(out, kOpenStack, from_client ? client | 0x8000U : client,
                 from_client ? client : client | 0x8000U, tagged ? 0x8100 : 0x0800);
    if (tagged) {
        add16(add16(out, 100 + number % 3900), 0x0800);
    }
}

std::uint32_t checksum(const std::uint8_t* header) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < kIpHeader; i += 2) {
        sum += static_cast<std::uint32_t>(header[i] << 8U) + header[i + 1];
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    return ~((sum & 0xffffU) + (sum >> 16U)) & 0xffffU;
}

void put_record_header(std::uint8_t* at, std::uint64_t ts_ns, std::uint32_t captured, std::uint32_t wire) {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const std::array<std::uint32_t, 4> fields{static_cast<std::uint32_t>(ts_ns / kSecond),
                                              static_cast<std::uint32_t>(ts_ns % kSecond), captured, wire};
    std::memcpy(at, fields.data(), sizeof fields);
}

}  // namespace

Traffic::Traffic(const Options& options)
    : options_(options), random_(options.seed), ts_ns_(options.start_ns) {
    add_random(pool_, random_, kPoolSize + kMaxBytes);
    for (const bool version_13 : {false, true}) {
        const TlsHandshake messages = tls_handshake(random_, version_13);
        handshakes_.insert(handshakes_.end(),
                           {messages.client_hello, messages.server_hello, messages.client_finished});
    }
    connections_.resize(std::max(1U, options_.flows / 2));
    for (std::uint32_t i = 0; i < connections_.size(); ++i) {
        prepare(connections_[i], options_.first + i);
    }
}

void Traffic::prepare(Connection& connection, std::uint32_t number) {
    connection.tls = options_.profile != Profile::iperf && number % 2 == 0;
    connection.tls_13 = number % 4 == 0;
    connection.sender = static_cast<std::uint8_t>(number / 2 % 2);
    for (const bool from_client : {true, false}) {
        Direction& direction = connection.directions[from_client ? 0 : 1];
        direction.seq = static_cast<std::uint32_t>(random_.next());
        direction.ip_id = static_cast<std::uint16_t>(random_.next());
        write_headers(direction, number, from_client);
    }
}

void Traffic::write_headers(Direction& direction, std::uint32_t number, bool from_client) {
    const bool tls = options_.profile != Profile::iperf && number % 2 == 0;
    const std::uint32_t server_port = tls ? 443 : 5201;
    const std::uint32_t client_port = 32768 + number % 28000;
    ByteVector out;
    add_link(out, options_.profile, number, from_client);
    ip_at_ = static_cast<std::uint32_t>(out.size());
    add32(out, 0x45000000);
    add32(out, 0x00004000);  // do not fragment
    add32(out, 0x40060000);  // TTL 64, TCP
    add32(out, address(number, from_client));
    add32(out, address(number, !from_client));
    add16(add16(out, from_client ? client_port : server_port), from_client ? server_port : client_port);
    add32(add32(out, 0), 0);
    add32(out, 0x80000000U | 502);  // 32 bytes, window
    add32(out, 0);
    add32(out, 0x0101080a);  // two no-operations, timestamps
    add32(add32(out, 0), 0);
    headers_ = static_cast<std::uint32_t>(out.size());
    std::copy(out.begin(), out.end(), direction.headers.begin());
}

const ByteVector& Traffic::handshake_message(const Connection& connection, std::uint32_t step) {
    return handshakes_[(connection.tls_13 ? 3 : 0) + step - kHandshakeSteps];
}

// Selects the connection that sends next.
void Traffic::select_connection() {
    if (options_.profile == Profile::single) {  // in order, one frame in each direction
        current_ = began_ ? (current_ + 1) % static_cast<std::uint32_t>(connections_.size()) : 0;
        burst_ = 2;
    } else {  // the square makes some connections much longer than others
        const std::uint64_t u = random_.below(1U << 31U);
        current_ = static_cast<std::uint32_t>(((u * u) >> 31U) * connections_.size() >> 31U);
        burst_ = 1 + random_.below(kLongestBurst);
    }
    began_ = true;
}

Traffic::Segment Traffic::next_segment(Connection& connection) {
    const std::uint32_t step = connection.step++;
    if (options_.profile == Profile::single) {
        return {static_cast<std::uint8_t>(step % 2), kPushAck, kPayload};
    }
    if (step < kHandshakeSteps) {
        constexpr std::array<std::uint8_t, kHandshakeSteps> kFlags{kSyn, kSyn | kAck, kAck};
        return {static_cast<std::uint8_t>(step % 2), kFlags[step], 0};
    }
    if (connection.tls && step < kTlsHandshakeSteps) {
        const ByteVector& message = handshake_message(connection, step);
        return {static_cast<std::uint8_t>((step - kHandshakeSteps) % 2), kPushAck,
                static_cast<std::uint32_t>(message.size()), &message};
    }
    const std::uint32_t cycle = step % 3;
    if (cycle == 2) {
        return {static_cast<std::uint8_t>(1 - connection.sender), kAck, 0};
    }
    return {connection.sender, cycle == 1 ? kPushAck : kAck, kPayload};
}

// TLS records span segments, so most segments begin inside a record.
void Traffic::write_payload(std::uint8_t* at, std::uint32_t captured, Connection& connection,
                            const Segment& segment) {
    if (segment.bytes != nullptr) {
        std::memcpy(at, segment.bytes->data(), captured);
        return;
    }
    if (segment.payload == 0) {
        return;
    }
    std::memcpy(at, pool_.data() + random_.below(kPoolSize), captured);
    if (!connection.tls) {
        return;
    }
    Direction& direction = connection.directions[segment.direction];
    std::uint32_t begins = direction.record_left;
    for (; begins < segment.payload; begins += kTlsRecordHead + kTlsRecordBody) {
        std::uint8_t head[kTlsRecordHead];
        put_tls_record_head(head);
        if (begins < captured) {
            std::memcpy(at + begins, head, std::min<std::size_t>(sizeof head, captured - begins));
        }
    }
    direction.record_left = begins - segment.payload;
}

std::size_t Traffic::next(std::uint8_t* into) {
    if (burst_ == 0) {
        select_connection();
    }
    --burst_;
    Connection& connection = connections_[current_];
    const Segment segment = next_segment(connection);
    Direction& direction = connection.directions[segment.direction];
    const Direction& other = connection.directions[1 - segment.direction];
    ts_ns_ += 1 + random_.below(2 * kMeanGapNs - 1);

    const std::uint32_t wire = headers_ + segment.payload;
    const std::uint32_t captured = std::min(wire, options_.snaplen);
    put_record_header(into, ts_ns_, captured, wire);
    std::uint8_t* frame = into + 16;
    std::memcpy(frame, direction.headers.data(), direction.headers.size());
    std::uint8_t* ip = frame + ip_at_;
    put16(ip + 2, kIpHeader + kTcpHeader + segment.payload);
    put16(ip + 4, direction.ip_id++);
    put16(ip + 10, checksum(ip));
    std::uint8_t* tcp = ip + kIpHeader;
    put32(tcp + 4, direction.seq);
    put32(tcp + 8, segment.flags == kSyn ? 0 : other.seq);
    tcp[13] = segment.flags;
    const auto clock_ms = static_cast<std::uint32_t>(ts_ns_ / 1'000'000);
    put32(tcp + 24, clock_ms);
    put32(tcp + 28, segment.flags == kSyn ? 0 : clock_ms - 1);
    if (captured > headers_) {
        write_payload(frame + headers_, captured - headers_, connection, segment);
    }
    direction.seq += segment.payload + ((segment.flags & kSyn) != 0 ? 1 : 0);
    return 16 + std::size_t{captured};
}

}  // namespace acapella::bench
