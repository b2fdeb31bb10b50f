#include "collector/table/report_columns.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "columns/key_columns.hpp"

namespace acapella::collector {
namespace {

constexpr std::uint8_t kIcmp = 1;
constexpr std::uint8_t kTcp = 6;
constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kIcmp6 = 58;
constexpr std::uint8_t kSctp = 132;

template <typename T>
std::optional<T> known(bool is_known, T value) {
    return is_known ? std::optional<T>(value) : std::nullopt;
}

std::optional<double> ratio(bool is_known, std::uint64_t part, std::uint64_t total) {
    return known(is_known && total > 0, static_cast<double>(part) / static_cast<double>(total));
}

bool is_icmp(const ReportKey& key) { return key.ip_proto == kIcmp || key.ip_proto == kIcmp6; }

// In a report, fragments after the first have port numbers 0.
bool has_ports(const ReportKey& key) {
    const bool carries = key.ip_proto == kTcp || key.ip_proto == kUdp || key.ip_proto == kSctp;
    return carries && (key.be_src_port != 0 || key.be_dst_port != 0);
}

Endpoints endpoints_of(const ReportKey& key) {
    Endpoints key_endpoints;
    const std::size_t width = key.ip_version == 4 ? 4 : 16;
    std::copy(key.src.end() - width, key.src.end(), key_endpoints.src.begin());
    std::copy(key.dst.end() - width, key.dst.end(), key_endpoints.dst.begin());
    key_endpoints.ip_version = key.ip_version;
    key_endpoints.ip_proto = key.ip_proto;
    key_endpoints.has_ports = has_ports(key);
    if (key_endpoints.has_ports) {
        key_endpoints.src_port = key.src_port();
        key_endpoints.dst_port = key.dst_port();
    }
    return key_endpoints;
}

struct KeyColumns {
    Strings flow_id;
    TagLists tags;
    Booleans tags_cut;
    EndpointColumns endpoints;
    NullableValues<std::uint8_t> icmp_type, icmp_code;
    NullableValues<std::uint16_t> icmp_id;

    void add(const FlowSnapshot& flow, std::string_view site);
    void columns(std::vector<Column>& out) const;
};

void KeyColumns::add(const FlowSnapshot& flow, std::string_view site) {
    const ReportKey& key = flow.key;
    const Endpoints key_endpoints = endpoints_of(key);
    std::array<std::uint16_t, ReportKey::kTags> ids{};
    std::array<std::uint32_t, ReportKey::kTags> stack{};
    for (std::size_t i = 0; i < key.vlan_count; ++i) ids[i] = key.vlan(i);
    for (std::size_t i = 0; i < key.mpls_count; ++i) stack[i] = key.label(i);
    const TagsView view{{ids.data(), key.vlan_count}, {stack.data(), key.mpls_count}};
    flow_id.add(hex_text(flow_id_of(key_endpoints, view, site)));
    tags.add(view);
    tags_cut.add(flow.state.has(FlowState::kTagsCut));
    endpoints.add(key_endpoints);
    icmp_type.add(known(is_icmp(key), static_cast<std::uint8_t>(key.src_port() >> 8)));
    icmp_code.add(known(is_icmp(key), static_cast<std::uint8_t>(key.src_port())));
    icmp_id.add(known(is_icmp(key), key.dst_port()));
}

void KeyColumns::columns(std::vector<Column>& out) const {
    out.push_back(flow_id.column("flow_id"));
    tags.columns(out);
    out.push_back(tags_cut.column("tags_cut"));
    endpoints.columns(out);
    out.push_back(icmp_type.column("icmp_type"));
    out.push_back(icmp_code.column("icmp_code"));
    out.push_back(icmp_id.column("icmp_id"));
}

using NullableUint64 = NullableValues<std::uint64_t>;

struct FlowReportColumns {
    Values<std::uint32_t> flow, reports, older_reports, epochs;
    KeyColumns key;
    NullableValues<std::int64_t> start_ns, end_ns, duration_ns;
    Booleans ended;
    NullableValues<std::int64_t> rtt_syn_ns, rtt_ack_ns, handshake_rtt_ns, iat_ns;
    Values<std::int64_t> first_ns, last_ns;
    Values<std::uint64_t> bytes, packets;
    NullableValues<double> packet_size_mean, retransmitted_share, gap_share;
    NullableValues<std::uint32_t> bytes_in_flight;
    NullableUint64 throughput_bps, acknowledged_bytes, payload_bytes, retransmitted_bytes, gap_bytes,
        duplicate_acks;
    NullableUint64 uncertain_bytes;
    NullableBooleans partly_followed;

