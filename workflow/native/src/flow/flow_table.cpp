#include "flow/flow_table.hpp"

#include <algorithm>

namespace acapella {
namespace {

// Limits of the stored ranges per flow; the lowest ranges are dropped first. The second limit applies once
// all flows together have kManyRanges. TCP rarely retransmits data older than the stored ranges, and only
// such retransmissions are missed.
constexpr std::size_t kRangesPerFlow = 4096;
constexpr std::size_t kRangesPerFlowWhenMany = 4;
constexpr std::uint64_t kManyRanges = 1 << 20;

// Indices of these counters among the counters with carries.
constexpr std::size_t kDuplicateAcks = kFlagCounts;
constexpr std::size_t kRetransmittedBytes = kFlagCounts + 1;

// Returns the 64-bit position nearest to `near` for a sequence number.
std::uint64_t unwrap(std::uint32_t seq, std::uint64_t near) {
    const auto distance = static_cast<std::int32_t>(seq - static_cast<std::uint32_t>(near));
    return near + static_cast<std::uint64_t>(static_cast<std::int64_t>(distance));
}

}  // namespace

std::uint32_t FlowTable::add(const FrameRow& row, std::uint32_t stack, const FrameApplication& application) {
    if (row.key == kNone) return kNone;
    const std::uint32_t number = number_of(row, stack);
    FlowState& flow = flows_[number];
    if (row.has(FrameRow::kUntimed)) [[unlikely]]
        ++untimed_[number];
    else
        add_time(flow, number, row.ts_ns);
    add_stack(flow, stack);
    ++flow.frames;
    flow.wire_bytes += row.wire_len;
    flow.ip_bytes += row.ip_len;
    if (row.has(FrameRow::kHasPayloadLen)) flow.payload_bytes += row.payload_len;
    flow.wire_len_min = std::min(flow.wire_len_min, row.wire_len);
    flow.wire_len_max = std::max(flow.wire_len_max, row.wire_len);
    if (!application.tokens.empty()) add_applications(flow, application);
    if (row.has(FrameRow::kHasTcp)) add_tcp(flow, number, row);
    return number;
}

namespace {

template <typename Cell>
void prefetch(const Cell& cell) {
    for (std::size_t at = 0; at < sizeof cell; at += 64)
        __builtin_prefetch(reinterpret_cast<const std::byte*>(&cell) + at, 1);
}

}  // namespace

void FlowTable::prefetch_flow(std::uint32_t key) const {
    if (key < number_of_key_.size() && number_of_key_[key] != kNone) prefetch(flows_[number_of_key_[key]]);
}

void FlowTable::prefetch_tcp(std::uint32_t key) const {
    if (key >= number_of_key_.size() || number_of_key_[key] == kNone) return;
    const std::uint32_t tcp_row = flows_[number_of_key_[key]].tcp;
    if (tcp_row != kNone) prefetch(tcp_[tcp_row]);
}

std::uint32_t FlowTable::number_of(const FrameRow& row, std::uint32_t stack) {
    if (row.key >= number_of_key_.size()) number_of_key_.resize(row.key + 1, kNone);
    std::uint32_t& number = number_of_key_[row.key];
    if (number != kNone) return number;
    FlowState flow{.first_ns = row.ts_ns, .previous_ns = row.ts_ns, .run_stack = stack, .key = row.key};
    flow.starts_with_syn = row.has(FrameRow::kHasTcp) && (row.tcp_flags & kSyn) != 0;
    number = flows_.add(flow);
    peers_.add(number, [this](std::uint32_t other) { return key_of(other); });
    return number;
}

std::uint64_t FlowTable::untimed(std::uint32_t number) const {
    if (untimed_.empty()) return 0;
    const auto found = untimed_.find(number);
    return found == untimed_.end() ? 0 : found->second;
}

std::uint64_t FlowTable::timed_frames(std::uint32_t number) const {
    return flows_[number].frames - untimed(number);
}

void FlowTable::add_time(FlowState& flow, std::uint32_t number, std::int64_t ts_ns) {
    if (flow.frames == untimed(number)) {
        flow.first_ns = flow.previous_ns = ts_ns;
        return;
    }
    const std::int64_t iat = saturating_difference(ts_ns, flow.previous_ns);
    flow.iat_min_ns = std::min(flow.iat_min_ns, iat);
    flow.iat_max_ns = std::max(flow.iat_max_ns, iat);
    const UInt128 size = iat < 0 ? -static_cast<UInt128>(iat) : static_cast<UInt128>(iat);
    UInt128 squares = 0;
    const bool too_many = __builtin_add_overflow(flow.iat_squares.value(), size * size, &squares);
    flow.iat_squares = PackedUInt128(too_many ? ~UInt128{0} : squares);
    if (iat < 0 || flow.time_went_back) {
        widen_times(number, flow, ts_ns);
        flow.time_went_back = true;
    }
    flow.previous_ns = ts_ns;
}

void FlowTable::widen_times(std::uint32_t number, const FlowState& flow, std::int64_t ts_ns) {
    auto& [first, last] = times_.try_emplace(number, flow.first_ns, flow.previous_ns).first->second;
    first = std::min(first, ts_ns);
    last = std::max(last, ts_ns);
}

void FlowTable::add_stack(FlowState& flow, std::uint32_t stack) {
    if (stack == flow.run_stack || flow.runs_cut) return;
    counts_.add_run(flow.counts, {flow.run_stack, flow.frames - flow.run_start});
    if (flow.runs == kMaxRuns) {  // the 16th run ends here; later frames are counted in `frames` only
        flow.runs_cut = true;
        return;
    }
    flow.run_stack = stack;
    flow.run_start = flow.frames & kMaxFrames;
    ++flow.runs;
}

void FlowTable::add_applications(FlowState& flow, const FrameApplication& application) {
    if (application.carried_over) flow.application_carried_over = true;
    for (const std::uint32_t token : application.tokens) counts_.count_application(flow.counts, token);
}

void FlowTable::count_flags(TcpState& tcp, std::uint32_t number, std::uint16_t flags) {
    const auto count_if = [&](bool set, FlagCount flag) {
        const auto i = static_cast<std::size_t>(flag);
        if (set) count(tcp.flags[i], number, i);
    };
    count_if((flags & kAck) != 0, FlagCount::kAck);
    count_if((flags & kPsh) != 0, FlagCount::kPsh);
    if ((flags & ~(kAck | kPsh)) == 0) return;
    count_if((flags & kSyn) != 0, FlagCount::kSyn);
    count_if((flags & kSyn) != 0 && (flags & kAck) != 0, FlagCount::kSynAck);
    count_if((flags & kFin) != 0, FlagCount::kFin);
    count_if((flags & kRst) != 0, FlagCount::kRst);
    count_if((flags & kUrg) != 0, FlagCount::kUrg);
    count_if((flags & kEce) != 0, FlagCount::kEce);
    count_if((flags & kCwr) != 0, FlagCount::kCwr);
}

void FlowTable::add_tcp(FlowState& flow, std::uint32_t number, const FrameRow& row) {
    if (flow.tcp == kNone) flow.tcp = tcp_.add({});
    TcpState& tcp = tcp_[flow.tcp];
    count_flags(tcp, number, row.tcp_flags);
    if ((row.tcp_flags & kSyn) != 0) {
        if ((row.tcp_flags & kAck) != 0) {
            tcp.syn_ack_seq = row.tcp_seq;
            tcp.syn_ack_ack = row.tcp_ack;
        } else {
            tcp.syn_seq = row.tcp_seq;
            tcp.syn_ns = row.ts_ns;
        }
    }
    if ((row.tcp_flags & kAck) != 0) add_ack(tcp, number, row);
    add_sequence(tcp, number, row);
}

void FlowTable::add_sequence(TcpState& tcp, std::uint32_t number, const FrameRow& row) {
    // Start at 2^32, so that positions before the first frame are not negative.
    if (tcp.next == 0) tcp.next = (std::uint64_t{1} << 32) + row.tcp_seq;
    const std::uint64_t at = unwrap(row.tcp_seq, tcp.next);
    const std::uint64_t payload = row.has(FrameRow::kHasPayloadLen) ? row.payload_len : 0;
    const std::uint64_t begin =
        at + ((row.tcp_flags & kSyn) != 0 ? 1 : 0);  // RFC 9293 section 3.4: SYN precedes the data
    if (payload > 0) add_payload(tcp, number, {begin, begin + payload});
    tcp.next = std::max(tcp.next, begin + payload + ((row.tcp_flags & kFin) != 0 ? 1 : 0));
}

void FlowTable::add_payload(TcpState& tcp, std::uint32_t number, Range range) {
    const bool has_older = tcp.older != TcpState::kNoOlder;
    const std::size_t old_count = has_older ? older_ranges_[tcp.older].size() : 0;
    const std::uint64_t seen = add_range(range, tcp.newest, has_older, [&]() -> OlderRanges& {
        if (tcp.older == TcpState::kNoOlder) {
            tcp.older = older_ranges_.add({}) & TcpState::kNoOlder;
        }
        return older_ranges_[tcp.older];
    });
    count(tcp.retransmitted_bytes, number, kRetransmittedBytes, static_cast<std::uint32_t>(seen));
    if (tcp.older == TcpState::kNoOlder) return;
    older_ranges_total_ += older_ranges_[tcp.older].size() - old_count;
    limit_ranges(older_ranges_[tcp.older]);
}

void FlowTable::limit_ranges(OlderRanges& list) {
    const std::size_t bound = older_ranges_total_ < kManyRanges ? kRangesPerFlow : kRangesPerFlowWhenMany;
    while (list.size() > bound) {
        list.pop_first();
        --older_ranges_total_;
        ++ranges_forgotten_;
    }
}

const TcpState* FlowTable::update_peer(TcpState& tcp, std::uint32_t number) {
    const std::uint32_t peer_number = peer(number);
    if (peer_number != tcp.peer) {
        tcp.peer = peer_number;
        tcp.duplicate_acks = 0;
        tcp.round_trip_ns = TcpState::kNoRoundTrip;
        carries_.erase((std::uint64_t{number} << 8) | kDuplicateAcks);
    }
    if (peer_number == kNone || flows_[peer_number].tcp == kNone) return nullptr;
    return &tcp_[flows_[peer_number].tcp];
}

void FlowTable::add_ack(TcpState& tcp, std::uint32_t number, const FrameRow& row) {
    // RFC 5681 section 2: (b) no data, (c) neither SYN nor FIN, (d) the greatest acknowledgment so far, (e)
    // the same window as in the previous acknowledgment, and (a) outstanding data, that is, the peer sent
    // data that is not acknowledged.
    const bool no_data = row.has(FrameRow::kHasPayloadLen) && row.payload_len == 0;
    if (no_data && tcp.has_ack && row.tcp_ack == tcp.highest_ack && row.tcp_window == tcp.last_window &&
        (row.tcp_flags & (kSyn | kFin)) == 0) {
        const TcpState* other = update_peer(tcp, number);
        if (other != nullptr &&
            static_cast<std::int32_t>(static_cast<std::uint32_t>(other->next) - row.tcp_ack) > 0)
            count(tcp.duplicate_acks, number, kDuplicateAcks);
    }
    if (tcp.count(FlagCount::kSyn) != tcp.count(FlagCount::kSynAck) && (row.tcp_flags & kSyn) == 0 &&
        row.tcp_seq == tcp.syn_seq + 1)
        add_handshake(tcp, number, row);
    if (!tcp.has_ack || static_cast<std::int32_t>(row.tcp_ack - tcp.highest_ack) > 0)
        tcp.highest_ack = row.tcp_ack;
    tcp.has_ack = true;
    tcp.last_window = row.tcp_window;
}

// Handles the third step of the handshake (RFC 9293 section 3.5, figure 6): the ACK of the peer's SYN/ACK,
// which acknowledged this SYN.
void FlowTable::add_handshake(TcpState& tcp, std::uint32_t number, const FrameRow& row) {
    const TcpState* other = update_peer(tcp, number);
    if (other == nullptr || tcp.round_trip_ns != TcpState::kNoRoundTrip ||
        other->count(FlagCount::kSynAck) == 0)
        return;
    if (other->syn_ack_ack != tcp.syn_seq + 1 || row.tcp_ack != other->syn_ack_seq + 1) return;
    const std::int64_t round_trip_ns = saturating_difference(row.ts_ns, tcp.syn_ns);
    const bool is_long = round_trip_ns < 0 || round_trip_ns >= TcpState::kLongRoundTrip;
    tcp.round_trip_ns = is_long ? TcpState::kLongRoundTrip : static_cast<std::uint32_t>(round_trip_ns);
    if (is_long) long_round_trips_[number] = round_trip_ns;
}

const TcpState* FlowTable::tcp(std::uint32_t number) const {
    const std::uint32_t row = flows_[number].tcp;
    return row == kNone ? nullptr : &tcp_[row];
}

std::uint32_t FlowTable::peer(std::uint32_t number) const {
    return peers_.peer(number, [this](std::uint32_t flow) { return key_of(flow); });
}

std::uint32_t FlowTable::peer_candidates(std::uint32_t number) const {
    return peers_.candidates(key_of(number), [this](std::uint32_t flow) { return key_of(flow); });
}

std::uint64_t FlowTable::peers_ambiguous() const {
    std::uint64_t count = 0;
    for (std::uint32_t number = 0; number < size(); ++number)
        count += peer_candidates(number) > 0 && peer(number) == kNone;
    return count;
}

std::uint64_t FlowTable::carried(std::uint32_t number, std::size_t counter) const {
    const auto found = carries_.find((std::uint64_t{number} << 8) | counter);
    return found == carries_.end() ? 0 : found->second;
}

std::uint64_t FlowTable::flag_count(std::uint32_t number, FlagCount flag) const {
    return (carried(number, static_cast<std::size_t>(flag)) << 16) + tcp(number)->count(flag);
}

std::uint64_t FlowTable::retransmitted_bytes(std::uint32_t number) const {
    return (carried(number, kRetransmittedBytes) << 32) + tcp(number)->retransmitted_bytes;
}

std::optional<std::uint64_t> FlowTable::duplicate_acks(std::uint32_t number) const {
    const std::uint32_t other = peer(number);
    if (other == kNone || tcp(number) == nullptr) return std::nullopt;
    if (tcp(number)->peer != other) return 0;  // no frame of this flow was compared with this peer
    return (carried(number, kDuplicateAcks) << 32) + tcp(number)->duplicate_acks;
}

std::optional<std::int64_t> FlowTable::handshake_rtt_ns(std::uint32_t number) const {
    const std::uint32_t other = peer(number);
    const TcpState* own = tcp(number);
    if (other == kNone || own == nullptr || own->peer != other) return std::nullopt;
    if (untimed(number) > 0) return std::nullopt;  // its SYN or ACK may be one of them
    if (own->round_trip_ns == TcpState::kNoRoundTrip) return std::nullopt;
    const bool syn_once = flag_count(number, FlagCount::kSyn) - flag_count(number, FlagCount::kSynAck) == 1;
    const bool syn_ack_once = flag_count(other, FlagCount::kSynAck) == 1;
    if (!syn_once || !syn_ack_once) return std::nullopt;
    return own->round_trip_ns == TcpState::kLongRoundTrip ? long_round_trips_.at(number) : own->round_trip_ns;
}

std::pair<std::int64_t, std::int64_t> FlowTable::first_and_last_ns(std::uint32_t number) const {
    const auto found = times_.find(number);
    return found != times_.end() ? found->second
                                 : std::pair(flows_[number].first_ns, flows_[number].previous_ns);
}

bool FlowTable::is_closed(std::uint32_t number) const {
    const auto closed = [this](std::uint32_t flow) {
        return flow != kNone && tcp(flow) != nullptr &&
               flag_count(flow, FlagCount::kFin) + flag_count(flow, FlagCount::kRst) > 0;
    };
    return closed(number) || closed(peer(number));
}

std::vector<StackRun> FlowTable::runs(std::uint32_t number) const {
    const FlowState& flow = flows_[number];
    std::vector<StackRun> runs = counts_.runs(flow.counts);
    std::ranges::reverse(runs);
    if (!flow.runs_cut) runs.push_back({flow.run_stack, flow.frames - flow.run_start});
    return runs;
}

std::vector<std::pair<std::uint32_t, std::uint64_t>> FlowTable::applications(std::uint32_t number) const {
    return counts_.applications(flows_[number].counts);
}

}  // namespace acapella
