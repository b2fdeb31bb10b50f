// Ethernet pseudowires over MPLS (RFC 4448), with or without a control word. No field distinguishes these
// forms.
#include "dissect/dissectors.hpp"
#include "dissect/vendors.hpp"

namespace acapella {
namespace {

constexpr std::size_t kControlWord = 4;
constexpr std::size_t kEthernet = 14;
constexpr std::size_t kType = 12;    // offset of the ethertype
constexpr std::size_t kVendors = 9;  // the prefixes of both addresses, which tshark looks up

// IEEE 802.2: both service access points of protocols that are common on Ethernet (STP, SNAP, NetWare,
// NetBIOS, OSI), and Novell frames without LLC.
bool is_llc(std::uint16_t access_points) {
    switch (access_points) {
        case 0x4242:
        case 0xaaaa:
        case 0xe0e0:
        case 0xf0f0:
        case 0xfefe:
        case 0xffff:
            return true;
        default:
            return false;
    }
}

// Returns true if the bytes from `offset` on could follow the addresses of an Ethernet frame: either a common
// ethertype (for IP and ARP, the first field after it must also match), or a length and LLC.
bool looks_like_ethernet(const Cursor& at, std::size_t offset) {
    if (!at.has(offset + 4)) return false;
    const std::uint16_t type = at.be16(offset);
    const std::uint16_t first = at.be16(offset + 2);
    switch (type) {
        case 0x0800:
            return first >> 12 == 4;
        case 0x86dd:
            return first >> 12 == 6;
        case 0x0806:
            return first == 1;  // hardware type Ethernet, RFC 826
        case 0x8100:
        case 0x88a8:
        case 0x9100:
        case 0x8847:
        case 0x8848:
        case 0x8863:
        case 0x8864:
        case 0x8809:
        case 0x888e:
        case 0x88ca:
        case 0x88cc:
        case 0x88f7:
            return true;
        default:
            return type >= 3 && type <= kMax8023Length && is_llc(first) && at.reported() >= offset + 2 + type;
    }
}

// A word of zeros is either a control word without sequencing (RFC 4385 section 3, RFC 4448 section 4.6) or
// the start of an address of the vendor 00:00:00. It is treated as a control word if a plausible Ethernet
// frame starts after the word, but not at the word itself.
bool is_control_word(const Cursor& at) {
    return at.be32(0) == 0 && looks_like_ethernet(at, kControlWord + kType) &&
           !looks_like_ethernet(at, kType);
}

Next with_control_word(Walk& walk) {
    walk.push(Token::pwethcw);
    walk.at.skip(kControlWord);
    if (!walk.quoted) {
        walk.out.pseudowire_frame = walk.at.rest();
        walk.out.pseudowire_frame_len = static_cast<std::uint32_t>(walk.at.reported());
        walk.out.pseudowire_tokens = walk.out.token_count;
    }
    return Next::ethernet;
}

Next without_control_word(Walk& walk) {
    walk.push(Token::pwethnocw);
    return Next::ethernet;
}

}  // namespace

// Called only if the first nibble is 0. tshark 4.0 decodes data that begins with two addresses of known
// vendors as a plain frame, and everything else as a frame after a control word. With the vendors known to
// tshark, the core does the same, except for control words of zeros: schemas/tshark_errata.yaml. Without
// vendors, the core is sure only of control words of zeros.
Next dissect_pseudowire(Walk& walk) {
    walk.push(Token::pwethheuristic);
    if (!walk.at.has(kControlWord)) {
        walk.truncated(Issue::truncated_pseudowire);
        return walk.stop_as_unsure();
    }
    const bool complete = walk.at.reported() >= kEthernet;
    if (complete && !walk.at.has(kVendors)) return walk.truncated(Issue::truncated_pseudowire);
    if (walk.vendors == nullptr)
        return walk.at.be32(0) == 0 && !looks_like_ethernet(walk.at, kType) ? with_control_word(walk)
                                                                            : walk.stop_as_unsure();
    const bool plain =
        complete && walk.vendors->knows(walk.at.be24(0)) && walk.vendors->knows(walk.at.be24(6));
    return plain && !is_control_word(walk.at) ? without_control_word(walk) : with_control_word(walk);
}

}  // namespace acapella
