#include "bindings/collector.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bindings/arrow_batch.hpp"
#include "collector/collector.hpp"
#include "collector/receive/packet_socket.hpp"
#include "collector/receive/rdma_ring.hpp"
#include "collector/receive/ring_poller.hpp"
#include "collector/table/report_columns.hpp"
#include "input/byte_source.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

using namespace collector;

using ByteArray = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Offsets = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr std::uint16_t kLinkTypeEthernet = 1;

QueuePairConfig pair_of(const nb::dict& options) {
    QueuePairConfig pair;
    pair.number = nb::cast<std::uint32_t>(options["number"]);
    pair.key = nb::cast<std::uint32_t>(options["key"]);
    pair.base = nb::cast<std::uint64_t>(options["base"]);
    pair.slots = nb::cast<std::uint32_t>(options["slots"]);
    if (const nb::object psn = options["psn"]; !psn.is_none())
        pair.initial_psn = nb::cast<std::uint32_t>(psn);
    return pair;
}

CollectorConfig config_of(const nb::dict& options) {
    CollectorConfig config;
    config.format = nb::cast<int>(options["format"]) == 1 ? Format::published : Format::tagged;
    for (const nb::handle pair : nb::cast<nb::list>(options["queue_pairs"]))
        config.queue_pairs.push_back(pair_of(nb::cast<nb::dict>(pair)));
    config.threads = nb::cast<unsigned>(options["threads"]);
    config.series_ns = nb::cast<std::optional<std::uint64_t>>(options["series_ns"]);
    config.memory_bytes = nb::cast<std::uint64_t>(options["memory_bytes"]);
    config.check_icrc = nb::cast<bool>(options["check_icrc"]);
    return config;
}

RdmaConfig rdma_of(const nb::dict& options, Format format) {
    RdmaConfig config;
    config.device = nb::cast<std::string>(options["device"]);
    config.port = nb::cast<std::uint8_t>(options["port"]);
    config.gid_index = nb::cast<int>(options["gid_index"]);
    const auto peer = nb::cast<nb::bytes>(options["peer"]);
    if (peer.size() != config.peer.size()) throw nb::value_error("peer: expected an IPv4 address");
    std::memcpy(config.peer.data(), peer.data(), peer.size());
    config.peer_queue_pair = nb::cast<std::uint32_t>(options["peer_queue_pair"]);
    config.initial_psn = nb::cast<std::uint32_t>(options["psn"]);
    config.slots = nb::cast<std::uint32_t>(options["slots"]);
    config.format = format;
    return config;
}

nb::dict counters_dict(const Counters& counters) {
    nb::dict dict;
    dict["frames"] = counters.frames;
    for (std::size_t i = 0; i < kVerdicts; ++i) dict[name_of(static_cast<Verdict>(i))] = counters.verdicts[i];
    dict["psn_gap_lost"] = counters.lost;
    dict["overrun"] = counters.overrun;
    dict["kernel_dropped"] = counters.dropped;
    dict["from_memory"] = counters.stored;
    dict["taken"] = counters.reports[Effect::newer];
    dict["older"] = counters.reports[Effect::older];
    dict["repeated"] = counters.reports[Effect::repeated];
    dict["late_epoch"] = counters.reports[Effect::late];
    dict["table_full"] = counters.reports[Effect::refused];
    dict["flows"] = counters.flows;
    return dict;
}

// Returns the sort key of a flow for `acapella p4 top`, which lists the largest first.
std::uint64_t measure_of(const FlowState& state, const std::string& measure) {
    if (measure == "bytes") return state.bytes();
    if (measure == "packets") return state.packets();
    if (measure == "reports") return state.reports;
    if (measure == "last_ns") return state.timestamp;
    if (measure == "rtt") return state.rtt_syn_ns + state.rtt_ack_ns;  // zero if there is none
    if (measure == "throughput") {
        const std::uint64_t from = state.from_ns(), until = state.until_ns();
        return rate_bps(state.bytes(), until > from ? until - from : 0).value_or(0);
    }
    throw nb::value_error("by: expected bytes, packets, reports, last_ns, rtt or throughput");
}

class PyCollector {
  public:
    PyCollector(const nb::dict& options, std::string site)
        : collector_(config_of(options)), site_(std::move(site)) {}

    void open_file(const std::string& path, const input::DecompressionLimits& limits) {
        reader_.reset();
        source_ = input::ByteSource::open(path, limits);
        reader_ = input::open_capture(*source_);
    }

    // Returns false at the end of the file; true if rows of the series are ready, or after a number of
    // frames.
    bool advance() {
        const nb::gil_scoped_release unlocked;
        constexpr std::uint32_t kFrames = 1 << 20;
        Record record;
        for (std::uint32_t i = 0; i < kFrames; ++i) {
            if (collector_.series_ready()) return true;
            if (!reader_->next(record)) {
                collector_.drain();
                return false;
            }
            receive(record);
        }
        return true;
    }
    nb::dict file_end() const {
        nb::dict dict;
        dict["records"] = reader_->info().records;
        dict["end"] = input::name_of(reader_->info().end);
        dict["detail"] = reader_->info().end_detail;
        return dict;
    }

