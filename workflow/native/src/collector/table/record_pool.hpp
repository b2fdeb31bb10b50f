// Flow records written by one thread and read by others, without locks.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "collector/table/flow_state.hpp"

namespace acapella::collector {

struct FlowSnapshot {
    ReportKey key;
    FlowState state;
};

// Each record has a sequence lock: a reader that overlaps with a write reads the record again (Boehm, "Can
// seqlocks get along with programming language memory models?", 2012). Keys never change. The pool grows
// without moving records.
class RecordPool {
  public:
    // A small pool takes little memory, which fuzzing needs.
    explicit RecordPool(std::uint64_t max_records = kMaxRecords)
        : max_records_(static_cast<std::uint32_t>(std::min<std::uint64_t>(max_records, kMaxRecords))),
          blocks_(std::make_unique<std::atomic<Record*>[]>(blocks_of(max_records_))) {}
    RecordPool(const RecordPool&) = delete;
    RecordPool& operator=(const RecordPool&) = delete;
    ~RecordPool() {
        for (std::size_t i = 0; i < blocks_of(size_.load()); ++i)
            ::operator delete(blocks_[i].load(), alignment());
    }

    static constexpr std::uint32_t kMaxRecords = std::uint32_t{1} << 30;
    static constexpr std::size_t record_bytes() { return sizeof(Record); }

    // Thread-safe.
    std::uint32_t size() const { return size_.load(std::memory_order_acquire); }
    FlowSnapshot copy(std::uint32_t row) const;

    // For the writing thread only.
    std::uint32_t add(const ReportKey::Words& key, const FlowState& state);
    // change(FlowState&) must not throw, because readers wait for its end.
    template <typename Change>
    void change(std::uint32_t row, const Change& change);
    ReportKey::Words key(std::uint32_t row) const { return at(row).key(); }
    template <Format kFormat>
    bool has_key(std::uint32_t row, const ReportKey::Words& key) const {
        const Record& stored = at(row);
        if constexpr (kFormat == Format::published)  // the other words are constant
            return ((stored.ends[0] ^ key[0]) | (stored.ends[2] ^ key[2]) | (stored.ends[4] ^ key[4])) == 0;
        else
            return stored.key() == key;
    }
    const FlowState& state(std::uint32_t row) const { return at(row).state; }
    // Prefetches a record, or only the part that a report of the published format changes.
    template <Format kFormat>
    void prefetch(std::uint32_t row) const {
        const char* record = reinterpret_cast<const char*>(&at(row));
        constexpr std::size_t kBytes = kFormat == Format::published ? kOftenChanged : sizeof(Record);
        for (std::size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(record + line);
    }

  private:
    // The tags of the key are stored after the state, because the published format has no tags: its reports
    // access only the first two cache lines.
    struct alignas(64) Record {
        ReportKey::Words key() const {
            return {ends[0], ends[1], ends[2], ends[3], ends[4], tags[0], tags[1], tags[2]};
        }

        std::atomic<std::uint64_t> version{0};  // odd during a write
        std::array<std::uint64_t, 5> ends;
        FlowState state;
        std::array<std::uint64_t, 3> tags;
    };
    static constexpr std::size_t kOftenChanged = 128;
    static_assert(offsetof(Record, state) + offsetof(FlowState, start_ns) <= kOftenChanged);
    static_assert(std::is_trivially_destructible_v<Record>);
    static constexpr std::uint32_t kShift = 15;
    static constexpr std::uint32_t kMask = (std::uint32_t{1} << kShift) - 1;
    static constexpr std::size_t kHugePage = std::size_t{1} << 21;

    static constexpr std::size_t blocks_of(std::uint32_t records) {
        return (std::size_t{records} + kMask) >> kShift;
    }
    std::size_t block_bytes() const {
        return std::min<std::size_t>(max_records_, std::size_t{kMask} + 1) * sizeof(Record);
    }
    std::align_val_t alignment() const {
        return std::align_val_t{block_bytes() < kHugePage ? alignof(Record) : kHugePage};
    }
    Record* new_block() const;
    Record& at(std::uint32_t row) const {
        return blocks_[row >> kShift].load(std::memory_order_relaxed)[row & kMask];
    }

    std::uint32_t max_records_;
    std::unique_ptr<std::atomic<Record*>[]> blocks_;
    std::atomic<std::uint32_t> size_{0};
};

// Flows are accessed in random order, so with 4 KiB pages nearly every lookup would also miss the TLB.
inline RecordPool::Record* RecordPool::new_block() const {
    std::size_t bytes = block_bytes();
    if (bytes >= kHugePage) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* block = ::operator new(bytes, alignment());
    // If madvise fails, access is only slower.
    if (bytes >= kHugePage) ::madvise(block, bytes, MADV_HUGEPAGE);
    return static_cast<Record*>(block);
}

inline std::uint32_t RecordPool::add(const ReportKey::Words& key, const FlowState& state) {
    const std::uint32_t row = size_.load(std::memory_order_relaxed);
    if (row >= max_records_) throw std::bad_alloc();
    if ((row & kMask) == 0) blocks_[row >> kShift].store(new_block(), std::memory_order_release);
    new (&at(row)) Record{{}, {key[0], key[1], key[2], key[3], key[4]}, state, {key[5], key[6], key[7]}};
    size_.store(row + 1, std::memory_order_release);
    return row;
}

template <typename Change>
void RecordPool::change(std::uint32_t row, const Change& change) {
    Record& record = at(row);
    const std::uint64_t version = record.version.load(std::memory_order_relaxed);
    record.version.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    change(record.state);
    record.version.store(version + 2, std::memory_order_release);
}

inline FlowSnapshot RecordPool::copy(std::uint32_t row) const {
    const Record& record = at(row);
    for (;;) {
        const std::uint64_t version = record.version.load(std::memory_order_acquire);
        FlowSnapshot copy{std::bit_cast<ReportKey>(record.key()), record.state};
        std::atomic_thread_fence(std::memory_order_acquire);
        if (version % 2 == 0 && version == record.version.load(std::memory_order_relaxed)) return copy;
    }
}

}  // namespace acapella::collector
