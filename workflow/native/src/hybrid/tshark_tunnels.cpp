#include "hybrid/tshark_tunnels.hpp"

#include <algorithm>

#include "dissect/gre_key.hpp"
#include "frame/tunnels.hpp"
#include "hybrid/field_lists.hpp"

namespace acapella::hybrid {

template <typename Integer>
Integer TunnelWalk::value(Field field, std::size_t index) const {
    return number<Integer>(nth(row_[field], index)).value_or(0);
}

std::size_t TunnelWalk::remaining(Field field, std::size_t used) const {
    const std::size_t total = length(row_[field]);
    return total - std::min(total, used);
}

void TunnelWalk::add(TunnelType type, std::uint32_t id) {
    if (out_.tunnel_count < kMaxTunnels)
        out_.tunnels[out_.tunnel_count++] = {.id = id, .position = position_, .type = type};
}

// A header truncated before its identifier has no value.
void TunnelWalk::add(TunnelType type, Field field, std::size_t index) {
    if (const auto id = number<std::uint32_t>(nth(row_[field], index))) add(type, *id);
}

void TunnelWalk::add_vni(TunnelType type, Field field, std::size_t index, bool valid) {
    outer_key_.enter(out_, labels_);
    if (valid) add(type, field, index);
}

void TunnelWalk::visit(std::string_view token, std::string_view previous, std::size_t position) {
    position_ = static_cast<std::uint16_t>(position);
    if (token == "vxlan") return vxlan();
    if (token == "geneve") return geneve();
    if (token == "gre") return gre();
    if (token == "gtp") return gtp();
    if (token == "l2tp") return l2tp(previous == "udp");
    if (token == "erspan") return erspan();
    if (token == "pppoes") return add(TunnelType::pppoe_session, Field::pppoe_session, pppoe_++);
    if (token == "pppoed") ++pppoe_;
    if (token == "ieee8021ah") return add(TunnelType::pbb_isid, Field::pbb_isid, pbb_++);
}

// Returns the flags of the n-th header whose flags are printed with this number of characters: 0x0800 for
// VXLAN, 0x0c for VXLAN-GPE. tshark's column contains the flags of all headers, but not in the order of the
// headers.
std::uint16_t TunnelWalk::vxlan_flags(std::size_t length, std::size_t index) const {
    for (std::string_view rest = row_[Field::vxlan_flags]; !rest.empty();) {
        const std::string_view text = take(rest, ',');
        if (text.size() == length && index-- == 0) return number<std::uint16_t>(text).value_or(0);
    }
    return 0;
}

void TunnelWalk::vxlan() {
    constexpr std::size_t kSixteenBits = 6;
    const std::uint16_t flags = vxlan_flags(kSixteenBits, vxlan_ - vxlan_gpe_);
    add_vni(TunnelType::vxlan_vni, Field::vxlan_vni, vxlan_++,
            vni::is_vxlan(dst_port_, static_cast<std::uint8_t>(flags >> 8U)));
}

void TunnelWalk::geneve() {
    const auto version = value<std::uint8_t>(Field::geneve_version, geneve_);
    add_vni(TunnelType::geneve_vni, Field::geneve_vni, geneve_++, vni::is_geneve(dst_port_, version));
}

// tshark has no token for VXLAN-GPE and lists its VNIs among those of VXLAN.
void TunnelWalk::udp(std::uint16_t src_port, std::uint16_t dst_port, std::string_view rest,
                     std::size_t position) {
    constexpr std::uint16_t kGpe = vni::kVxlanGpePort;
    dst_port_ = dst_port;
    if ((src_port != kGpe && dst_port != kGpe) || rest.starts_with("vxlan")) return;
    const std::size_t vnis = remaining(Field::vxlan_vni, vxlan_);
    const bool gpe_first = std::min(src_port, dst_port) == kGpe;
    if (vnis == 0 || (!gpe_first && vnis <= tokens_in(rest, "vxlan"))) return;
    position_ = static_cast<std::uint16_t>(position);
    constexpr std::size_t kEightBits = 4;
    const auto flags = static_cast<std::uint8_t>(vxlan_flags(kEightBits, vxlan_gpe_++));
    add_vni(TunnelType::vxlan_gpe_vni, Field::vxlan_vni, vxlan_++, vni::is_vxlan_gpe(dst_port, flags));
}

// tshark reads a single service tag and a following I-TAG as one header.
void TunnelWalk::service_tag(std::string_view text, std::string_view rest, std::size_t position) {
    const bool has_i_tag = text.empty() ? remaining(Field::pbb_isid, pbb_) > tokens_in(rest, "ieee8021ah")
                                        : text.find("I-SID") != std::string_view::npos;
    if (!has_i_tag) return;
    position_ = static_cast<std::uint16_t>(position);
    add(TunnelType::pbb_isid, Field::pbb_isid, pbb_++);
}

void TunnelWalk::gre() {
    const auto flags = value<std::uint16_t>(Field::gre_flags, gre_);
    const auto type = value<std::uint16_t>(Field::gre_proto, gre_);
    ++gre_;
    erspan_has_header_ = (flags & gre::kSequence) != 0 || type == gre::kErspan3;
    if ((flags & gre::kKey) == 0) return;
    if (type == gre::kPptp) return add(TunnelType::pptp_call, Field::gre_call, gre_calls_++);
    const auto key = number<std::uint32_t>(nth(row_[Field::gre_key], gre_keys_++));
    if (!key) return;
    const Tunnel found = gre::key_identifier(flags, type, *key);
    add(found.type, found.id);
    const std::uint8_t flow = gre::flow_id(found.type, *key);
    if (flow != 0) add(TunnelType::nvgre_flow_id, flow);
}

// TEIDs in signaling messages belong to the control plane.
void TunnelWalk::gtp() {
    constexpr unsigned kVersion1 = 1;
    constexpr std::uint8_t kGPdu = 255;
    const auto version = value<std::uint8_t>(Field::gtp_flags, gtp_) >> 5U;
    const auto message = value<std::uint8_t>(Field::gtp_message, gtp_);
    ++gtp_;
    if (version != kVersion1) return;
    if (message == kGPdu) add(TunnelType::gtp_teid, Field::gtp_teid, gtp_teids_);
    ++gtp_teids_;
}

void TunnelWalk::l2tp(bool over_udp) {
    bool control = false;
    if (over_udp) {
        control = value<std::uint8_t>(Field::l2tp_type, l2tp_udp_) != 0;
        const auto version = value<std::uint8_t>(Field::l2tp_version, l2tp_udp_);
        ++l2tp_udp_;
        if (version == 2) {
            if (!control) {
                add(TunnelType::l2tp_tunnel, Field::l2tp_tunnel, l2tp_v2_);
                add(TunnelType::l2tp_session, Field::l2tp_session, l2tp_v2_);
            }
            ++l2tp_v2_;
            return;
        }
    }
    if (control) return;
    const auto session = value<std::uint32_t>(Field::l2tp_sid, l2tp_sids_++);
    if (session != 0) add(TunnelType::l2tp_session, session);
}

void TunnelWalk::erspan() {
    if (erspan_has_header_) add(TunnelType::erspan_session, Field::erspan_session, erspan_++);
}

}  // namespace acapella::hybrid
