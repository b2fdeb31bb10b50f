#include "dissect/ethertypes.hpp"

#include <algorithm>
#include <iterator>

namespace acapella {
namespace {

// Ethertypes known to tshark 4.0 (`tshark -G decodes`, table ethertype) whose payload contains, or may
// contain, layers 2 to 4 again. For ethertypes that are neither in this list nor in the switch below, tshark
// prints an application or data.
constexpr std::uint16_t kCarriers[] = {
    0x0641, 0x0643, 0x0644, 0x0645, 0x0712, 0x0713, 0x08f0, 0x08ff, 0x0c15, 0x2001, 0x2065, 0x2067, 0x22e5,
    0x22f1, 0x22f3, 0x22f4, 0x2323, 0x2452, 0x4305, 0x4742, 0x6000, 0x8021, 0x8023, 0x8038, 0x8057, 0x8059,
    0x809a, 0x809b, 0x80d5, 0x80fd, 0x80ff, 0x8103, 0x8133, 0x814c, 0x8181, 0x81fd, 0x8204, 0x8207, 0x8281,
    0x872d, 0x8783, 0x880e, 0x886c, 0x8870, 0x8874, 0x8899, 0x889b, 0x88a1, 0x88a9, 0x88b7, 0x88bb, 0x88cd,
    0x88d8, 0x88de, 0x88e5, 0x88f8, 0x88fb, 0x8901, 0x8903, 0x8909, 0x890d, 0x8911, 0x8915, 0x8917, 0x891d,
    0x8926, 0x892d, 0x892f, 0x893f, 0x8940, 0x8942, 0x894f, 0x8988, 0x8ffd, 0x9021, 0x9022, 0x9104, 0x9998,
    0x99fe, 0xa0ed, 0xaaaa, 0xaefe, 0xb4e3, 0xbbbb, 0xc021, 0xc023, 0xc029, 0xc02b, 0xc02d, 0xc0de, 0xc0df,
    0xc223, 0xcafe, 0xd28b, 0xe555, 0xf052, 0xf1c1, 0xfcfc, 0xfff2,
};

bool may_carry_layers(std::uint16_t type) {
    return std::binary_search(std::begin(kCarriers), std::end(kCarriers), type);
}

}  // namespace

Next by_ethertype(Walk& walk) {
    switch (walk.key) {
        case 0x0800:
            return Next::ipv4;
        case 0x86dd:
            return Next::ipv6;
        case 0x8100:
        case 0x9100:
            return Next::vlan;
        case 0x88a8:
            return Next::service_vlan;
        case 0x8847:
        case 0x8848:
            return Next::mpls;
        case 0x88e7:
            return Next::pbb;
        case 0x0806:
        case 0x8035:
            return Next::arp;
        case 0x8864:
            return Next::pppoe_session;
        case 0x8809:
            return Next::slow;
        case 0x6558:
            return Next::ethernet;
        case 0x88cc:
            return walk.leaf(Token::lldp);
        case 0x88f7:
            return Next::ptp;
        case 0x8863:
            return walk.leaf(Token::pppoed);
        case 0x88c7:  // pre-authentication
        case 0x888e:
            return walk.leaf_with_payload(Token::eapol);
        case 0x9000:
            return walk.leaf_with_payload(Token::loop);
        default:
            return walk.at.has(1) && !may_carry_layers(walk.key) ? walk.stop_at_payload()
                                                                 : walk.stop_as_unsure();
    }
}

}  // namespace acapella
