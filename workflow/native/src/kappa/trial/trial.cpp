#include "kappa/trial/trial.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "dissect/dispatch.hpp"
#include "input/capture_reader.hpp"
#include "input/clock_resolution.hpp"
#include "kappa/matching.hpp"

namespace acapella::kappa {
namespace {

constexpr std::uint64_t kProgressInterval = std::uint64_t{1} << 16;  // frames between two progress callbacks

bool matches_filter(const std::optional<FlowFilter::Address>& expected, std::uint8_t version,
                    const std::array<std::byte, 16>& address) {
    if (!expected) return true;
    const std::ptrdiff_t length = version == 4 ? 4 : 16;
    return expected->ip_version == version &&
           std::equal(address.begin(), address.begin() + length, expected->bytes.begin());
}

bool matches_filter(const std::optional<std::uint16_t>& expected, bool has_port, std::uint16_t port) {
    return !expected || (has_port && *expected == port);
}

bool in_flow(const FlowFilter& flow, const Dissection& d) {
    if (d.ip_version == 0) return false;
    return (!flow.ip_proto || *flow.ip_proto == d.ip_proto) &&
           matches_filter(flow.src, d.ip_version, d.src) && matches_filter(flow.dst, d.ip_version, d.dst) &&
           matches_filter(flow.src_port, d.has_ports, d.src_port) &&
           matches_filter(flow.dst_port, d.has_ports, d.dst_port);
}

// Selects frames of one file by frame number and flow.
class FrameFilter {
  public:
    FrameFilter(const Selection& selection, const std::string& path) : selection_(selection) {
        if (!selection.by_frames) return;
        const auto found = selection.frames.find(path);
        if (found == selection.frames.end())
            throw TrialError(path + ": no frame numbers were given for this file");
        numbers_ = found->second;
    }

    // Call in file order. `number` is tshark's frame number.
    bool selects(const Record& record, std::uint64_t number) {
        if (selection_.by_frames) {
            while (at_ < numbers_.size() && numbers_[at_] < number) ++at_;
            if (at_ == numbers_.size() || numbers_[at_] != number) return false;
        }
        if (selection_.flows.empty()) return true;
        dissect(record, dissection_, nullptr, Depth::innermost);
        return std::any_of(selection_.flows.begin(), selection_.flows.end(),
                           [this](const FlowFilter& flow) { return in_flow(flow, dissection_); });
    }

  private:
    const Selection& selection_;
    std::span<const std::uint64_t> numbers_;
    std::size_t at_ = 0;
    Dissection dissection_;
};

// Reads the selected frames of one file.
class SelectedFrames {
  public:
    SelectedFrames(const ReadOptions& options, const std::string& path)
        : source_(input::ByteSource::open(path, options.limits)),
          reader_(input::open_capture(*source_)),
          filter_(options.selection, path) {}

    bool next(Record& record) {
        while (reader_->next(record))
            if (filter_.selects(record, record.frame + reader_->info().blocks_not_frames)) return true;
        return false;
    }
    [[nodiscard]] const input::FileInfo& info() const { return reader_->info(); }
    [[nodiscard]] const std::vector<input::Interface>& interfaces() const { return reader_->interfaces(); }
    [[nodiscard]] std::uint64_t offset() const { return source_->offset(); }

  private:
    std::unique_ptr<input::ByteSource> source_;
    std::unique_ptr<input::CaptureReader> reader_;
    FrameFilter filter_;
};

// The time range of the frames that are compared.
struct TimeRange {
    std::optional<std::int64_t> from_ns;
    std::optional<std::int64_t> to_ns;

