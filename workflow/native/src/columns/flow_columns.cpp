#include "columns/flow_columns.hpp"

#include <algorithm>
#include <cmath>

#include "columns/key_columns.hpp"
#include "flow/community_id.hpp"

namespace acapella {
namespace {

double mean(std::uint64_t sum, std::uint64_t count) {
    return static_cast<double>(sum) / static_cast<double>(count);
}

// The sum of the inter-arrival times is last - first in file order.
std::int64_t iat_sum(const FlowState& flow) { return saturating_difference(flow.previous_ns, flow.first_ns); }

// Standard deviation of n inter-arrival times: sqrt(sum(x^2)/n - (sum(x)/n)^2). The difference is computed
// with integers, except for a fraction below 1, so no precision is lost by cancellation.
double iat_stddev(const FlowState& flow, std::uint64_t n) {
    const std::int64_t sum = iat_sum(flow);
    const UInt128 size = sum < 0 ? -static_cast<UInt128>(sum) : static_cast<UInt128>(sum);
    const UInt128 square = size * size;
    const UInt128 squares = flow.iat_squares.value();
    const UInt128 difference = squares - std::min(squares, square / n);
    const double fraction =
        static_cast<double>(static_cast<std::uint64_t>(square % n)) / static_cast<double>(n);
    return std::sqrt(std::max(0.0, (static_cast<double>(difference) - fraction) / static_cast<double>(n)));
}

// A dictionary column with a single value, or with nulls only.
struct SingleText {
    std::vector<std::uint32_t> indices;
    Bitmap valid;
    Strings texts;

    void add(const std::optional<std::string>& text) {
        if (text && texts.size() == 0) texts.add(*text);
        indices.push_back(0);
        valid.add(text.has_value());
    }
    Column column(std::string name) const {
        Column column{.name = std::move(name),
                      .format = "I",
                      .nullable = true,
                      .length = static_cast<std::int64_t>(indices.size()),
                      .null_count = valid.nulls(),
                      .buffers = {valid.buffer(), indices.data()}};
        column.dictionary = std::make_unique<Column>(texts.column("", true));
        return column;
    }
};

constexpr std::array<const char*, kFlagCounts> kFlagNames = {"syn", "syn_ack", "fin", "rst", "psh",
                                                             "ack", "urg",     "ece", "cwr"};

}  // namespace

// A label with fewer than one frame per 16 frames of `data` is assumed to be a false match of a tshark
// heuristic in random payload.
constexpr std::uint64_t kDataPerLabel = 16;

std::string application_of(const FlowTable& flow_table, std::uint32_t flow, const TextTable& tokens) {
    std::string best;
    std::uint64_t max_frames = 0;
    std::uint64_t data = 0;
    for (const auto& [token, frames] : flow_table.applications(flow)) {
        const std::string& text = tokens[token];
        if (text == "data") {
            data = frames;
        } else if (frames > max_frames || (frames == max_frames && text < best)) {
            best = text;
            max_frames = frames;
        }
    }
    return max_frames * kDataPerLabel < data ? "data" : best;
}

struct FlowColumns::Builder {
    explicit Builder(const FlowColumns& columns) : table(columns) {}

    void add(std::uint32_t number);
    Column columns() const;

    const FlowColumns& table;

    Values<std::uint32_t> flow, peer_candidates, wire_len_min, wire_len_max;
    Strings flow_id;
    NullableValues<std::uint32_t> peer_flow;
    NullableTexts peer_flow_id, community_id, app, app_by;
    SingleText site, port;
    TagLists tags;
    TunnelLists tunnels;
    EndpointColumns endpoints;
    ListOffsets run_lists;
    NullableValues<std::int64_t> first_ns, last_ns;
    Values<std::uint64_t> frames, wire_bytes, ip_bytes, payload_bytes, run_frames;
    Values<double> wire_len_mean;
    std::array<NullableValues<std::uint64_t>, kFlagCounts> flags;
    NullableValues<std::int64_t> handshake_rtt_ns, iat_min_ns, iat_max_ns;
    NullableValues<std::uint64_t> retransmitted_bytes, duplicate_acks;
    NullableValues<double> iat_mean_ns, iat_stddev_ns;
    Strings run_stacks;
    Booleans stacks_cut;
    NullableBooleans cut_start, cut_end;

