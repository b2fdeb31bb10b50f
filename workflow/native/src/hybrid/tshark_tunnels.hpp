// Reads tunnel identifiers from tshark's fields: the n-th header of a kind has the n-th value of its field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dissect/vni.hpp"
#include "frame/dissection.hpp"
#include "hybrid/tshark_output.hpp"

namespace acapella::hybrid {

class TunnelWalk {
  public:
    TunnelWalk(const TsharkRow& tshark_row, Dissection& out) : row_(tshark_row), out_(out) {}

    // Processes the next token of frame.protocols. `previous`: the previous token; `position`: position of
    // the header.
    void visit(std::string_view token, std::string_view previous, std::size_t position);
    // Processes a UDP header with these ports. Here and below, `rest` contains the tokens after it.
    void udp(std::uint16_t src_port, std::uint16_t dst_port, std::string_view rest, std::size_t position);
    // Processes a single service tag. `text`: the text of the header, empty if unknown.
    void service_tag(std::string_view text, std::string_view rest, std::size_t position);

    // Counts the labels of the next MPLS stack.
    void labels(std::size_t count) { labels_ += count; }
    void ip_header_found() { outer_key_.ip_header_found(); }
    // Call after the last header.
    void finish() { outer_key_.restore(out_); }

  private:
    std::uint16_t vxlan_flags(std::size_t length, std::size_t index) const;
    void vxlan();
    void geneve();
    void gre();
    void gtp();
    void l2tp(bool over_udp);
    void erspan();
    void add(TunnelType type, Field field, std::size_t index);
    void add_vni(TunnelType type, Field field, std::size_t index, bool valid);
    void add(TunnelType type, std::uint32_t id);
    template <typename Integer>
    Integer value(Field field, std::size_t index) const;
    // Number of values of `field` not yet assigned to a header.
    std::size_t remaining(Field field, std::size_t used) const;

    const TsharkRow& row_;
    Dissection& out_;
    std::uint16_t position_ = 0;
    std::uint16_t dst_port_ = 0;  // of the innermost UDP header
    std::size_t labels_ = 0;
    vni::OuterKey outer_key_;
    std::size_t vxlan_ = 0, vxlan_gpe_ = 0, geneve_ = 0, gre_ = 0, gre_keys_ = 0, gre_calls_ = 0, gtp_ = 0,
                gtp_teids_ = 0;
    std::size_t l2tp_udp_ = 0, l2tp_v2_ = 0, l2tp_sids_ = 0, pppoe_ = 0, pbb_ = 0, erspan_ = 0;
    bool erspan_has_header_ = false;
};

}  // namespace acapella::hybrid
