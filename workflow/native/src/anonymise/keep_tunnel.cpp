// Tunnels: their own headers; what they carry follows as headers of its own.
#include "anonymise/keep.hpp"

namespace acapella::anonymise {

// With ERSPAN's header, which the dissector takes with it.
void keep_gre(Header& header) {
    constexpr std::uint16_t kChecksum = 0x8000;
    if (header.length() < 4) return;
    header.keep(header.length());
    if (header.at.be16(0) & kChecksum) header.owe(SumKind::plain, 4);
}

// RFC 8926 3.5: options keep class, type and length.
void keep_geneve(Header& header) {
    constexpr std::size_t kFixed = 8;
    const std::size_t end = header.length();
    if (end < kFixed) return;
    header.keep(kFixed);
    header.blank(end);
    for (std::size_t option = kFixed; option + 4 <= end;) {
        header.show(option, 4);
        option += 4 + (header.at.u8(option + 3) & 0x1fU) * std::size_t{4};
    }
}

// 3GPP TS 29.281 5.2.1: extension headers keep length and the next one's type. Of signalling the part that
// is the same in all messages.
void keep_gtp(Header& header) {
    constexpr std::size_t kFixed = 8;
    constexpr std::uint8_t kOptional = 0x07;
    const std::uint8_t version = header.at.u8(0) >> 5;
    if (!header.at.has(kFixed) || (version != 1 && version != 2)) return;
    header.keep(kFixed);
    const std::size_t end = header.length();
    if (end == 0) return;
    std::size_t extension = kFixed;
    if (header.at.u8(0) & kOptional) {
        extension += 4;
        header.keep(extension);
    }
    header.blank(end);
    while (extension < end) {
        const std::size_t length = header.at.u8(extension) * std::size_t{4};
        if (length == 0) return;
        header.show(extension, 1);
        header.show(extension + length - 1, 1);
        extension += length;
    }
}

// RFC 3948 2: a keepalive, the marker before IKE, or ESP's index and number.
void keep_udpencap(Header& header) {
    if (header.length() != 0) {
        header.keep(header.length());
    } else if (header.at.reported() == 1) {
        header.keep(1);
    } else {
        header.keep(header.at.has(8) ? 8 : 4);
    }
}

// RFC 2661 3.1, RFC 3931 4.1.2: the header of control messages; attributes name hosts.
void keep_l2tp(Header& header) {
    constexpr std::uint8_t kControl = 0x80;
    if (header.at.has(12) && (header.at.u8(0) & kControl) != 0) header.keep(12);
}

// RFC 4380 5.1.1: authentication keeps the lengths, the origin is an address with every bit inverted.
void keep_teredo(Header& header) {
    constexpr std::uint16_t kAuthentication = 1;
    const std::size_t end = header.length();
    header.blank(end);
    std::size_t origin = 0;
    if (end > 0 && header.at.be16(0) == kAuthentication) {
        header.show(0, 4);
        origin = 13 + std::size_t{header.at.u8(2)} + header.at.u8(3);
    }
    if (end == origin + 8) {
        header.show(origin, 4);
        header.draft.map_inverted(header.step.begin + origin + 4);
    }
}

// The base transport header; the extended ones hold remote addresses and keys.
void keep_infiniband(Header& header) {
    constexpr std::size_t kBase = 12;
    if (header.at.has(kBase)) header.keep(kBase);
}

}  // namespace acapella::anonymise
