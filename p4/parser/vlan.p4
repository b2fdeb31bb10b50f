// VLAN tags after an Ethernet header (IEEE 802.1Q, 802.1ad): LEVEL is outer or inner, MPLS the state of a label stack.
// meta.type: the EtherType that ends at meta.parsed.
#define NUMBER 0
#define TAG 1
#define HEADER vlan_1
#include "vlan_tag.p4"
#undef HEADER
#undef TAG
#undef NUMBER

#define NUMBER 1
#define TAG 2
#define HEADER vlan_2
#include "vlan_tag.p4"
#undef HEADER
#undef TAG
#undef NUMBER

#define NUMBER 2
#define TAG 3
#define HEADER vlan_3
#include "vlan_tag.p4"
#undef HEADER
#undef TAG
#undef NUMBER

#define NUMBER 3
#define TAG 4
#define HEADER vlan_4
#include "vlan_tag.p4"
#undef HEADER
#undef TAG
#undef NUMBER

    state JOIN(LEVEL, type_4) {
        transition select(meta.type) {
            0x8100: too_deep;
            0x88a8: too_deep;
            0x9100: too_deep;
            0x0800: outer_ipv4_or_6;
            0x86dd: outer_ipv6_only;
            0x8847: MPLS;
            0x8848: MPLS;
            default: other;
        }
    }
