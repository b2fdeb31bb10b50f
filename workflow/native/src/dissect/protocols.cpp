#include "dissect/protocols.hpp"

#include <array>

namespace acapella {
namespace {

// Action for a protocol number.
enum class Action : std::uint8_t {
    payload,            // payload without layers 2 to 4; tshark decodes it as an application
    dissect_with,       // continue with the dissector `next`
    leaf,               // `token` ends the stack
    leaf_with_payload,  // `token`, followed by payload that tshark may decode
    unsure,             // `token` if there is one; may carry layers 2 to 4 that the core does not decode
};

struct Protocol {
    Action action = Action::payload;
    Next next = Next::stop;
    Token token{};
    bool has_token = false;  // true if `token` is valid
};

constexpr Protocol dissect_with(Next next) { return {Action::dissect_with, next, {}, false}; }
constexpr Protocol end_with(Action action, Token token) { return {action, Next::stop, token, true}; }
constexpr Protocol kUndecodedCarrier = {Action::unsure, Next::stop, {}, false};

struct NumberedProtocol {
    std::uint8_t number;
    Protocol protocol;
};

// Protocol numbers assigned by IANA. All others, and 59 (no next header, RFC 8200 section 4.7), are payload.
constexpr NumberedProtocol kNumberedProtocols[] = {
    {0, dissect_with(Next::hop_by_hop)},
    {1, dissect_with(Next::icmp)},
    {2, dissect_with(Next::igmp)},
    {4, dissect_with(Next::ipv4)},
    {6, dissect_with(Next::tcp)},
    {17, dissect_with(Next::udp)},
    {29, kUndecodedCarrier},
    {33, end_with(Action::leaf_with_payload, Token::dccp)},
    {41, dissect_with(Next::ipv6)},
    {43, dissect_with(Next::ipv6_routing)},
    {44, dissect_with(Next::ipv6_fragment)},
    {46, end_with(Action::leaf, Token::rsvp)},
    {47, dissect_with(Next::gre)},
    {48, kUndecodedCarrier},
    {50, end_with(Action::leaf, Token::esp)},
    {51, dissect_with(Next::authentication)},
    {53, kUndecodedCarrier},
    {54, kUndecodedCarrier},
    {55, kUndecodedCarrier},
    {58, dissect_with(Next::icmpv6)},
    {60, dissect_with(Next::destination_options)},
    {80, kUndecodedCarrier},
    {88, end_with(Action::leaf, Token::eigrp)},
    {89, end_with(Action::leaf, Token::ospf)},
    {93, kUndecodedCarrier},
    {94, kUndecodedCarrier},
    {97, dissect_with(Next::etherip)},
    {103, dissect_with(Next::pim)},
    {106, kUndecodedCarrier},
    {108, end_with(Action::unsure, Token::ipcomp)},  // tshark decompresses its payload
    {112, end_with(Action::leaf, Token::vrrp)},
    {115, dissect_with(Next::l2tp_ip)},
    {132, dissect_with(Next::sctp)},
    {136, dissect_with(Next::udplite)},
    {137, dissect_with(Next::mpls)},
    {139, kUndecodedCarrier},
    {140, kUndecodedCarrier},
    {143, dissect_with(Next::ethernet)},
};

constexpr auto kProtocols = [] {
    std::array<Protocol, 256> by_number{};
    for (const NumberedProtocol& numbered : kNumberedProtocols)
        by_number[numbered.number] = numbered.protocol;
    return by_number;
}();

}  // namespace

Next by_protocol(Walk& walk) {
    const Protocol& protocol = kProtocols[walk.key & 0xffU];
    if (protocol.action == Action::dissect_with) return protocol.next;
    if (protocol.has_token) walk.push(protocol.token);
    switch (protocol.action) {
        case Action::leaf:
            if (walk.quoted) walk.out.sure = false;  // tshark removes the token of a truncated header
            return Walk::stop();
        case Action::unsure:
            return walk.stop_as_unsure();
        default:
            return walk.stop_at_payload();
    }
}

}  // namespace acapella
