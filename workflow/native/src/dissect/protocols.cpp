#include "dissect/protocols.hpp"

namespace acapella {
namespace {

Next leaf(Walk& walk, Token token) {
    walk.push(token);
    return Walk::done();
}

Next leaf_with_payload(Walk& walk, Token token) {
    walk.push(token);
    return walk.above();
}

}  // namespace

Next by_protocol(Walk& walk) {
    switch (walk.key) {
        case 0:
            return Next::hop_by_hop;
        case 1:
            return Next::icmp;
        case 2:
            return Next::igmp;
        case 4:
            return Next::ipv4;
        case 6:
            return Next::tcp;
        case 17:
            return Next::udp;
        case 41:
            return Next::ipv6;
        case 43:
            return Next::ipv6_routing;
        case 44:
            return Next::ipv6_fragment;
        case 47:
            return Next::gre;
        case 50:
            return leaf(walk, Token::esp);
        case 51:
            return Next::authentication;
        case 58:
            return Next::icmpv6;
        case 59:
            return walk.above();  // no next header, RFC 8200 4.7
        case 60:
            return Next::destination_options;
        case 88:
            return leaf(walk, Token::eigrp);
        case 89:
            return leaf(walk, Token::ospf);
        case 97:
            return Next::etherip;
        case 103:
            return Next::pim;
        case 108:  // tshark inflates what it carries
            walk.push(Token::ipcomp);
            return walk.unsure();
        case 112:
            return leaf(walk, Token::vrrp);
        case 132:
            return Next::sctp;
        case 136:
            return Next::udplite;
        case 137:
            return Next::mpls;
        case 143:
            return Next::ethernet;
        case 46:
            return leaf(walk, Token::rsvp);
        case 33:
            return leaf_with_payload(walk, Token::dccp);
        // Carriers of layers 2 to 4 that the core does not decode.
        case 29:
        case 48:
        case 53:
        case 54:
        case 55:
        case 80:
        case 93:
        case 94:
        case 106:
        case 115:
        case 139:
        case 140:
            return walk.unsure();
        default:
            return walk.above();
    }
}

}  // namespace acapella
