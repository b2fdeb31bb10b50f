// VXLAN-GPE, draft-ietf-nvo3-vxlan-gpe section 3: VXLAN with a next protocol field.
#include "dissect/dissectors.hpp"

namespace acapella {

// tshark 4.0 prints no token for VXLAN-GPE.
Next dissect_vxlan_gpe(Walk& walk) {
    constexpr std::size_t kNextProtocol = 3;
    constexpr std::size_t kVni = 4;  // 24 bits
    constexpr std::size_t kHeader = 8;
    if (walk.at.has(kVni + 3))
        walk.vni_tunnel(TunnelType::vxlan_gpe_vni, walk.at.be24(kVni),
                        vni::is_vxlan_gpe(walk.out.dst_port, walk.at.u8(0)));
    if (!walk.at.has(kHeader)) return walk.truncated(Issue::truncated_vxlan_gpe);
    const std::uint8_t next = walk.at.u8(kNextProtocol);
    walk.at.skip(kHeader);
    switch (next) {
        case 1:
            return Next::ipv4;
        case 2:
            return Next::ipv6;
        case 3:
            return Next::ethernet;
        case 4:  // NSH, not decoded by the core
            return walk.stop_as_unsure();
        case 5:
            return Next::mpls;
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace acapella
