// RoCEv2: the InfiniBand transport over UDP (IBTA specification 1.4, annex A17 and section 9.2).
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kBaseTransportHeader = 12;

// Returns the length of the extended headers of an opcode of the connected services (table 35); -1 if it
// carries no data.
int extended_headers(std::uint8_t operation) {
    switch (operation) {
        case 0x03:
        case 0x05:
        case 0x09:
            return 4;  // immediate data
        case 0x06:
        case 0x0a:
            return 16;  // RDMA WRITE: RETH
        case 0x0b:
            return 20;  // and immediate data
        case 0x0d:
        case 0x0f:
        case 0x10:
            return 4;  // RDMA READ response: AETH
        case 0x16:
        case 0x17:
            return 4;  // SEND with invalidate
        case 0x0c:
        case 0x11:
        case 0x12:
        case 0x13:
        case 0x14:
            return -1;
        default:
            return 0;
    }
}

// tshark decodes a payload that starts with a known ethertype and two zero bytes as an encapsulated packet.
bool looks_like_ethertype(const Cursor& payload) { return payload.be16(0) != 0 && payload.be16(2) == 0; }

}  // namespace

Next dissect_infiniband(Walk& walk) {
    walk.push(Token::infiniband);
    if (!walk.at.has(kBaseTransportHeader)) return walk.truncated(Issue::truncated_infiniband);
    const std::uint8_t opcode = walk.at.u8(0);
    const std::uint8_t service =
        opcode >> 5;  // 0: reliable, 1: unreliable connection; datagrams carry management
    const int extended = extended_headers(opcode & 0x1f);
    if (service > 1) return walk.stop_as_unsure();
    walk.at.skip(kBaseTransportHeader);
    if (extended < 0) return Walk::stop();
    walk.at.skip(static_cast<std::size_t>(extended));
    return looks_like_ethertype(walk.at) ? walk.stop_as_unsure() : walk.stop_at_payload();
}

}  // namespace acapella
