// Ethernet pseudowires over MPLS, RFC 4448, with or without control word.
#include "dissect/dissectors.hpp"

namespace acapella {

// Only the first nibble 0 comes here. tshark guesses from vendors' address prefixes whether a control word
// stands there. A word of zeros is a control word without sequencing (RFC 4448 4.6, RFC 4385 3), and no
// vendor owns an address that starts so; anything else is left to tshark, which knows the vendors.
Next dissect_pseudowire(Walk& walk) {
    constexpr std::size_t kEthernet = 14;
    constexpr std::size_t kVendors = 9;  // tshark looks up the prefixes of both addresses
    walk.push(Token::pwethheuristic);
    if (!walk.at.has(4)) {
        walk.cut(Issue::truncated_pseudowire);
        return walk.unsure();
    }
    if (walk.at.reported() >= kEthernet && !walk.at.has(kVendors))
        return walk.cut(Issue::truncated_pseudowire);
    if (walk.at.be32(0) != 0) return walk.unsure();
    walk.push(Token::pwethcw);
    walk.at.skip(4);
    if (!walk.quoted) {
        walk.out.bare = walk.at.rest();
        walk.out.bare_wire_len = static_cast<std::uint32_t>(walk.at.reported());
        walk.out.bare_tokens = walk.out.token_count;
    }
    return Next::ethernet;
}

}  // namespace acapella
