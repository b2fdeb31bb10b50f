// MPLS label stacks (RFC 3032) and their payload. No field states the payload's type (RFC 4928 section 3).
#include "dissect/dissectors.hpp"

namespace acapella {
namespace {

constexpr std::uint32_t kLabelY1711 = 14;      // OAM alert, RFC 3429
constexpr std::uint32_t kLabelGal = 13;        // Generic Associated Channel Label, RFC 5586 section 4.2
constexpr std::uint32_t kLabelItdm = 0x99887;  // tshark has a dissector for it

void add_label(Walk& walk, std::uint32_t label) {
    Dissection& out = walk.out;
    if (walk.quoted) return;
    if (out.label_count < kMaxLabels) {
        out.labels[out.label_count++] = label;
    } else {
        walk.overflow();
    }
}

// RFC 4928 section 3 and RFC 4385 section 3: 4 and 6 are IP, 0 is a control word or a MAC address, 1 is an
// associated channel.
Next by_first_nibble(Walk& walk) {
    switch (walk.at.u8(0) >> 4) {
        case 4:
            return Next::ipv4;
        case 6:
            return Next::ipv6;
        case 0:
            return Next::pseudowire_heuristic;
        case 1:
            walk.push(Token::pwach);
            return walk.stop_as_unsure();
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace

Next dissect_mpls(Walk& walk) {
    walk.push(Token::mpls, 0);
    std::uint8_t& headers = walk.out.repeats[walk.out.token_count - 1];
    for (bool bottom = false; !bottom;) {
        if (!walk.at.has(4)) return walk.truncated(Issue::truncated_mpls);
        const std::uint32_t entry = walk.at.be32(0);
        const std::uint32_t label = entry >> 12;
        bottom = (entry & 0x100) != 0;
        add_label(walk, label);
        if (headers < 255) ++headers;
        walk.at.skip(4);
        if (bottom && (label == kLabelGal || label == kLabelY1711 || label == kLabelItdm))
            return walk.stop_as_unsure();
    }
    walk.link_header(0);
    walk.link_payload(0x8847);
    if (!walk.at.has(1)) return walk.truncated(Issue::truncated_mpls);
    return by_first_nibble(walk);
}

}  // namespace acapella