    void open_interface(const std::string& name) { socket_ = std::make_unique<PacketSocket>(name); }

    // Receives pending frames, or waits for frames, and adds them to the flow table. Returns true if rows of
    // the series are ready.
    bool advance_interface(int wait_ms) {
        const nb::gil_scoped_release unlocked;
        constexpr int kBlocks = 16;
        const auto take = [this](Bytes frame, std::uint32_t wire_len) {
            collector_.receive(frame, wire_len);
        };
        for (int i = 0; i < kBlocks && !collector_.series_ready(); ++i)
            if (!socket_->receive(i == 0 ? wait_ms : 0, take)) break;
        collector_.add_dropped(socket_->take_dropped());
        collector_.drain();
        return collector_.series_ready();
    }

    // Adds the frames from number `first` on, until rows of the series are ready. Frame i is at offsets[i] to
    // offsets[i + 1] of `bytes`. Returns the number of the first frame that was not processed.
    std::uint64_t feed_frames(const ByteArray& bytes, const Offsets& offsets, std::uint64_t first) {
        const std::uint64_t* at = offsets.data();
        const std::uint64_t end = offsets.size() - 1;
        for (std::uint64_t i = 0; i < end; ++i)
            if (at[i] > at[i + 1] || at[i + 1] > bytes.size()) throw nb::value_error("offsets do not ascend");
        const nb::gil_scoped_release unlocked;
        const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
        while (first < end && !collector_.series_ready()) {
            const std::size_t size = at[first + 1] - at[first];
            collector_.receive({data + at[first], size}, static_cast<std::uint32_t>(size));
            ++first;
        }
        if (first == end) collector_.drain();
        return first;
    }

    // Adds contiguous reports, as in a ring. Returns the number of the first report that was not processed.
    std::uint64_t feed_reports(const ByteArray& bytes, std::uint64_t first) {
        const std::size_t stride = bytes_of(collector_.config().format);
        const std::uint64_t end = bytes.size() / stride;
        if (bytes.size() % stride != 0) throw nb::value_error("not whole reports");
        const nb::gil_scoped_release unlocked;
        const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
        while (first < end && !collector_.series_ready()) {
            const std::uint64_t count = std::min<std::uint64_t>(end - first, collector_.config().round);
            collector_.take_reports(data + first * stride, count);
            first += count;
        }
        return first;
    }

    // Opens a ring and returns its parameters for the sender.
    nb::dict open_rdma(const nb::dict& options, bool single_ring) {
        const RdmaConfig config = rdma_of(options, collector_.config().format);
        rdma_.push_back({RdmaRing::open(config), {}});
        PolledRing& polled = rdma_.back();
        polled.poller =
            std::make_unique<RingPoller>(polled.ring->memory(), config.slots, config.format, single_ring);
        nb::dict dict;
        dict["number"] = polled.ring->number();
        dict["key"] = polled.ring->key();
        dict["base"] = polled.ring->base();
        dict["slots"] = config.slots;
        dict["psn"] = config.initial_psn;
        return dict;
    }

    // Reads the remaining reports of a ring. Afterwards, the device rejects the ring's key.
    void close_rdma(std::uint32_t number) {
        constexpr int kMaxPolls =
            512;  // of RingPoller::kBatch reports, so that a sender that keeps writing does not block this
        for (const PolledRing& polled : rdma_)
            for (int i = 0; i < kMaxPolls && polled.ring->number() == number; ++i)
                if (!poll(polled) && !poll(polled)) break;
        std::erase_if(rdma_, [number](const PolledRing& polled) { return polled.ring->number() == number; });
    }

    // Returns true if rows of the series are ready.
    bool poll_rdma(int timeout_ms) {
        const nb::gil_scoped_release unlocked;
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
        do {
            bool received = false;
            for (const PolledRing& polled : rdma_) received = poll(polled) || received;
            if (!received) std::this_thread::sleep_for(std::chrono::microseconds(50));
        } while (!collector_.series_ready() && std::chrono::steady_clock::now() < end);
        collector_.publish_counters();
        return collector_.series_ready();
    }

    void finish() {
        const nb::gil_scoped_release unlocked;
        collector_.finish();
    }

    std::optional<ArrowBatch> take_series() {
        const nb::gil_scoped_release unlocked;
        std::vector<SeriesRow>& rows = collector_.table().series();
        if (rows.empty()) return std::nullopt;
        ArrowBatch batch(series_batch(rows));
        rows.clear();
        return batch;
    }

    ArrowBatch flow_rows(std::uint32_t first, std::uint32_t count) const {
        const nb::gil_scoped_release unlocked;
        std::vector<FlowSnapshot> flows;
        const std::uint32_t flow_count = collector_.table().flows();
        for (std::uint32_t i = first; i < flow_count && i - first < count; ++i)
            flows.push_back(collector_.table().flow(i));
        return ArrowBatch(flow_batch(flows, site_));
    }

