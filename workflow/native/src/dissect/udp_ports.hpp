// UDP ports that affect layers 2 to 4, from tshark 4.0 (`tshark -G decodes`, table udp.port).
#pragma once

#include <cstdint>

#include "dissect/walk.hpp"

namespace acapella {

// Returns the dissector of the tunnel on this port, or Next::stop.
constexpr Next udp_tunnel(std::uint16_t port) {
    switch (port) {
        case 1701:
            return Next::l2tp;
        case 319:
        case 320:
            return Next::ptp;
        case 2123:
        case 2152:
            return Next::gtp;
        case 3544:
            return Next::teredo;
        case 4500:
            return Next::udpencap;
        case 4754:
            return Next::gre;
        case vni::kVxlanPort:
            return Next::vxlan;
        case vni::kVxlanGpePort:
            return Next::vxlan_gpe;
        case 4791:
            return Next::infiniband;
        case vni::kGenevePort:
            return Next::geneve;
        case 6635:
            return Next::mpls;
        case 9899:
            return Next::sctp;
        default:
            return Next::stop;
    }
}

// Returns the issue if the capture ends before the header of a tunnel with an identifier; Issue::none for
// other tunnels.
constexpr Issue udp_tunnel_truncated(Next tunnel) {
    switch (tunnel) {
        case Next::l2tp:
            return Issue::truncated_l2tp;
        case Next::gtp:
            return Issue::truncated_gtp;
        case Next::gre:
            return Issue::truncated_gre;
        case Next::vxlan:
            return Issue::truncated_vxlan;
        case Next::vxlan_gpe:
            return Issue::truncated_vxlan_gpe;
        case Next::geneve:
            return Issue::truncated_geneve;
        default:
            return Issue::none;
    }
}

// Returns true if tshark has a dissector for this port. tshark tries the lower of the two ports first.
bool udp_port_known(std::uint16_t port);

// Returns true if tshark's dissector for this port may find layers 2 to 4 in the payload.
inline bool udp_payload_has_headers(std::uint16_t port, const Cursor& payload) {
    constexpr std::uint8_t kLispEncapsulated = 8;  // RFC 9301 section 4
    constexpr std::uint8_t kCapwapDtls = 0x01;     // RFC 5415 section 4.1
    switch (port) {
        case 4342:
            return payload.u8(0) >> 4 == kLispEncapsulated;
        case 5246:
        case 5247:
            return payload.u8(0) != kCapwapDtls;
        case 434:  // Mobile IP
        case 2157:
        case 19999:  // GPRS-NS
        case 2268:   // AMT
        case 2313:
        case 2887:  // IAPP, WLCCP
        case 3343:  // MS cluster
        case 3455:  // RSVP
        case 4305:  // B.A.T.M.A.N.
        case 4341:  // LISP
        case 4729:  // GSMTAP
        case 5000:  // TAPA
        case 5072:  // AYIYA
        case 5264:
        case 5265:
        case 5436:  // Mobile IPv6
        case 6118:  // TIPC
        case 6343:  // sFlow
        case 8211:  // PAPI
        case 8848:
        case 10253:
        case 12000:
        case 12001:
        case 12002:
        case 12003:
        case 12004:  // LLC
        case 12220:
        case 12222:
        case 12223:  // LWAPP
        case 17220:
        case 17754:
        case 17755:
        case 17756:  // ZEP, SCoP
        case 24576:
        case 24577:  // MiNT
        case 37008:  // TZSP
        case 49999:
            return true;
        default:
            return false;
    }
}

}  // namespace acapella
