// VXLAN, RFC 7348.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_vxlan(Walk& walk) {
    constexpr std::size_t kVni = 4;  // 24 bits
    constexpr std::size_t kHeader = 8;
    walk.push(Token::vxlan);
    if (walk.at.has(kVni + 3))
        walk.vni_tunnel(TunnelType::vxlan_vni, walk.at.be24(kVni),
                        vni::is_vxlan(walk.out.dst_port, walk.at.u8(0)));
    if (!walk.at.has(kHeader)) return walk.truncated(Issue::truncated_vxlan);
    walk.at.skip(kHeader);
    return Next::ethernet;
}

}  // namespace acapella