    // Thread-safe.
    ArrowBatch snapshot(std::optional<std::size_t> limit, const std::string& by) const {
        measure_of({}, by);
        const nb::gil_scoped_release unlocked;
        struct Entry {
            std::uint64_t measure;
            FlowSnapshot flow;
        };
        // Ties are sorted by flow number, so that the order is deterministic.
        const auto precedes = [](const Entry& a, const Entry& b) {
            return a.measure != b.measure ? a.measure > b.measure : a.flow.state.number < b.flow.state.number;
        };
        std::vector<Entry> entries;
        const std::size_t max_entries = limit.value_or(~std::size_t{0});
        collector_.table().visit([&](const FlowSnapshot& flow) {
            const Entry entry{measure_of(flow.state, by), flow};
            if (entries.size() == max_entries) {
                if (max_entries == 0 || !precedes(entry, entries.front())) return;
                std::pop_heap(entries.begin(), entries.end(), precedes);
                entries.back() = entry;
            } else {
                entries.push_back(entry);
            }
            if (limit) std::push_heap(entries.begin(), entries.end(), precedes);
        });
        std::sort(entries.begin(), entries.end(), precedes);
        std::vector<FlowSnapshot> flows;
        for (const Entry& entry : entries) flows.push_back(entry.flow);
        return ArrowBatch(flow_batch(flows, site_));
    }

    nb::dict counters() const { return counters_dict(collector_.counters()); }
    std::uint32_t newest_epoch() const { return collector_.counters().newest_epoch; }
    void add_queue_pair(const nb::dict& options) { collector_.add_queue_pair(pair_of(options)); }
    void remove_queue_pair(std::uint32_t number) { collector_.remove_queue_pair(number); }
    std::uint32_t flows() const { return collector_.table().flows(); }
    std::size_t bytes_per_flow() const { return collector_.table().memory_bytes_per_flow(); }

  private:
    struct PolledRing {
        std::unique_ptr<RdmaRing> ring;
        std::unique_ptr<RingPoller> poller;
    };

    bool poll(const PolledRing& polled) {
        found_.clear();
        const std::uint64_t lost = polled.poller->lost();
        const std::uint64_t overrun = polled.poller->overrun();
        const std::uint32_t count = polled.poller->poll(found_, RingPoller::kBatch);
        collector_.add_ring_losses(polled.poller->lost() - lost, polled.poller->overrun() - overrun);
        if (count > 0) collector_.take_reports(found_.data(), count);
        return count > 0;
    }

    void receive(const Record& record) {
        if (record.link_type == kLinkTypeEthernet)
            collector_.receive(record.bytes, record.wire_len);
        else
            collector_.refuse_frame();
    }

    Collector collector_;
    std::string site_;
    std::unique_ptr<PacketSocket> socket_;
    std::unique_ptr<input::ByteSource> source_;
    std::unique_ptr<input::CaptureReader> reader_;
    std::vector<PolledRing> rdma_;
    std::vector<std::byte> found_;
};

}  // namespace

void bind_collector(nb::module_& module) {
    nb::exception<ConfigError>(module, "CollectorConfigError", PyExc_ValueError);
    nb::exception<RdmaError>(module, "RdmaError", PyExc_OSError);
    module.def("rdma_devices", &RdmaRing::devices, "Names of this machine's RDMA devices");
    nb::class_<PyCollector>(module, "Collector", "See acapella_core.collector")
        .def(nb::init<const nb::dict&, std::string>(), nb::arg("options"), nb::arg("site"))
        .def("open_file", &PyCollector::open_file, nb::arg("path"), nb::arg("limits"))
        .def("advance", &PyCollector::advance)
        .def("file_end", &PyCollector::file_end)
        .def("open_interface", &PyCollector::open_interface, nb::arg("name"))
        .def("advance_interface", &PyCollector::advance_interface, nb::arg("wait_ms"))
        .def("feed_frames", &PyCollector::feed_frames, nb::arg("bytes"), nb::arg("offsets"), nb::arg("first"))
        .def("feed_reports", &PyCollector::feed_reports, nb::arg("bytes"), nb::arg("first"))
        .def("open_rdma", &PyCollector::open_rdma, nb::arg("options"), nb::arg("single_ring"))
        .def("close_rdma", &PyCollector::close_rdma, nb::arg("number"))
        .def("poll_rdma", &PyCollector::poll_rdma, nb::arg("timeout_ms"))
        .def("finish", &PyCollector::finish)
        .def("take_series", &PyCollector::take_series)
        .def("flow_rows", &PyCollector::flow_rows, nb::arg("first"), nb::arg("count"))
        .def("snapshot", &PyCollector::snapshot, nb::arg("limit").none(), nb::arg("by"))
        .def("counters", &PyCollector::counters)
        .def("newest_epoch", &PyCollector::newest_epoch)
        .def("add_queue_pair", &PyCollector::add_queue_pair, nb::arg("options"))
        .def("remove_queue_pair", &PyCollector::remove_queue_pair, nb::arg("number"))
        .def_prop_ro("flows", &PyCollector::flows)
        .def_prop_ro("bytes_per_flow", &PyCollector::bytes_per_flow);
}

}  // namespace acapella
