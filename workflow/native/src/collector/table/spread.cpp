#include "collector/table/spread.hpp"

#include <algorithm>

namespace acapella::collector {

Spread::Spread(std::uint64_t from_ns, const Report& report, std::uint64_t packets, std::uint64_t width_ns)
    : width_ns_(width_ns), packets_(packets), from_ns_(from_ns) {
    const bool known = (report.has & Report::kLast) != 0;
    last_ns_ = std::max(from_ns, known ? report.last : report.timestamp);
    even_ns_ = last_ns_;
    if (!known || packets == 0) return;
    placed_ = 1;
    if (packets == 1 || (report.has & Report::kIat) == 0) return;
    if (report.iat > last_ns_ - from_ns) {  // only one packet was sent: the sketch overestimated the number
        from_ns_ = last_ns_;
        return;
    }
    even_ns_ = last_ns_ - report.iat;
    placed_ = 2;
}

std::uint64_t Spread::before(std::uint64_t window, std::uint64_t amount) const {
    __extension__ using Wide = unsigned __int128;
    if (window <= first()) return 0;
    if (window > last()) return amount;
    const std::uint64_t share = placed_ == 0 ? 0 : amount / packets_;
    const std::uint64_t spread = amount - share * placed_;
    if (window > even()) return spread + (placed_ == 2 ? share : 0);
    const std::uint64_t passed = window * width_ns_ - from_ns_;
    return static_cast<std::uint64_t>(static_cast<Wide>(spread) * passed / (even_ns_ - from_ns_));
}

}  // namespace acapella::collector