    [[nodiscard]] bool contains(std::int64_t ts_ns) const {
        return (!from_ns || ts_ns >= *from_ns) && (!to_ns || ts_ns < *to_ns);
    }
};

std::int64_t add_saturated(std::int64_t base, std::int64_t offset) {
    std::int64_t sum = 0;
    if (!__builtin_add_overflow(base, offset, &sum)) return sum;
    return offset > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

TimeRange time_range_of(const ReadOptions& options, const std::vector<TrialFile>& files) {
    const Selection& selection = options.selection;
    TimeRange time_range{selection.from_ns, selection.to_ns};
    if (!selection.relative || (!time_range.from_ns && !time_range.to_ns)) return time_range;
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    for (const TrialFile& file : files) {
        SelectedFrames frames(options, file.path);
        for (Record record; frames.next(record);)
            if (plausible(record.ts_ns)) first_ns = std::min(first_ns, record.ts_ns);
    }
    if (time_range.from_ns) time_range.from_ns = add_saturated(first_ns, *time_range.from_ns);
    if (time_range.to_ns) time_range.to_ns = add_saturated(first_ns, *time_range.to_ns);
    return time_range;
}

// The number of identifying bytes used in all trials. It is known only after the last packet: packets are
// hashed with the minimum so far, and if the minimum decreases, everything is read again.
class IdentityBytes {
  public:
    explicit IdentityBytes(std::size_t known) : length_(known) {}

    void update(const Identifier::Found& found) {
        if (found.captured < found.on_wire && found.captured < length_) length_ = found.captured;
    }
    std::size_t of(const Identifier::Found& found) {
        const std::size_t length = std::min(found.captured, length_);
        longest_ = std::max(longest_, length);
        return length;
    }
    [[nodiscard]] bool hashes_are_valid() const { return longest_ <= length_; }
    [[nodiscard]] std::size_t length() const { return length_; }

  private:
    std::size_t length_;
    std::size_t longest_ = 0;  // largest number of bytes hashed
};

class TrialReader {
  public:
    TrialReader(const ReadOptions& options, IdentityBytes& identity_bytes, std::uint64_t& bytes_read)
        : options_(options),
          identity_bytes_(identity_bytes),
          bytes_read_(bytes_read),
          identifier_(options.identity) {}

    void read(const std::vector<TrialFile>& files, Trial& trial);

  private:
    FileInfo read_file(const TrialFile& file, const TimeRange& time_range, Trial& trial);
    void take(const Record& record, const SelectedFrames& frames, FileInfo& info, Trial& trial);
    void progress(std::uint64_t in_file) const {
        if (options_.progress) options_.progress(bytes_read_ + in_file);
    }

    const ReadOptions& options_;
    IdentityBytes& identity_bytes_;
    std::uint64_t& bytes_read_;
    Identifier identifier_;
    input::ClockResolution clock_;
    std::optional<std::uint32_t> last_interface_;  // of the selected frames
};

void TrialReader::read(const std::vector<TrialFile>& files, Trial& trial) {
    // Packets with equal times are in the order of the hashes of their files, so file names do not affect the
    // order.
    std::vector<std::size_t> order(files.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return files[a].sha256 < files[b].sha256; });
    const TimeRange time_range = time_range_of(options_, files);
    trial.files.resize(files.size());
    for (const std::size_t i : order) trial.files[i] = read_file(files[i], time_range, trial);
}

FileInfo TrialReader::read_file(const TrialFile& file, const TimeRange& time_range, Trial& trial) {
    SelectedFrames frames(options_, file.path);
    FileInfo info;
    info.path = file.path;
    info.sha256 = file.sha256;
    clock_ = {};
    last_interface_.reset();
    std::uint64_t selected = 0;
    for (Record record; frames.next(record);) {
        if (++selected % kProgressInterval == 0) progress(frames.offset());
        if (!plausible(record.ts_ns))
            ++info.implausible;
        else if (time_range.contains(record.ts_ns))
            take(record, frames, info, trial);
    }
    info.frames = frames.info().records;
    info.untimed = frames.info().untimed;
    if (info.taken > 0 && info.untimed == info.frames)
        throw TrialError(file.path + ": its " + std::to_string(info.frames) +
                         " frames have no timestamps, and trials are compared by time; use a capture with "
                         "timestamps, or leave this file out");
    if (selected > 0 && info.implausible == selected)
        throw TrialError(file.path + ": its " + std::to_string(selected) +
                         " frames have timestamps outside the years 1970 to 2106, and trials are compared by "
                         "time; correct the timestamps, or leave this file out");
    info.end = input::name_of(frames.info().end);
    info.end_detail = frames.info().end_detail;
    info.clock_resolution_ns = clock_.resolution_ns();
    info.reversals = clock_.reversals();
    bytes_read_ += frames.offset();
    progress(0);
    if (trial.size() > kMaxPackets)
        throw TrialError(file.path + ": the trial has more than 2^32 - 2 packets");
    return info;
}

void TrialReader::take(const Record& record, const SelectedFrames& frames, FileInfo& info, Trial& trial) {
    const Identifier::Found found = identifier_.find(record);
    if (!found.usable) {
        ++info.without_identity;
        return;
    }
    clock_.add(record.ts_ns);
    info.gaps.add(record.ts_ns);
    if (last_interface_ != record.interface_id) {
        last_interface_ = record.interface_id;
        info.declared_ns =
            std::max(info.declared_ns, declared_unit_ns(frames.interfaces()[record.interface_id]));
    }
    ++info.taken;
    info.truncated += record.bytes.size() < record.wire_len;
    identity_bytes_.update(found);
    trial.truncated_identities += found.on_wire > identity_bytes_.length();
    if (!identity_bytes_.hashes_are_valid()) return;  // there will be another pass
    trial.identities.push(identifier_.hash(identity_bytes_.of(found)));
    trial.timestamps.push(record.ts_ns);
}

// Estimates the number of identifying bytes from the first frames of every file, so that a second pass is
// rarely needed.
std::size_t estimate_identity_bytes(const std::vector<std::vector<TrialFile>>& trials,
                                    const ReadOptions& options) {
    constexpr int kFrames = 1000;
    IdentityBytes identity_bytes(kAllBytes);
    Identifier identifier(options.identity);
    for (const auto& files : trials) {
        const TimeRange time_range = time_range_of(options, files);
        for (const TrialFile& file : files) {
            SelectedFrames frames(options, file.path);
            Record record;
            for (int i = 0; i < kFrames && frames.next(record); ++i) {
                if (!plausible(record.ts_ns) || !time_range.contains(record.ts_ns)) continue;
                if (const auto found = identifier.find(record); found.usable) identity_bytes.update(found);
            }
        }
    }
    return identity_bytes.length();
}

}  // namespace

Trials read_trials(const std::vector<std::vector<TrialFile>>& files, const ReadOptions& options,
                   MemoryBudget& budget, std::size_t unsorted) {
    Trials result;
    result.identity_bytes = estimate_identity_bytes(files, options);
    for (int pass = 0; pass < 2; ++pass) {
        IdentityBytes identity_bytes(result.identity_bytes);
        std::uint64_t bytes_read = 0;
        result.trials.clear();
        result.trials.reserve(files.size());
        for (const auto& of_trial : files) {
            TrialReader(options, identity_bytes, bytes_read)
                .read(of_trial, result.trials.emplace_back(budget));
            if (identity_bytes.hashes_are_valid() && result.trials.size() > unsorted)
                finish_trial(result.trials.back(), budget);
        }
        result.identity_bytes = identity_bytes.length();
        if (identity_bytes.hashes_are_valid()) return result;
    }
    throw TrialError(files.front().front().path +
                     ": this or another file of the trials changed while it was read");
}

}  // namespace acapella::kappa