    void add(const FlowSnapshot& flow, std::string_view site);
    Column columns() const;

  private:
    void add_times(const FlowState& state);
    void add_tcp(const FlowState& state);
};

std::int64_t signed_ns(std::uint64_t value) { return static_cast<std::int64_t>(value); }

void FlowReportColumns::add(const FlowSnapshot& copy, std::string_view site) {
    const FlowState& state = copy.state;
    flow.add(state.number);
    key.add(copy, site);
    add_times(state);
    bytes.add(state.bytes());
    packets.add(state.packets());
    packet_size_mean.add(ratio(true, state.bytes(), state.packets()));
    add_tcp(state);
    reports.add(state.reports);
    older_reports.add(state.older_reports);
    epochs.add(state.epochs);
}

void FlowReportColumns::add_times(const FlowState& state) {
    const bool start = state.has(FlowState::kStart);
    const bool end = state.has(FlowState::kLast) || state.has(FlowState::kEnd);
    const bool syn = state.has(FlowState::kRttSyn);
    const bool ack = state.has(FlowState::kRttAck);
    start_ns.add(known(start, signed_ns(state.start_ns)));
    end_ns.add(known(end, signed_ns(state.end_ns)));
    ended.add(state.has(FlowState::kEnd));
    duration_ns.add(known(start && end, signed_ns(state.end_ns - state.start_ns)));
    first_ns.add(signed_ns(state.first_ns));
    last_ns.add(signed_ns(state.timestamp));
    rtt_syn_ns.add(known(syn, signed_ns(state.rtt_syn_ns)));
    rtt_ack_ns.add(known(ack, signed_ns(state.rtt_ack_ns)));
    handshake_rtt_ns.add(known(syn && ack, signed_ns(state.rtt_syn_ns + state.rtt_ack_ns)));
    iat_ns.add(known(state.has(FlowState::kIat), signed_ns(state.iat_ns)));
    const std::uint64_t from = state.from_ns(), until = state.until_ns();
    throughput_bps.add(until > from ? rate_bps(state.bytes(), until - from) : std::nullopt);
}

void FlowReportColumns::add_tcp(const FlowState& state) {
    const bool slot = state.has(FlowState::kSlot);
    bytes_in_flight.add(known(state.knows_flight(), state.seq - state.ack));
    acknowledged_bytes.add(known(state.knows_acked(), state.acked_bytes));
    payload_bytes.add(known(slot, state.payload_bytes));
    retransmitted_bytes.add(known(slot, state.retransmitted_bytes));
    gap_bytes.add(known(slot, state.gap_bytes));
    const bool bounded = slot && state.has(FlowState::kUncertain) && !state.has(FlowState::kUnfollowed);
    uncertain_bytes.add(known(bounded, state.uncertain_bytes));
    partly_followed.add(known(slot, state.has(FlowState::kUnfollowed)));
    duplicate_acks.add(known(slot, std::uint64_t{state.duplicate_acks}));
    retransmitted_share.add(ratio(slot, state.retransmitted_bytes, state.payload_bytes));
    gap_share.add(ratio(slot, state.gap_bytes, state.payload_bytes + state.gap_bytes));
}

Column root_of(std::size_t rows) {
    return {.name = "", .format = "+s", .length = static_cast<std::int64_t>(rows), .buffers = {nullptr}};
}

Column FlowReportColumns::columns() const {
    Column root = root_of(flow.size());
    auto& children = root.children;
    children.push_back(flow.column("flow"));
    key.columns(children);
    children.push_back(start_ns.column("start_ns"));
    children.push_back(end_ns.column("end_ns"));
    children.push_back(ended.column("ended"));
    children.push_back(duration_ns.column("duration_ns"));
    children.push_back(first_ns.column("first_ns"));
    children.push_back(last_ns.column("last_ns"));
    children.push_back(bytes.column("bytes"));
    children.push_back(packets.column("packets"));
    children.push_back(packet_size_mean.column("packet_size_mean"));
    children.push_back(throughput_bps.column("throughput_bps"));
    children.push_back(rtt_syn_ns.column("rtt_syn_ns"));
    children.push_back(rtt_ack_ns.column("rtt_ack_ns"));
    children.push_back(handshake_rtt_ns.column("handshake_rtt_ns"));
    children.push_back(iat_ns.column("iat_ns"));
    children.push_back(bytes_in_flight.column("bytes_in_flight"));
    children.push_back(acknowledged_bytes.column("acknowledged_bytes"));
    children.push_back(payload_bytes.column("payload_bytes"));
    children.push_back(retransmitted_bytes.column("retransmitted_bytes"));
    children.push_back(duplicate_acks.column("duplicate_acks"));
    children.push_back(gap_bytes.column("gap_bytes"));
    children.push_back(uncertain_bytes.column("uncertain_bytes"));
    children.push_back(partly_followed.column("partly_followed"));
    children.push_back(retransmitted_share.column("retransmitted_share"));
    children.push_back(gap_share.column("gap_share"));
    children.push_back(reports.column("reports"));
    children.push_back(older_reports.column("older_reports"));
    children.push_back(epochs.column("epochs"));
    return root;
}

struct SeriesColumns {
    Values<std::uint32_t> flow, reports;
    Values<std::int64_t> window_ns, last_ns;
    Values<std::uint64_t> windows, bytes, packets;
    NullableValues<double> packet_size_mean;
    NullableUint64 throughput_bps, acknowledged_bytes, payload_bytes, retransmitted_bytes, duplicate_acks;
    NullableValues<std::uint32_t> bytes_in_flight, bytes_in_flight_max;
    NullableValues<std::int64_t> gap_bytes, iat_ns;