  private:
    void add_key(std::uint32_t number, const FlowState& state);
    void add_sizes(std::uint32_t number, const FlowState& state);
    void add_tcp(std::uint32_t number, const FlowState& state);
    void add_iat(std::uint32_t number, const FlowState& state);
    void add_stacks(std::uint32_t number, const FlowState& state);
    std::string id_of(std::uint32_t number) const;
};

std::string FlowColumns::Builder::id_of(std::uint32_t number) const {
    const std::uint32_t key = table.flow_table_.flow(number).key;
    return hex_text(table.keys_.flow_id(key, table.capture_point_.site.value_or(std::string())));
}

void FlowColumns::Builder::add(std::uint32_t number) {
    const FlowState& state = table.flow_table_.flow(number);
    add_key(number, state);
    add_sizes(number, state);
    add_tcp(number, state);
    add_iat(number, state);
    add_stacks(number, state);
}

void FlowColumns::Builder::add_key(std::uint32_t number, const FlowState& state) {
    const FlowKeys& keys = table.keys_;
    const FlowKey key = keys.key(state.key);
    const std::uint32_t other = table.flow_table_.peer(number);
    flow.add(number);
    flow_id.add(id_of(number));
    peer_flow.add(other == kNone ? std::nullopt : std::optional(other));
    peer_flow_id.add(other == kNone ? std::nullopt : std::optional<std::string_view>(id_of(other)));
    peer_candidates.add(table.flow_table_.peer_candidates(number));
    community_id.add(community_id_of(keys.endpoints(key.endpoints)));
    site.add(table.capture_point_.site);
    port.add(table.capture_point_.port);
    tags.add({keys.vlans(key.tags), keys.labels(key.tags)});
    tunnels.add(keys.tunnels(key.tags));
    endpoints.add(keys.endpoints(key.endpoints));
}

void FlowColumns::Builder::add_sizes(std::uint32_t number, const FlowState& state) {
    const auto [first, last] = table.flow_table_.first_and_last_ns(number);
    const bool timed = table.flow_table_.timed_frames(number) > 0;
    first_ns.add(timed ? std::optional(first) : std::nullopt);
    last_ns.add(timed ? std::optional(last) : std::nullopt);
    frames.add(state.frames);
    wire_bytes.add(state.wire_bytes);
    ip_bytes.add(state.ip_bytes);
    payload_bytes.add(state.payload_bytes);
    wire_len_min.add(state.wire_len_min);
    wire_len_mean.add(mean(state.wire_bytes, state.frames));
    wire_len_max.add(state.wire_len_max);
}

void FlowColumns::Builder::add_tcp(std::uint32_t number, const FlowState& state) {
    const FlowTable& flow_table = table.flow_table_;
    const TcpState* tcp = flow_table.tcp(number);
    for (std::size_t i = 0; i < kFlagCounts; ++i)
        flags[i].add(tcp ? std::optional(flow_table.flag_count(number, static_cast<FlagCount>(i)))
                         : std::nullopt);
    handshake_rtt_ns.add(flow_table.handshake_rtt_ns(number));
    retransmitted_bytes.add(tcp ? std::optional(flow_table.retransmitted_bytes(number)) : std::nullopt);
    duplicate_acks.add(flow_table.duplicate_acks(number));
    cut_start.add(tcp ? std::optional(state.starts_with_syn == 0) : std::nullopt);
    cut_end.add(tcp ? std::optional(!flow_table.is_closed(number)) : std::nullopt);
}

void FlowColumns::Builder::add_iat(std::uint32_t number, const FlowState& state) {
    const std::uint64_t timed = table.flow_table_.timed_frames(number);
    const bool has_iat = timed > 1;
    iat_min_ns.add(has_iat ? std::optional(state.iat_min_ns) : std::nullopt);
    iat_max_ns.add(has_iat ? std::optional(state.iat_max_ns) : std::nullopt);
    const auto sum = static_cast<double>(iat_sum(state));
    iat_mean_ns.add(has_iat ? std::optional(sum / static_cast<double>(timed - 1)) : std::nullopt);
    iat_stddev_ns.add(has_iat ? std::optional(iat_stddev(state, timed - 1)) : std::nullopt);
}

void FlowColumns::Builder::add_stacks(std::uint32_t number, const FlowState& state) {
    for (const StackRun& run : table.flow_table_.runs(number)) {
        run_stacks.add(table.header_stacks_.stack_text(run.stack));
        run_frames.add(run.frames);
    }
    run_lists.close(run_frames.size());
    stacks_cut.add(state.runs_cut != 0);
    const std::string label = application_of(table.flow_table_, number, table.header_stacks_.tokens());
    const std::string_view by = state.application_carried_over ? "flow" : "tshark";
    app.add(label.empty() ? std::nullopt : std::optional<std::string_view>(label));
    app_by.add(label.empty() ? std::nullopt : std::optional(by));
}

Column FlowColumns::Builder::columns() const {
    Column root{
        .name = "", .format = "+s", .length = static_cast<std::int64_t>(flow.size()), .buffers = {nullptr}};
    auto& children = root.children;
    children.push_back(flow.column("flow"));
    children.push_back(flow_id.column("flow_id"));
    children.push_back(peer_flow.column("peer_flow"));
    children.push_back(peer_flow_id.column("peer_flow_id"));
    children.push_back(peer_candidates.column("peer_candidates"));
    children.push_back(community_id.column("community_id"));
    children.push_back(site.column("site"));
    children.push_back(port.column("port"));
    tags.columns(children);
    children.push_back(tunnels.column());
    endpoints.columns(children);
    children.push_back(first_ns.column("first_ns"));
    children.push_back(last_ns.column("last_ns"));
    children.push_back(frames.column("frames"));
    children.push_back(wire_bytes.column("wire_bytes"));
    children.push_back(ip_bytes.column("ip_bytes"));
    children.push_back(payload_bytes.column("payload_bytes"));
    children.push_back(wire_len_min.column("wire_len_min"));
    children.push_back(wire_len_mean.column("wire_len_mean"));
    children.push_back(wire_len_max.column("wire_len_max"));
    for (std::size_t i = 0; i < kFlagCounts; ++i) children.push_back(flags[i].column(kFlagNames[i]));
    children.push_back(handshake_rtt_ns.column("handshake_rtt_ns"));
    children.push_back(retransmitted_bytes.column("retransmitted_bytes"));
    children.push_back(duplicate_acks.column("duplicate_acks"));
    children.push_back(iat_min_ns.column("iat_min_ns"));
    children.push_back(iat_mean_ns.column("iat_mean_ns"));
    children.push_back(iat_max_ns.column("iat_max_ns"));
    children.push_back(iat_stddev_ns.column("iat_stddev_ns"));
    Column run{
        .name = "item", .format = "+s", .nullable = true, .length = run_stacks.size(), .buffers = {nullptr}};
    run.children.push_back(run_stacks.column("stack", true));
    run.children.push_back(run_frames.column("frames", true));
    children.push_back(run_lists.column("stacks", std::move(run)));
    children.push_back(stacks_cut.column("stacks_cut"));
    children.push_back(app.column("app"));
    children.push_back(app_by.column("app_by"));
    children.push_back(cut_start.column("cut_start"));
    children.push_back(cut_end.column("cut_end"));
    return root;
}

Batch FlowColumns::rows(std::uint32_t first, std::uint32_t count) const {
    auto builder = std::make_shared<Builder>(*this);
    const std::uint32_t end = first + std::min(count, flow_table_.size() - first);
    for (std::uint32_t number = first; number < end; ++number) builder->add(number);
    Column columns = builder->columns();
    return {std::move(columns), std::move(builder)};
}

}  // namespace acapella
