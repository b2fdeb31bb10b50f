// VXLAN, RFC 7348.
#include "dissect/dissectors.hpp"

namespace acapella {

Next dissect_vxlan(Walk& walk) {
    walk.push(Token::vxlan);
    if (!walk.at.has(8)) return walk.cut(Issue::truncated_vxlan);
    walk.at.skip(8);
    return Next::ethernet;
}

}  // namespace acapella
