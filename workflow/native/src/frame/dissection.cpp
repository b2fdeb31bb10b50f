#include "frame/dissection.hpp"

#include "frame/issue.hpp"

namespace acapella {

void Dissection::reset() {
    token_count = vlan_count = label_count = tunnel_count = 0;
    sure = true;
    payload_undecoded = false;
    issue = Issue::none;
    inner_wire_len = 0;
    ip_version = ip_proto = 0;
    later_fragment = has_ip_id = has_ports = has_payload_len = has_tcp = false;
    ip_len = payload_len = 0;
    payload = pseudowire_frame = {};
    network = link_payload = {};
    pseudowire_tokens = 0;
}

}  // namespace acapella
