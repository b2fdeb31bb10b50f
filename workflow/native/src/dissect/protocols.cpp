#include "dissect/protocols.hpp"

#include <array>

namespace acapella {
namespace {

// What the core does with a protocol number.
enum class How : std::uint8_t {
    above,              // no layer 2 to 4 that the core or tshark decodes: tshark names it as an application
    go,                 // to the dissector `next`
    leaf,               // `token` ends the stack
    leaf_with_payload,  // `token`, and tshark may name what is above
    unsure,             // `token` if there is one; may carry layers 2 to 4 that the core does not decode
};

struct Protocol {
    How how = How::above;
    Next next = Next::stop;
    Token token{};
    bool named = false;  // whether `token` is one
};

constexpr Protocol go(Next next) { return {How::go, next, {}, false}; }
constexpr Protocol named(How how, Token token) { return {how, Next::stop, token, true}; }
constexpr Protocol kCarrier = {How::unsure, Next::stop, {}, false};

struct Numbered {
    std::uint8_t number;
    Protocol protocol;
};

// IANA's protocol numbers; of those that are not here (and of 59, no next header, RFC 8200 4.7) nothing is
// known.
constexpr Numbered kNumbered[] = {
    {0, go(Next::hop_by_hop)},
    {1, go(Next::icmp)},
    {2, go(Next::igmp)},
    {4, go(Next::ipv4)},
    {6, go(Next::tcp)},
    {17, go(Next::udp)},
    {29, kCarrier},
    {33, named(How::leaf_with_payload, Token::dccp)},
    {41, go(Next::ipv6)},
    {43, go(Next::ipv6_routing)},
    {44, go(Next::ipv6_fragment)},
    {46, named(How::leaf, Token::rsvp)},
    {47, go(Next::gre)},
    {48, kCarrier},
    {50, named(How::leaf, Token::esp)},
    {51, go(Next::authentication)},
    {53, kCarrier},
    {54, kCarrier},
    {55, kCarrier},
    {58, go(Next::icmpv6)},
    {60, go(Next::destination_options)},
    {80, kCarrier},
    {88, named(How::leaf, Token::eigrp)},
    {89, named(How::leaf, Token::ospf)},
    {93, kCarrier},
    {94, kCarrier},
    {97, go(Next::etherip)},
    {103, go(Next::pim)},
    {106, kCarrier},
    {108, named(How::unsure, Token::ipcomp)},  // tshark inflates what it carries
    {112, named(How::leaf, Token::vrrp)},
    {115, go(Next::l2tp_ip)},
    {132, go(Next::sctp)},
    {136, go(Next::udplite)},
    {137, go(Next::mpls)},
    {139, kCarrier},
    {140, kCarrier},
    {143, go(Next::ethernet)},
};

constexpr auto kProtocols = [] {
    std::array<Protocol, 256> all{};
    for (const Numbered& one : kNumbered) all[one.number] = one.protocol;
    return all;
}();

}  // namespace

Next by_protocol(Walk& walk) {
    const Protocol& protocol = kProtocols[walk.key & 0xffU];
    if (protocol.how == How::go) return protocol.next;
    if (protocol.named) walk.push(protocol.token);
    switch (protocol.how) {
        case How::leaf:
            if (walk.quoted) walk.out.sure = false;  // tshark takes it back where the quote ends inside it
            return Walk::done();
        case How::unsure:
            return walk.unsure();
        default:
            return walk.above();
    }
}

}  // namespace acapella
