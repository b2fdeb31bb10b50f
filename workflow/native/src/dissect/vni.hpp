// Determines which VNIs are part of the key. Only a UDP port indicates these tunnels, and a client may have
// chosen that port as its source port. So a VNI identifies a tunnel only if the datagram is sent to the
// tunnel's port (RFC 7348 section 5, RFC 8926 section 3.3: the source port is a hash of the inner packet, the
// destination port is assigned), the header is valid for a receiver that ignores reserved bits, and a
// complete IP header follows. Otherwise, for example in replies to such a client, no inner header is part of
// the key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frame/dissection.hpp"

namespace acapella::vni {

inline constexpr std::uint16_t kVxlanPort = 4789;
inline constexpr std::uint16_t kVxlanGpePort = 4790;
inline constexpr std::uint16_t kGenevePort = 6081;

// `flags`: the first byte of the header, RFC 7348 section 5.
constexpr bool is_vxlan(std::uint16_t dst_port, std::uint8_t flags) {
    constexpr std::uint8_t kInstance = 0x08;
    return dst_port == kVxlanPort && (flags & kInstance) != 0;
}

// draft-ietf-nvo3-vxlan-gpe section 3.1.
constexpr bool is_vxlan_gpe(std::uint16_t dst_port, std::uint8_t flags) {
    constexpr std::uint8_t kVersionAndInstance = 0x38;
    constexpr std::uint8_t kInstance = 0x08;
    return dst_port == kVxlanGpePort && (flags & kVersionAndInstance) == kInstance;
}

// RFC 8926 section 3.4. The options are not checked: if they do not fit, no IP header can follow them.
constexpr bool is_geneve(std::uint16_t dst_port, std::uint8_t version) {
    return dst_port == kGenevePort && version == 0;
}

// State of the key before the outermost of these tunnels in which no IP header has been found yet.
class OuterKey {
  public:
    // Enters a tunnel. `labels`: number of MPLS labels before it.
    void enter(const Dissection& found, std::size_t labels) {
        if (inside_) return;
        inside_ = true;
        tunnels_ = found.tunnel_count;
        vlans_ = found.vlan_count;
        labels_ = labels;
    }
    void ip_header_found() { inside_ = false; }
    // Removes the identifiers of tunnels without an IP header from the key.
    void restore(Dissection& found) const {
        if (!inside_) return;
        found.tunnel_count = tunnels_;
        found.vlan_count = vlans_;
        if (labels_ < found.label_count) found.label_count = static_cast<std::uint8_t>(labels_);
    }

  private:
    bool inside_ = false;
    std::uint8_t tunnels_ = 0;
    std::uint8_t vlans_ = 0;
    std::size_t labels_ = 0;
};

}  // namespace acapella::vni
