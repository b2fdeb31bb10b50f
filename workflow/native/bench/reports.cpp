// acapella-reports: generates flow reports to measure the collector. The reports depend only on the
// arguments.
//   acapella-reports memory FORMAT FLOWS REPORTS [THREADS [SERIES_NS]]   convert reports in memory to flows
//   acapella-reports ring FORMAT FLOWS REPORTS [THREADS [SERIES_NS]]     read reports from a device's ring
//   acapella-reports frames FORMAT FLOWS REPORTS [THREADS [SERIES_NS]]   convert RoCEv2 frames to flows
//   acapella-reports write FORMAT FLOWS REPORTS FILE                     write the reports
//   acapella-reports pcap FORMAT FLOWS REPORTS FILE                      write the frames as a capture
// The first three commands print, as JSON, CPU and wall seconds, cycles if the kernel counts them, and
// memory. The flows of the reports are pseudorandom; the times of a flow increase, and its counts never
// decrease. Completed rows of the series are discarded; everything else is done as in `acapella p4 collect`.
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "collector/collector.hpp"
#include "collector/receive/ring_poller.hpp"

namespace {

using namespace acapella::collector;

constexpr std::uint64_t kBase = 0x7f0000000000;
constexpr std::size_t kRingBytes = std::size_t{64} << 20;  // default of --ring
constexpr std::uint64_t kReportNs = 125;                   // between two reports: 8 million per second
constexpr std::uint32_t kQueuePair = 0x11;
constexpr std::uint32_t kKey = 0x1234;

// SplitMix64 (Steele, Lea, Flood 2014): a pseudorandom permutation of the 64-bit numbers.
std::uint64_t scattered(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

template <std::size_t Bytes>
void put(std::byte* report, Field<Bytes> field, std::uint64_t value) {
    for (std::size_t i = 0; i < Bytes; ++i)
        report[field.offset + i] = static_cast<std::byte>(value >> 8 * (Bytes - 1 - i));
}

void make_published(std::byte* at, std::uint32_t flow, std::uint64_t n, std::uint64_t turn) {
    using namespace format1;
    put(at, src, 0x0a000000 + flow);
    put(at, dst, 0xc0a80001);
    put(at, src_port, 443);
    put(at, dst_port, 50000);
    put(at, rtt, 20000);
    for (std::size_t i = 0; i < 4; ++i) {
        put(at, Field<4>{bytes_0.offset + 4 * i}, (turn + 1) * 3000 + i * flow);
        put(at, Field<2>{packets_0.offset + 2 * i}, std::min<std::uint64_t>(2 * turn + 2 + i, 0xffff));
    }
    put(at, iat, 1000 + n % 1000);
    put(at, packet_type, packet_type_values::ack);
    put(at, ack, turn * 2800);
    put(at, seq, turn * 2800 + 1400);
    put(at, timestamp, 1'000'000'000 + n * kReportNs);
}

void make_tagged(std::byte* at, std::uint32_t flow, std::uint64_t n, std::uint64_t turn) {
    using namespace format2;
    put(at, version, 2);
    put(at, ip_version, 4);
    put(at, ip_proto, 6);
    put(at, trigger, trigger_bits::ack);
    put(at, valid, 0xff);
    put(at, vlan_count, 1);
    put(at, mpls_count, 2);
    put(at, src_port, 443);
    put(at, dst_port, 50000);
    put(at, Field<4>{src.offset + 12}, 0x0a000000 + flow);
    put(at, Field<4>{dst.offset + 12}, 0xc0a80001);
    put(at, vlan_0, 100);
    put(at, mpls_0, 16);
    put(at, mpls_1, 17);
    put(at, epoch, n >> 24);
    put(at, report_sequence, n + 1);
    put(at, timestamp, 1'000'000'000 + n * kReportNs);
    put(at, start, 1'000'000'000);
    put(at, bytes, (turn + 1) * 3000);
    put(at, packets, (turn + 1) * 2);
    put(at, rtt_syn, 20'000'000);
    put(at, rtt_ack, 100'000);
    put(at, iat, 1000 + n % 1000);
    put(at, seq_end, turn * 2800 + 1400);
    put(at, ack, turn * 2800);
    put(at, payload_bytes, (turn + 1) * 2800);
}

std::vector<std::byte> make_reports(Format format, std::uint32_t flows, std::uint64_t first,
                                    std::uint64_t count) {
    std::vector<std::byte> made(count * bytes_of(format));
    for (std::uint64_t n = first; n < first + count; ++n) {
        // The flow of a report is pseudorandom. On average, each flow has one report per turn.
        const std::uint64_t turn = n / flows;
        const auto flow = static_cast<std::uint32_t>(scattered(n) % flows);
        std::byte* at = made.data() + (n - first) * bytes_of(format);
        (format == Format::published ? make_published : make_tagged)(at, flow, n, turn);
    }
    return made;
}

// Contiguous frames of equal length. The core computes the ICRC; its tests compare the ICRC with other
// implementations.
std::vector<std::byte> make_frames(Format format, const std::vector<std::byte>& reports, std::uint64_t first,
                                   std::size_t& length) {
    constexpr std::size_t kEthernet = 14;
    constexpr unsigned char kHeaders[] = {
        2,    0,    0,    0,    0, 2, 2,    0,          0,    0,    0, 1, 8,  0,  // Ethernet
        0x45, 0,    0,    0,    0, 0, 64,   0,          64,   17,   0, 0, 10, 0,
        0,    1,    10,   0,    0, 2, 0xf8, 3,          0x12, 0xb7, 0, 0, 0,  0,  // UDP
        0x2a, 0x40, 0xff, 0xff, 0, 0, 0,    kQueuePair, 0,    0,    0, 0};        // BTH
    const std::size_t stride = bytes_of(format);
    const std::size_t count = reports.size() / stride;
    const std::size_t body = sizeof kHeaders + 16;
    length = body + stride + 4;
    std::vector<std::byte> frames(count * length);
    for (std::size_t i = 0; i < count; ++i) {
        std::byte* at = frames.data() + i * length;
        std::memcpy(at, kHeaders, sizeof kHeaders);
        put(at, Field<2>{16}, length - kEthernet);
        put(at, Field<2>{38}, length - kEthernet - 20);
        const std::uint64_t n = first + i;
        put(at, Field<4>{50}, n % SequenceWindow::kModulus);
        put(at, Field<8>{54}, kBase + n % (kRingBytes / stride) * stride);
        put(at, Field<4>{62}, kKey);
        put(at, Field<4>{66}, stride);
        std::memcpy(at + body, reports.data() + i * stride, stride);
        put(at, Field<4>{length - 4}, icrc_of({at + kEthernet, length - kEthernet - 4}));
    }
    return frames;
}

// Counts cycles of this process and its threads in user space; 0 if the kernel does not count them.
class Cycles {
  public:
    Cycles() {
        perf_event_attr attributes{};
        attributes.size = sizeof attributes;
        attributes.type = PERF_TYPE_HARDWARE;
        attributes.config = PERF_COUNT_HW_CPU_CYCLES;
        attributes.exclude_kernel = 1;
        attributes.inherit = 1;
        attributes.disabled = 1;
        counter_ = static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
    }
    Cycles(const Cycles&) = delete;
    Cycles& operator=(const Cycles&) = delete;
    ~Cycles() {
        if (counter_ >= 0) ::close(counter_);
    }
    void start() const {
        if (counter_ >= 0) ::ioctl(counter_, PERF_EVENT_IOC_ENABLE, 0);
    }
    void stop() const {
        if (counter_ >= 0) ::ioctl(counter_, PERF_EVENT_IOC_DISABLE, 0);
    }
    std::uint64_t value() const {
        std::uint64_t cycles = 0;
        if (counter_ < 0 || ::read(counter_, &cycles, sizeof cycles) != sizeof cycles) return 0;
        return cycles;
    }

  private:
    int counter_;
};

enum class Source { memory, ring, frames };

struct Work {
    Format format;
    std::uint32_t flows;
    std::uint64_t reports;
    unsigned threads;
    const char* series_ns;

    [[nodiscard]] std::uint32_t slots() const {
        return static_cast<std::uint32_t>(kRingBytes / bytes_of(format));
    }
};

CollectorConfig config_of(const Work& work) {
    CollectorConfig config;
    config.format = work.format;
    config.threads = work.threads;
    config.memory_bytes = std::uint64_t{1} << 40;
    if (work.series_ns != nullptr) config.series_ns = std::strtoull(work.series_ns, nullptr, 10);
    config.queue_pairs = {{kQueuePair, kKey, kBase, work.slots(), 0}};
    return config;
}

// Measured seconds and cycles.
class Clock {
  public:
    void start() {
        started_ = std::chrono::steady_clock::now();
        cpu_ = std::clock();
        cycles_.start();
    }
    void stop() {
        cycles_.stop();
        cpu_s += static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
        wall_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    }
    [[nodiscard]] std::uint64_t cycles() const { return cycles_.value(); }
    double cpu_s = 0;
    double wall_s = 0;

  private:
    Cycles cycles_;
    std::chrono::steady_clock::time_point started_;
    std::clock_t cpu_ = 0;
};

class Measurement {
  public:
    explicit Measurement(const Work& work) : work_(work), collector_(config_of(work)) {}

    // Generates and processes the next `count` reports. Their generation is not measured.
    void take(Source source, std::uint64_t first, std::uint64_t count) {
        std::vector<std::byte> data = make_reports(work_.format, work_.flows, first, count);
        if (source == Source::frames) {
            std::size_t length = 0;
            data = make_frames(work_.format, data, first, length);
            take_frames(data, length);
        } else if (source == Source::ring) {
            take_ring(data, first);
        } else {
            take_memory(data);
        }
    }

    int print() const {
        struct rusage usage {};
        getrusage(RUSAGE_SELF, &usage);
        const Counters counters = collector_.counters();
        std::printf(
            "{\"reports\": %llu, \"taken\": %llu, \"flows\": %u, \"cpu_s\": %.6f, \"wall_s\": %.6f, "
            "\"cycles\": %llu, \"bytes_per_flow\": %zu, \"series_rows\": %llu, \"peak_mib\": %ld}\n",
            static_cast<unsigned long long>(work_.reports),
            static_cast<unsigned long long>(counters.reports[Effect::newer]), counters.flows, clock_.cpu_s,
            clock_.wall_s, static_cast<unsigned long long>(clock_.cycles()),
            collector_.table().memory_bytes_per_flow(),
            static_cast<unsigned long long>(rows_ + collector_.table().series().size()),
            usage.ru_maxrss / 1024);
        return counters.reports[Effect::newer] == work_.reports ? 0 : 1;
    }

  private:
    void discard_rows() {
        if (!collector_.series_ready()) return;
        rows_ += collector_.table().series().size();
        collector_.table().series().clear();
    }

    void take_frames(const std::vector<std::byte>& frames, std::size_t length) {
        clock_.start();
        for (const std::byte* at = frames.data(); at < frames.data() + frames.size(); at += length) {
            collector_.receive({at, length}, static_cast<std::uint32_t>(length));
            discard_rows();
        }
        collector_.drain();
        clock_.stop();
    }

    // Like feed_reports() of the bindings.
    void take_memory(const std::vector<std::byte>& reports) {
        const std::size_t stride = bytes_of(work_.format);
        const std::uint64_t count = reports.size() / stride;
        clock_.start();
        for (std::uint64_t at = 0; at < count; at += collector_.config().round) {
            collector_.take_reports(reports.data() + at * stride,
                                    std::min<std::uint64_t>(count - at, collector_.config().round));
            discard_rows();
        }
        clock_.stop();
    }

    // Like poll_rdma() of the bindings: the device writes half of the ring, then the ring is polled until all
    // of it is read.
    void take_ring(const std::vector<std::byte>& reports, std::uint64_t first) {
        const std::size_t stride = bytes_of(work_.format);
        ring_.resize(work_.slots() * stride);
        if (!poller_) poller_.emplace(ring_.data(), work_.slots(), work_.format, true);
        const std::uint64_t count = reports.size() / stride;
        for (std::uint64_t done = 0; done < count;) {
            const std::uint64_t batch = std::min<std::uint64_t>(count - done, work_.slots() / 2);
            for (std::uint64_t i = done; i < done + batch; ++i)
                std::memcpy(ring_.data() + (first + i) % work_.slots() * stride, reports.data() + i * stride,
                            stride);
            done += batch;
            clock_.start();
            for (int idle = 0; idle < 2;) {  // the last report is read at the second poll
                found_.clear();
                const std::uint32_t taken = poller_->poll(found_, RingPoller::kBatch);
                if (taken > 0) collector_.take_reports(found_.data(), taken);
                idle = taken > 0 ? 0 : idle + 1;
                discard_rows();
            }
            clock_.stop();
        }
    }

    Work work_;
    Collector collector_;
    Clock clock_;
    std::uint64_t rows_ = 0;
    std::vector<std::byte> ring_;
    std::vector<std::byte> found_;
    std::optional<RingPoller> poller_;
};

// Reports are generated in blocks, to save memory.
int run(const Work& work, Source source) {
    Measurement measured(work);
    constexpr std::uint64_t kBlock = std::uint64_t{1} << 20;
    for (std::uint64_t first = 0; first < work.reports; first += kBlock)
        measured.take(source, first, std::min(kBlock, work.reports - first));
    return measured.print();
}

void put_record(std::vector<std::byte>& to, const std::byte* frame, std::size_t length, std::uint64_t ns) {
    const std::uint32_t head[4] = {static_cast<std::uint32_t>(ns / 1'000'000'000),
                                   static_cast<std::uint32_t>(ns % 1'000'000'000),
                                   static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(length)};
    const auto* bytes = reinterpret_cast<const std::byte*>(head);
    to.insert(to.end(), bytes, bytes + sizeof head);
    to.insert(to.end(), frame, frame + length);
}

std::vector<std::byte> make_capture(const Work& work) {
    constexpr std::uint32_t kHead[6] = {0xa1b23c4d, 0x00040002, 0, 0, 262144, 1};
    std::size_t length = 0;
    const std::vector<std::byte> frames =
        make_frames(work.format, make_reports(work.format, work.flows, 0, work.reports), 0, length);
    std::vector<std::byte> made;
    made.reserve(sizeof kHead + work.reports * (length + 16));
    const auto* head = reinterpret_cast<const std::byte*>(kHead);
    made.insert(made.end(), head, head + sizeof kHead);
    for (std::uint64_t n = 0; n < work.reports; ++n)
        put_record(made, frames.data() + n * length, length, 1'000'000'000 + n * kReportNs);
    return made;
}

int write(const std::vector<std::byte>& made, const char* path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "wb"), std::fclose);
    if (file && std::fwrite(made.data(), made.size(), 1, file.get()) == 1 && std::fflush(file.get()) == 0)
        return 0;
    std::perror("acapella-reports: error");
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    const bool writes = mode == "write" || mode == "pcap";
    if (argc < 5 || argc > 7 || (writes && argc != 6) ||
        (!writes && mode != "memory" && mode != "ring" && mode != "frames")) {
        std::fputs(
            "usage: acapella-reports memory|ring|frames FORMAT FLOWS REPORTS [THREADS [SERIES_NS]] | "
            "write|pcap "
            "FORMAT FLOWS REPORTS FILE\n",
            stderr);
        return 2;
    }
    Work work{argv[2][0] == '1' ? Format::published : Format::tagged,
              static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10)),
              std::strtoull(argv[4], nullptr, 10), 1, argc > 6 ? argv[6] : nullptr};
    if (mode == "write") return write(make_reports(work.format, work.flows, 0, work.reports), argv[5]);
    if (mode == "pcap") return write(make_capture(work), argv[5]);
    if (argc > 5) work.threads = static_cast<unsigned>(std::max(1L, std::strtol(argv[5], nullptr, 10)));
    return run(work, mode == "frames" ? Source::frames : mode == "ring" ? Source::ring : Source::memory);
}
