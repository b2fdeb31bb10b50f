// Geneve, RFC 8926.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_geneve(Walk& walk) {
    constexpr std::size_t kVni = 4;  // 24 bits
    walk.push(Token::geneve);
    if (walk.at.has(kVni + 3))
        walk.vni_tunnel(TunnelType::geneve_vni, walk.at.be24(kVni),
                        vni::is_geneve(walk.out.dst_port, walk.at.u8(0) >> 6));
    if (!walk.at.has(8)) return walk.truncated(Issue::truncated_geneve);
    const std::size_t header = 8 + (walk.at.u8(0) & 0x3fU) * std::size_t{4};
    const std::uint16_t type = walk.at.be16(2);
    if (!walk.at.has(header)) return walk.truncated(Issue::truncated_geneve);
    walk.at.skip(header);
    return walk.ethertype(type);
}

}  // namespace acapella