    void add(const SeriesRow& row);
    Column columns() const;
};

void SeriesColumns::add(const SeriesRow& row) {
    const auto has = [&row](FlowState::Flag flag) { return (row.flags & flag) != 0; };
    const bool slot = has(FlowState::kSlot);
    flow.add(row.flow);
    window_ns.add(signed_ns(row.window_ns));
    windows.add(row.windows);
    last_ns.add(signed_ns(row.last_ns));
    reports.add(row.reports);
    bytes.add(row.bytes);
    packets.add(row.packets);
    packet_size_mean.add(ratio(true, row.bytes, row.packets));
    throughput_bps.add(rate_bps(row.bytes, row.span_ns));
    bytes_in_flight.add(known(has(FlowState::kSeq), row.in_flight));
    bytes_in_flight_max.add(known(has(FlowState::kSeq), row.max_in_flight));
    acknowledged_bytes.add(known(has(FlowState::kAck) && !has(FlowState::kAckPartial), row.acked_bytes));
    payload_bytes.add(known(slot, row.payload_bytes));
    retransmitted_bytes.add(known(slot, row.retransmitted_bytes));
    duplicate_acks.add(known(slot, std::uint64_t{row.duplicate_acks}));
    gap_bytes.add(known(slot, row.gap_bytes));
    iat_ns.add(known(has(FlowState::kIat), signed_ns(row.iat_ns)));
}

Column SeriesColumns::columns() const {
    Column root = root_of(flow.size());
    auto& children = root.children;
    children.push_back(flow.column("flow"));
    children.push_back(window_ns.column("window_ns"));
    children.push_back(windows.column("windows"));
    children.push_back(last_ns.column("last_ns"));
    children.push_back(reports.column("reports"));
    children.push_back(bytes.column("bytes"));
    children.push_back(packets.column("packets"));
    children.push_back(packet_size_mean.column("packet_size_mean"));
    children.push_back(throughput_bps.column("throughput_bps"));
    children.push_back(bytes_in_flight.column("bytes_in_flight"));
    children.push_back(bytes_in_flight_max.column("bytes_in_flight_max"));
    children.push_back(acknowledged_bytes.column("acknowledged_bytes"));
    children.push_back(payload_bytes.column("payload_bytes"));
    children.push_back(retransmitted_bytes.column("retransmitted_bytes"));
    children.push_back(duplicate_acks.column("duplicate_acks"));
    children.push_back(gap_bytes.column("gap_bytes"));
    children.push_back(iat_ns.column("iat_ns"));
    return root;
}

}  // namespace

std::optional<std::uint64_t> rate_bps(std::uint64_t bytes, std::uint64_t ns) {
    if (ns == 0) return std::nullopt;
    __extension__ using Wide = unsigned __int128;
    const Wide rate = (static_cast<Wide>(bytes) * 8'000'000'000 + ns / 2) / ns;
    return static_cast<std::uint64_t>(std::min<Wide>(rate, std::numeric_limits<std::uint64_t>::max()));
}

Batch flow_batch(std::span<const FlowSnapshot> flows, std::string_view site) {
    auto builder = std::make_shared<FlowReportColumns>();
    for (const FlowSnapshot& flow : flows) builder->add(flow, site);
    Column columns = builder->columns();
    return {std::move(columns), std::move(builder)};
}

Batch series_batch(std::span<const SeriesRow> rows) {
    auto builder = std::make_shared<SeriesColumns>();
    for (const SeriesRow& row : rows) builder->add(row);
    Column columns = builder->columns();
    return {std::move(columns), std::move(builder)};
}

}  // namespace acapella::collector
